// BulkLink: one connection that carries frames with payloads, both ways at once. Lives on the bulk
// loop.
//
// A record of 96 bytes, then the payload: out of the sender's lease, into the receiver's, with
// nothing between but the socket. A payload that does not move for `stall_s` ends the link.
#pragma once
#include <kj/async-io.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "actors/transport/loop.hpp"
#include "actors/transport/peers.hpp"

namespace grapevine {

struct BulkRecord {
  enum Kind : uint16_t { hello = 0, frame };
  static constexpr uint32_t kMagic = 0x31425647;  // "GVB1"

  uint32_t magic = kMagic;
  uint16_t kind = hello;
  uint16_t unused = 0;
  uint64_t value = 0;    // of a hello: the token
  HeaderBytes header{};  // of a frame
};
static_assert(sizeof(BulkRecord) == 96);

class BulkLink {
 public:
  struct Handlers {
    std::function<Lease(const FrameHeader&)> buffer;
    std::function<void(Frame)> frame;
    std::function<void(const std::string& reason)> closed;  // once, the last call
  };

  BulkLink(kj::Own<kj::AsyncIoStream>, BulkPath, std::shared_ptr<Peer>, Loop&, const LinksOptions&,
           Handlers);
  ~BulkLink();

  void start();
  void flush();  // the queue woke
  void close(const std::string& reason);

 private:
  kj::Promise<void> write_all();
  kj::Promise<void> write_rest(kj::ArrayPtr<const kj::byte>);
  kj::Promise<void> read_record();
  kj::Promise<void> take_record();
  kj::Promise<void> read_frame(const FrameHeader&);
  kj::Promise<void> read_rest(kj::ArrayPtr<kj::byte>);
  kj::Promise<void> discard(uint64_t bytes);
  template <class T>
  kj::Promise<T> in_time(kj::Promise<T> moving);

  kj::Own<kj::AsyncIoStream> stream_;
  std::shared_ptr<Peer> peer_;
  Loop& loop_;
  const LinksOptions& options_;
  Handlers on_;
  bool writing_ = false, closed_ = false;
  std::optional<BulkQueue::Item> sending_;
  BulkRecord out_, in_;
  kj::ArrayPtr<const kj::byte> pieces_[2];
  Lease receiving_;
  kj::Array<kj::byte> scratch_;  // for what is discarded
  kj::Promise<void> reader_ = nullptr, writer_ = nullptr;
};

/// Writes `mine` and reads the other end's hello, as both ends of a new bulk connection do.
kj::Promise<void> write_record(kj::AsyncIoStream&, const BulkRecord& mine);
kj::Promise<void> read_hello(kj::AsyncIoStream&, BulkRecord& theirs);

}  // namespace grapevine
