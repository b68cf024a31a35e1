// Checksum: notices that bytes have changed on their way. 64 bits of what is added in pieces of any
// size; the pieces do not matter. A value.
//
// XXH3 of xxHash, by the widest instructions that the processor has: as fast as memory is read.
// Protects from accidents, not from anybody.
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
  alignas(64) std::byte state_[576];  // the library's, whose header stays in here
};

/// xxHash64 with seed 0: what two nodes tell each other of bytes, so it stays as it is.
uint64_t xxhash64(const void* data, size_t bytes);

}  // namespace grapevine
