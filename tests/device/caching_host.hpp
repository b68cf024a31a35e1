// CachingHost: what LibTorch's allocator of pinned memory does that its callers do not see. A block
// remembers the streams of the copies that it was in, and when it is freed the allocator records an
// event on each of them, to know when it may lend the block again. A record that fails is thrown in
// a destructor that must not throw, so it ends the process. (CachingHostAllocatorImpl::free.)
#pragma once
#include <cstddef>
#include <functional>
#include <vector>

namespace grapevine::testing {

template <class Stream>
class CachingHost {
 public:
  /// `record` is called for each record on a stream; false: it fails.
  explicit CachingHost(std::function<bool(Stream)> record) : record_(std::move(record)) {}

  class Block {
   public:
    explicit Block(CachingHost& home) : home_(home) {}
    Block(const Block&) = delete;
    ~Block() {
      ++home_.freed_;
      for (const Stream& stream : streams_)
        home_.ends_process_ = home_.ends_process_ || !home_.record_(stream);
    }
    void copied_on(Stream stream) { streams_.push_back(stream); }

   private:
    CachingHost& home_;
    std::vector<Stream> streams_;
  };

  bool ends_process() const { return ends_process_; }
  size_t freed() const { return freed_; }  // blocks

 private:
  const std::function<bool(Stream)> record_;
  bool ends_process_ = false;
  size_t freed_ = 0;
};

}  // namespace grapevine::testing
