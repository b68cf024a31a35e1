// SharedMemory: memory that other processes of this host may map and read in place. A resource.
//
// It is a memfd that is sealed so that its size never changes. Unless it is made writable for all,
// only its maker can write it. So a process that maps it never accesses a missing page. The pages
// exist as long as any process maps them, also when the maker is killed.
#pragma once
#include <cstdint>
#include <memory>

#include "kernels/base/descriptor.hpp"
#include "kernels/base/result.hpp"

namespace grapevine {

class SharedMemory {
 public:
  enum class Writers { maker, all };     // all: whoever has the descriptor
  enum class Pages { now, as_written };  // when memory is taken for them

  /// To be written here. Null where the system grants none: a plain buffer does then.
  static std::shared_ptr<SharedMemory> make(size_t bytes, Writers = Writers::maker,
                                            Pages = Pages::now);
  /// Memory of another process, read-only. Takes no ownership of the descriptor. Refuses one that
  /// is not a memfd sealed against shrinking, or holds more than `most_bytes`.
  static Result<std::shared_ptr<const SharedMemory>> map(int fd, uint64_t most_bytes);

  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;

  /// Huge pages for all of it, where the system has any: done for Pages::now.
  void gather();
  /// Whether all of its pages have been written. REQUIRES: made here.
  bool is_filled() const;

  void* data() { return data_; }
  const void* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  int fd() const { return fd_.fd(); }          // of the maker; -1 at others
  uint64_t number() const { return number_; }  // unique among those this process made

 private:
  SharedMemory() = default;

  void* data_ = nullptr;
  size_t bytes_ = 0;
  Descriptor fd_;
  uint64_t number_ = 0;
};

}  // namespace grapevine
