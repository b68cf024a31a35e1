// Links: the connections of a node with its peers. A resource; any thread may call. Abstract, so
// that the same nodes run on the virtual clock, over simulated links.
//
// Each pair of nodes has one control link, however many connections either side tries: messages of
// at most 64 KiB, in order. It costs nothing while idle. Its end is noticed when the peer's process
// dies, but not when that process is stopped; the membership probes for that. Payloads have a
// separate connection, opened when first needed: they go from the sender's lease into the
// receiver's, and are read in place on one host. They belong to frames between two ranks, or to
// parcels between the two nodes (messages/parcel.hpp). Frames without a payload are sent with the
// control messages and may overtake payloads.
//
// On one machine nodes use unix sockets, which accept only processes of the same user. Over TCP a
// run key is required and everything uses mutual TLS 1.3, unless loopback without a key is asked
// for.
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
  std::string listen;     // "host:port" (port 0: any), "unix:/path", or empty: see listen_locally
  std::string advertise;  // the address that others are told, where it is another one
  std::optional<RunKey> key;
  bool no_key = false;          // TCP on loopback without a key: every user here may stop the run
  bool bulk_encryption = true;  // with a key; either end's wish counts
  bool same_host = true;        // try a unix socket and shared memory for payloads
  Hello self;                   // an empty address becomes the one listened on; the key: own_key's
  std::optional<NodeKey> own_key;  // of this process; unset: a new one
  uint64_t max_payload_bytes = kMaxPayloadBytes;
  double connect_s = 2;           // to connect, to agree on TLS and on the hellos
  double stall_s = 2;             // a payload that does not move for so long ends its connection
  size_t queued_bytes = 4 << 20;  // of control messages to one peer
  size_t queued_frames = 64;      // and parcels, with a payload to one peer; each holds a lease
  size_t lent_payloads = 16;      // in shared memory, to all peers together
};

/// Called on a link's thread; must not block or call back into Links' destructor. They post.
struct LinkEvents {
  /// The control link is up; both hellos agree.
  std::function<void(const Hello& peer)> up;
  /// Exactly once per up, unless the Links object goes first. Frames of that incarnation may still
  /// come.
  std::function<void(const std::string& node, uint32_t incarnation, const std::string& reason)>
      down;
  /// Valid (see control_codec.hpp). Never a Hello or the like, which the links keep to themselves,
  /// nor a console's request.
  std::function<void(const std::string& node, ControlMessage)> control;
  /// The header is valid; the payload, if any, has the announced length. Read-only.
  std::function<void(const std::string& node, Frame)> frame;
  /// Valid (see codec.hpp); the payload has the announced length. Read-only.
  std::function<void(const std::string& node, const Parcel&, Payload)> parcel;
  /// A dial ended without up. `refused`: nobody listens there.
  std::function<void(const std::string& address, const std::string& reason, bool refused)>
      dial_failed;
  /// A process other than the one that `know` names claims to be this node, which has no link here:
  /// probe the node.
  std::function<void(const std::string& node)> contested;
  /// A connection was refused here, or an address to dial does not resolve; each once. At most ten
  /// a second are reported.
  std::function<void(const std::string& from, const std::string& reason)> turned_away;
  /// To be answered by reply(console, ...), whose last part has `more` unset.
  std::function<void(uint64_t console, ConsoleRequest)> console;
  std::function<void(uint64_t console)> console_gone;
  /// A connection for payloads ended, or could not be made. `lost`: payloads that were queued for
  /// it, or partly written. While the control link is up, the next payload opens another.
  std::function<void(const std::string& node, uint64_t lost, const std::string& reason)> bulk_ended;
  /// The memory for an incoming payload: at least payload_bytes(header) long. An empty lease: the
  /// bytes are discarded, and no frame is reported.
  std::function<Lease(const FrameHeader&)> buffer;
  std::function<Lease(const std::string& node, const Parcel&)> parcel_buffer;
  /// A process of this host lends memory of its device; keep the line as long as the memory is
  /// used. Returns the handler of its messages. Unset: nothing is borrowed here.
  std::function<LineEvents(const std::string& node, const LentMemory&, std::shared_ptr<MemoryLine>)>
      lent;
};

enum class BulkPath : uint8_t { none = 0, tcp, tls, unix_socket, shared_memory };

/// Since the link is up. Bytes are those of encoded messages and frames.
struct LinkCounts {
  uint64_t messages_sent = 0, messages_received = 0;  // control, header-only frames included
  uint64_t message_bytes_sent = 0, message_bytes_received = 0;
  uint64_t frames_sent = 0, frames_received = 0;  // with a payload
  uint64_t frame_bytes_sent = 0, frame_bytes_received = 0;
  uint64_t parcels_sent = 0, parcels_received = 0;
  uint64_t parcel_bytes_sent = 0, parcel_bytes_received = 0;
  uint64_t in_place_bytes_sent = 0;  // of both, payloads that were read where they lay
  uint64_t refused = 0;              // sends that returned false
  uint64_t discarded = 0;            // payloads that found no buffer
  uint64_t lost = 0;        // payloads queued, or partly written, when their connection ended
  uint64_t corrupt = 0;     // payloads dropped because they were not what their sender summed
  double round_trip_s = 0;  // the kernel's smoothed estimate; 0 where there is none
  BulkPath bulk = BulkPath::none;

  LinkCounts& operator+=(const LinkCounts& more);  // of what is counted
};

/// Why something from another process was rejected.
enum class LinkRefusal : uint8_t {
  message = 0,  // on a control link: malformed, too large, or out of place
  token,        // of a bulk connection: not handed out, shown before, or replaced
  plain,        // a bulk connection in the clear where encryption is demanded
  record,       // on a bulk connection: malformed, or a frame without a payload
  header,       // a frame's header or a parcel that the codec refuses
  memory,       // that is passed: not sealed, too large, or too many
  in_place,     // a payload outside of the memory that it is said to lie in
  release       // of memory that was not lent
};
constexpr size_t kLinkRefusals = 8;
using LinkRefusals = std::array<uint64_t, kLinkRefusals>;  // by reason
constexpr std::array<const char*, kLinkRefusals> kLinkRefusalNames{
    "message", "token", "plain", "record", "header", "memory", "in_place", "release"};

/// Why a process is refused whose name another one has that is linked and answers a ping. One that
/// does not answer within a second is let go for the new one.
constexpr char kNameTaken[] = "another process of this name is in the run and answers";

/// Why a process is refused whose name a member has that has no link here: until it is known that
/// the member is gone.
constexpr char kNameHeld[] = "a member has this name, and it is being probed";

constexpr char kPathByTcp[] = "only a node that listens on a unix socket can dial one";

/// Whether the reason of a failed dial is one that dialling again does not change: another run,
/// job, version or key there, or another process of this name that answers.
bool is_final(std::string_view reason);

/// Why a link is down that one end has closed politely.
constexpr char kSaidGoodbye[] = "the other end has left";
constexpr char kClosedHere[] = "closed here";

class Links {
 public:
  /// The real ones, over sockets. Listens; refuses an address that does not resolve, is in use, or
  /// is off loopback without a key.
  static Result<std::unique_ptr<Links>> open(LinksOptions, LinkEvents);
  /// Sends a bye to all peers, and calls nothing any more once it returns.
  virtual ~Links() = default;

  /// The address for other nodes: as given, with the actual port, and with this host's address if
  /// it listens on all.
  virtual const std::string& address() const = 0;

  /// Of this process, as in its Hello.
  virtual const PublicKey& key() const = 0;

  /// Sets the process that owns the name, by its id, for as long as it is alive; 0: any. A link
  /// with another process of the name ends.
  virtual void know(const std::string& node, uint64_t id) = 0;

  /// Ends in up or in dial_failed, within twice connect_s.
  virtual void dial(const std::string& address) = 0;

  /// False: the queue is full or there is no link. Nothing is ever retried here. REQUIRES: valid.
  virtual bool send(const std::string& node, const ControlMessage&) = 0;
  /// The payload is empty for a frame without one. REQUIRES: `payload` holds what the header says.
  /// `spoiled_bit` of the payload is turned over after it has been summed, for plans that corrupt;
  /// such a payload always travels by socket.
  virtual bool send_frame(const std::string& node, const FrameHeader&, const Payload&,
                          std::optional<uint64_t> spoiled_bit = {}) = 0;
  /// The same of a parcel, which always has a payload.
  virtual bool send_parcel(const std::string& node, const Parcel&, const Payload&) = 0;

  /// Offers memory of a device here to a process of this host. Null: there is no payload connection
  /// that can pass descriptors.
  virtual std::shared_ptr<MemoryLine> lend(const std::string& node, const LentMemory&,
                                           LineEvents) = 0;

  /// Nothing happens if the console is gone. A text above the bound or not printable ASCII is
  /// answered by the reason.
  virtual void reply(uint64_t console, const ConsoleReply&) = 0;

  /// Ends the link in order: queued messages are sent first, for half a second at most.
  virtual void close(const std::string& node) = 0;

  /// All zero where there is no link.
  virtual LinkCounts counts(const std::string& node) const = 0;
  /// Of all links together since these were opened, those that have ended among them: never less
  /// than it was. Without round trip and path.
  virtual LinkCounts totals() const = 0;
  /// Of all others together, since the links were opened: who has lost its link is counted, too.
  virtual LinkRefusals refusals() const = 0;
};

}  // namespace grapevine
