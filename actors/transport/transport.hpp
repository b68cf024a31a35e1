// Transport: delivers frames between ranks, and reports when it cannot. Every message between ranks
// passes this interface; delays, losses and cuts act here and know no method.
//
// A frame is a header and a lease. Inside a process both are passed unchanged. Between processes
// the links encode the header, and the receiver decodes it once: a header in a Frame is valid.
#pragma once
#include <functional>
#include <utility>

#include "kernels/memory/lease.hpp"
#include "messages/codec.hpp"

namespace grapevine {

struct Frame {
  FrameHeader header;
  Lease payload;
};

/// The payload that the header announces, from the lease; empty if there is none or the lease is
/// too small.
inline Payload payload_of(const FrameHeader& h, Lease lease) {
  if (!lease || lease.vec().bytes() < payload_bytes(h)) return {};
  return {std::move(lease), h.dtype, static_cast<size_t>(h.count), h.version};
}

class Transport {
 public:
  virtual ~Transport() = default;

  /// Sends at `now`. The payload is empty for kinds without one. Returns the bytes put on the link
  /// (0: refused, or the receiver is unknown). A frame that the link loses was still sent. Any
  /// thread.
  virtual uint64_t send(double now, const FrameHeader&, Lease payload) = 0;
};

/// In one process: the frame is in the receiver's mailbox when send returns.
class LocalTransport final : public Transport {
 public:
  using Deliver = std::function<void(int to, Frame)>;

  explicit LocalTransport(Deliver deliver) : deliver_(std::move(deliver)) {}

  uint64_t send(double, const FrameHeader& header, Lease payload) override {
    deliver_(static_cast<int>(header.to), {header, std::move(payload)});
    return frame_bytes(header);
  }

 private:
  Deliver deliver_;
};

}  // namespace grapevine
