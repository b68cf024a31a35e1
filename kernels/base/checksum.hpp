// Checksum: detects changed bytes with 64 bits. Data is added in pieces of any size; the division
// into pieces does not matter. A value.
//
// XXH3 of xxHash, with the widest instructions of the processor: as fast as memory is read. It
// protects against accidents, not against attacks.
#pragma once
#include <cstddef>
#include <cstdint>

namespace grapevine {

class Checksum {
 public:
  Checksum();
  void add(const void* data, size_t bytes);
  uint64_t value() const;

 private:
  alignas(64) std::byte state_[576];  // the library's state; its header is not included here
};

/// xxHash64 with seed 0. Nodes send it to each other, so it must never change.
uint64_t xxhash64(const void* data, size_t bytes);

}  // namespace grapevine
