// SharedMemory: memory that other processes of this host may map and read in place. A resource.
//
// It is a memfd, sealed so that its size never changes. So a process that maps it never accesses a
// missing page. Unless all may write it, only its maker can. The pages exist as long as any process
// maps them, even after the maker is killed.
#pragma once
#include <cstdint>
#include <memory>

#include "kernels/base/descriptor.hpp"
#include "kernels/base/result.hpp"
#include "kernels/memory/pin.hpp"

namespace grapevine {

class SharedMemory {
 public:
  enum class Writers { maker, all };     // all: every process with the descriptor
  enum class Pages { now, as_written };  // when the pages are allocated

  /// Creates writable memory. Null: the system grants none; use a plain buffer then.
  static std::shared_ptr<SharedMemory> make(size_t bytes, Writers = Writers::maker,
                                            Pages = Pages::now);
  /// Maps memory of another process, read-only. The caller still owns the descriptor. Errors: it is
  /// no memfd sealed against shrinking, or holds more than `most_bytes`.
  static Result<std::shared_ptr<const SharedMemory>> map(int fd, uint64_t most_bytes);

  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;

  /// Puts all of it on huge pages if the system has any; make() with Pages::now has done it.
  void gather();
  /// Whether all of its pages have been written. REQUIRES: made here.
  bool is_filled() const;

  void* data() { return data_; }
  const void* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  int fd() const { return fd_.fd(); }          // the maker's; -1 in other processes
  uint64_t number() const { return number_; }  // unique among those that this process made
  Pin& pin() const { return pin_; }            // for the owner of a device; of one mapped here

 private:
  SharedMemory() = default;

  void* data_ = nullptr;
  size_t bytes_ = 0;
  Descriptor fd_;
  uint64_t number_ = 0;
  mutable Pin pin_;
};

}  // namespace grapevine
