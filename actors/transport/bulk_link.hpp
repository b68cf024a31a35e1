// BulkLink: one connection for frames with payloads and for parcels, in both directions at once.
// Runs on the bulk loop. A violation of the protocol ends the link, and is counted by its reason.
//
// A payload goes from the sender's lease (outgoing_payload.hpp) through the socket into the
// receiver's lease. A payload with a wrong checksum is dropped and counted. If a payload makes no
// progress for `stall_s`, the link ends.
//
// On one host a payload in shared memory is not sent: the descriptor of its memory is passed once,
// then a record names the memory, and no checksum is computed. The receiver copies the payload at
// once, because the sender may write to it again and the checked bytes must be the used bytes; then
// it releases the memory. With `frames_in_place` the copy is left to the user of the frame (a
// device copies it to its own memory), and the memory is released with the last lease. The sender
// keeps its lease until then. If the link ends before that, the sender leaves the memory to the
// receiver. It lends a process few payloads at a time, and all processes together only a part of
// the slots. It lends no more to a process that has kept some over several links. Other payloads go
// through the socket.
#pragma once
#include <kj/async-io.h>
#include <kj/io.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "actors/transport/loop.hpp"
#include "actors/transport/peers.hpp"
#include "kernels/base/descriptor.hpp"
#include "kernels/memory/shared_memory.hpp"

namespace grapevine {

/// An open connection.
struct BulkStream {
  kj::Own<kj::AsyncIoStream> stream;
  kj::AsyncCapabilityStream* unix_socket = nullptr;  // the same stream, if it can pass descriptors
  BulkPath path = BulkPath::none;
};

/// The loans over all bulk links of a process.
struct LentInAll {
  size_t payloads = 0;
  std::map<uint64_t, int> kept_by;  // per process: links that ended while it held a loan
};

class BulkLink {
 public:
  using Closed = std::function<void(const std::string& reason)>;  // once, the last call
  using Line = std::function<void(Descriptor)>;                   // the other end lends memory

  /// Arrivals are passed to `events`.
  BulkLink(BulkStream, std::shared_ptr<Peer>, Loop&, const LinksOptions&, const LinkEvents& events,
           RefusalCounters&, LentInAll&, Line, Closed);
  ~BulkLink();

  void start();
  void flush();  // the queue has woken the loop
  /// Passes the other end of a memory line, if the stream can pass descriptors.
  void pass(Descriptor line);
  void close(const std::string& reason);
  void stop() { closed_ = true; }  // for the board: the queue now belongs to another link
  size_t under_way() const { return sending_.has_value(); }  // partly written payloads

 private:
  kj::Promise<void> write_all();
  kj::Promise<void> write_payload();
  void count_sent();
  kj::Promise<size_t> read_some(void* to, size_t least, size_t most);
  kj::Promise<void> read_record();
  kj::Promise<void> take_record();
  Result<BulkHeader> header_of_record() const;
  kj::Promise<void> read_payload(const BulkHeader&);
  Lease buffer_for(const BulkHeader&) const;
  void arrived(const BulkHeader&, Lease payload) const;
  kj::Promise<void> copy_in_place(const BulkHeader&);
  void hand_on(const FrameHeader&, std::shared_ptr<const SharedMemory>);
  kj::Promise<void> copy(std::shared_ptr<const SharedMemory>, uint64_t from, uint64_t size);
  void refuse(LinkRefusal, const std::string& reason);
  void release(uint64_t memory);  // of the other end, which has been read
  void take_memory();
  void released(uint64_t number);  // by the other end
  bool lends(const OutgoingPayload&) const;
  kj::Promise<void> lend();
  kj::Promise<void> write_releases();
  kj::Promise<void> write_line();
  kj::Promise<void> read_rest(kj::ArrayPtr<kj::byte>);
  kj::Promise<void> discard(uint64_t bytes);
  enum class Way { in, out };
  template <class T>
  kj::Promise<T> in_time(kj::Promise<T> moving, Way way);
  kj::Promise<void> standstill(Way, uint64_t acknowledged_bytes, int checks);

  using Memories = std::map<uint64_t, std::shared_ptr<const SharedMemory>>;

  kj::Own<kj::AsyncIoStream> stream_;
  kj::AsyncCapabilityStream* unix_socket_;
  const bool over_tcp_;
  std::shared_ptr<Peer> peer_;
  Loop& loop_;
  const LinksOptions& options_;
  const LinkEvents& events_;
  RefusalCounters& refusals_;
  const Line on_line_;
  const Closed on_closed_;
  bool writing_ = false, closed_ = false;
  std::optional<OutgoingPayload> sending_;
  BulkRecord lending_, telling_, in_;
  int passing_ = -1;
  kj::ArrayPtr<const kj::byte> pieces_[3];
  Checksum sum_in_;
  uint64_t heard_sum_ = 0;
  Lease receiving_;
  kj::Array<kj::byte> scratch_;  // for discarded bytes
  std::set<uint64_t> told_;      // memories of ours that the other end has mapped
  LentInAll& lent_in_all_;
  std::multimap<uint64_t, Lease> lent_;
  Memories mapped_;         // memories of the other end, by its numbers
  size_t handed_on_ = 0;    // frames in them that are in use
  kj::AutoCloseFd passed_;  // the descriptor that came with the last record
  std::vector<BulkRecord> releases_, releasing_;
  std::vector<Descriptor> lines_;  // to pass
  std::shared_ptr<void> alive_ = std::make_shared<int>(0);
  kj::Promise<void> reader_ = nullptr, writer_ = nullptr;
};

template <class T>
kj::Promise<T> BulkLink::in_time(kj::Promise<T> moving, Way way) {
  auto still = standstill(way, 0, 0);
  if constexpr (std::is_void_v<T>) {
    return moving.exclusiveJoin(kj::mv(still));
  } else {
    return moving.exclusiveJoin(still.then([]() -> T { KJ_UNREACHABLE; }));
  }
}

/// Writes `mine` and reads the other end's hello; both ends of a new bulk connection do so.
kj::Promise<void> write_record(kj::AsyncIoStream&, const BulkRecord& mine);
kj::Promise<void> read_hello(kj::AsyncIoStream&, BulkRecord& theirs);

}  // namespace grapevine
