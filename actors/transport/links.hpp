// Links: the connections of a node with its peers. Any thread may call it. Abstract, so that the
// same nodes run on the virtual clock, over simulated links.
//
// Each pair of nodes has one control link, even if both sides dial: messages of at most 64 KiB, in
// order. It costs nothing while idle. Its end is noticed when the peer's process dies, but not when
// that process is stopped; the membership probes for that. Payloads have a separate connection,
// opened when first needed: they go from the sender's lease into the receiver's, and on one host
// through shared memory (bulk_link.hpp). They belong to frames between two ranks, or to parcels
// between the two nodes (messages/parcel.hpp). Frames without a payload are sent with the control
// messages and may overtake payloads.
//
// On one machine nodes use unix sockets, which accept only processes of the same user. TCP requires
// a run key and uses mutual TLS 1.3, except on loopback if no key is asked for.
#pragma once
#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "actors/transport/memory_line.hpp"
#include "actors/transport/node_key.hpp"
#include "actors/transport/run_key.hpp"
#include "actors/transport/transport.hpp"
#include "messages/control.hpp"

namespace grapevine {

struct LinksOptions {
  std::string listen;     // "host:port" (port 0: any), "unix:/path"; empty: listen_locally()
  std::string advertise;  // the address that others are told, if it differs
  std::optional<RunKey> key;
  bool no_key = false;             // TCP on loopback without a key: any user here may stop the run
  bool bulk_encryption = true;     // with a key; one end that asks for it is enough
  bool same_host = true;           // try a unix socket and shared memory for payloads
  Hello self;                      // an empty address becomes the listening one; the key: own_key's
  std::optional<NodeKey> own_key;  // of this process; none: a new one
  uint64_t max_payload_bytes = kMaxPayloadBytes;
  double connect_s = 2;           // to connect, with TLS and hellos
  double stall_s = 2;             // a payload without progress for this time ends its connection
  size_t queued_bytes = 4 << 20;  // of control messages to one peer
  size_t queued_frames = 64;      // and parcels, per peer; each holds a lease
  size_t lent_payloads = 16;      // in shared memory, to all peers together
  // Frames in shared memory of a peer are reported as they are; see LinkEvents::frame.
  bool frames_in_place = false;
};

/// Called on a link's thread. A handler must not block or destroy Links; it posts.
struct LinkEvents {
  /// The control link is up; both hellos agree.
  std::function<void(const Hello& peer)> up;
  /// Once per `up`, unless the Links object is destroyed first. Frames of that incarnation may
  /// still come.
  std::function<void(const std::string& node, uint32_t incarnation, const std::string& reason)>
      down;
  /// A valid message (see control_codec.hpp), but no Hello and the like, which the links handle,
  /// and no request of a console.
  std::function<void(const std::string& node, ControlMessage)> control;
  /// The header is valid, and the payload, if any, has the announced length. Read-only. With
  /// LinksOptions::frames_in_place the payload may be in memory that the peer can still write: copy
  /// it once, then check and use the copy. The peer gets its memory back with the last lease.
  std::function<void(const std::string& node, Frame)> frame;
  /// Valid (see codec.hpp), with a payload of the announced length. Read-only.
  std::function<void(const std::string& node, const Parcel&, Payload)> parcel;
  /// A dial ended without `up`. `refused`: no process listens there.
  std::function<void(const std::string& address, const std::string& reason, bool refused)>
      dial_failed;
  /// A process claims the name of this node but is not the one that know() named. There is no link
  /// with the node: probe it.
  std::function<void(const std::string& node)> contested;
  /// A connection was refused here, or a dialled address does not resolve; each once. At most ten
  /// reports a second.
  std::function<void(const std::string& from, const std::string& reason)> turned_away;
  /// Answer it by reply(console, ...). In the last part `more` is unset.
  std::function<void(uint64_t console, ConsoleRequest)> console;
  std::function<void(uint64_t console)> console_gone;
  /// A connection for payloads ended, or could not be made. `lost`: payloads that were queued for
  /// it or partly written. While the control link is up, the next payload opens a new one.
  std::function<void(const std::string& node, uint64_t lost, const std::string& reason)> bulk_ended;
  /// The memory for an incoming payload, of at least payload_bytes(header). An empty lease: the
  /// bytes are discarded, and no frame is reported.
  std::function<Lease(const FrameHeader&)> buffer;
  std::function<Lease(const std::string& node, const Parcel&)> parcel_buffer;
  /// A process of this host lends memory of its device. Keep the line as long as the memory is
  /// used. Returns the handler of its messages. Unset: this process borrows nothing.
  std::function<LineEvents(const std::string& node, const LentMemory&, std::shared_ptr<MemoryLine>)>
      lent;
};

enum class BulkPath : uint8_t { none = 0, tcp, tls, unix_socket, shared_memory };

/// Since the link is up, in bytes of encoded messages and frames.
struct LinkCounts {
  uint64_t messages_sent = 0, messages_received = 0;  // control, with frames without a payload
  uint64_t message_bytes_sent = 0, message_bytes_received = 0;
  uint64_t frames_sent = 0, frames_received = 0;  // with a payload
  uint64_t frame_bytes_sent = 0, frame_bytes_received = 0;
  uint64_t parcels_sent = 0, parcels_received = 0;
  uint64_t parcel_bytes_sent = 0, parcel_bytes_received = 0;
  uint64_t in_place_bytes_sent = 0;  // of frames and parcels: payloads that were read in place
  uint64_t refused = 0;              // sends that returned false
  uint64_t discarded = 0;            // payloads without a buffer
  // Payloads that were queued or partly written when their connection ended.
  uint64_t lost = 0;
  uint64_t corrupt = 0;     // payloads that were dropped for a wrong checksum
  double round_trip_s = 0;  // the kernel's smoothed estimate; 0: none
  BulkPath bulk = BulkPath::none;

  LinkCounts& operator+=(const LinkCounts& more);  // sums the counts
};

/// Why data from another process was refused.
enum class LinkRefusal : uint8_t {
  message = 0,  // on a control link: malformed, too large, or out of place
  token,        // of a bulk connection: unknown, used before, or replaced
  plain,        // an unencrypted bulk connection where encryption is required
  record,       // on a bulk connection: malformed, or a frame without a payload
  header,       // an invalid header of a frame or parcel
  memory,       // passed memory: not sealed, too large, or too many
  in_place,     // a payload outside its announced memory
  release       // a release of memory that was not lent
};
constexpr size_t kLinkRefusals = 8;
using LinkRefusals = std::array<uint64_t, kLinkRefusals>;  // by reason
constexpr std::array<const char*, kLinkRefusals> kLinkRefusalNames{
    "message", "token", "plain", "record", "header", "memory", "in_place", "release"};

/// The refusal of a process if another process with its name is linked and answers a ping. If that
/// one does not answer within a second, the new process replaces it.
constexpr char kNameTaken[] = "another process of this name is in the run and answers";

/// The refusal of a process if a member with its name has no link here, until the member is known
/// to be gone.
constexpr char kNameHeld[] = "a member has this name, and it is being probed";

constexpr char kPathByTcp[] = "only a node that listens on a unix socket can dial one";

/// Whether dialling again cannot help: there is another run, job, version or key there, or another
/// process of this name that answers.
bool is_final(std::string_view reason);

/// The reason of `down` after a polite end of a link.
constexpr char kSaidGoodbye[] = "the other end has left";
constexpr char kClosedHere[] = "closed here";

class Links {
 public:
  /// Real links, over sockets. Listens. Refuses an address that does not resolve, is in use, or is
  /// beyond loopback without a key.
  static Result<std::unique_ptr<Links>> open(LinksOptions, LinkEvents);
  /// Sends a bye to all peers. No handler is called after it returns.
  virtual ~Links() = default;

  /// The address for other nodes: the given one with the actual port, and with this host's address
  /// if it listens on all.
  virtual const std::string& address() const = 0;

  /// Of this process, as in its Hello.
  virtual const PublicKey& key() const = 0;

  /// Sets the process of this name, by its id, for as long as it is alive; 0: any. A link with
  /// another process of the name ends.
  virtual void know(const std::string& node, uint64_t id) = 0;

  /// Ends in `up` or in `dial_failed`, within twice connect_s.
  virtual void dial(const std::string& address) = 0;

  /// False: the queue is full or there is no link. Nothing is ever sent again here. REQUIRES:
  /// valid.
  virtual bool send(const std::string& node, const ControlMessage&) = 0;
  /// The payload is empty for a frame without one. REQUIRES: `payload` has the contents that the
  /// header announces. `spoiled_bit` of the payload is flipped after its checksum, for plans that
  /// corrupt; such a payload always goes through a socket.
  virtual bool send_frame(const std::string& node, const FrameHeader&, const Payload&,
                          std::optional<uint64_t> spoiled_bit = {}) = 0;
  /// The same for a parcel, which always has a payload.
  virtual bool send_parcel(const std::string& node, const Parcel&, const Payload&) = 0;

  /// Offers memory of a device here to a process of this host. Null: there is no payload connection
  /// that can pass descriptors.
  virtual std::shared_ptr<MemoryLine> lend(const std::string& node, const LentMemory&,
                                           LineEvents) = 0;

  /// Does nothing if the console is gone. If the text is too long or not printable ASCII, the
  /// console gets this reason instead.
  virtual void reply(uint64_t console, const ConsoleReply&) = 0;

  /// Ends the link in order: queued messages are sent first, for at most half a second.
  virtual void close(const std::string& node) = 0;

  /// All zero if there is no link.
  virtual LinkCounts counts(const std::string& node) const = 0;
  /// The sum over all links so far, also ended ones: it never falls. Without round trip and path.
  virtual LinkCounts totals() const = 0;
  /// The sum over all other processes so far, also without a link.
  virtual LinkRefusals refusals() const = 0;
};

}  // namespace grapevine
