// ControlMessage: the messages of two nodes on their control link. Values.
//
// Headers of frames without a payload are sent here too; payloads have a separate link. All sizes
// are bounded by the constants below, so the largest message fits into kControlBytes; strings are
// one line of printable ASCII. Received data is never used as a path and never executed.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "messages/console.hpp"
#include "messages/frame.hpp"
#include "messages/keys.hpp"
#include "messages/parcel.hpp"

namespace grapevine {

constexpr uint16_t kControlVersion = 4;      // between nodes
constexpr uint16_t kConsoleVersion = 3;      // between a console and a node
constexpr uint16_t kOldestConsole = 2;       // of consoles, that is understood as well
constexpr size_t kControlBytes = 64 * 1024;  // of an encoded message, at most
constexpr size_t kNameBytes = 63;            // of a node's name; of a run's
constexpr size_t kAddressBytes = 255;
constexpr size_t kLineBytes = 511;       // of a reason, or of a job in words
constexpr size_t kSettingsBytes = 1279;  // of the settings of a run, in lines
constexpr size_t kSpecBytes = 4095;      // of a topology's spec
constexpr size_t kMaxNews = 32;          // members in one packet
constexpr size_t kMaxRateFacts = 32;     // in one packet
constexpr size_t kMaxWorkFacts = 16;     // likewise
constexpr size_t kMaxRates = 16;         // edges in one fact
constexpr size_t kMaxNumbers = 16;       // that go along with a snapshot
constexpr size_t kMaxGone = 64;          // ranks of one node that have died or were reborn
constexpr size_t kMaxUnreachable = 16;   // of one node
constexpr uint64_t kMaxCount = uint64_t{1} << 53;   // of steps, rounds and the like
constexpr uint32_t kIncarnationsAtMost = 1u << 24;  // of a node

enum class LinkPurpose : uint8_t { control = 0, console };

/// The first message in each direction. Both ends must agree on version, run, job and each of the
/// settings that both name (a console only on the version). If they differ, the reason goes to the
/// other end as a Refusal. A process that wants to join first asks as a console, and starts with
/// the settings that it is told.
struct Hello {
  uint16_t version = kControlVersion;
  LinkPurpose purpose = LinkPurpose::control;
  std::string run;           // the run's name
  uint64_t job = 0;          // hash of what both must agree on: method, layout, dtype
  std::string job_is;        // the same in words, for the refusal
  std::string node;          // the sender's name
  uint32_t incarnation = 0;  // the sender's: grows with each start
  std::string address;       // where the sender listens, "host:port"
  PublicKey key = {};        // of the sender's process: two of one name differ; 0 for a console
  Challenge challenge = {};  // that the other end's Agree is to sign, chosen for this connection
  std::string settings;      // "name=value" lines: what all nodes of the run have alike
  std::string defaults;      // likewise: of a node that joins and is told nothing else
  bool operator==(const Hello&) const = default;
};

/// Why the sender closes the link; its last message.
struct Refusal {
  std::string reason;  // one line
  bool operator==(const Refusal&) const = default;
};

/// A link's own end, so that a cut cannot look like one.
struct Bye {
  bool operator==(const Bye&) const = default;
};

/// Selects this connection among all of this pair of nodes. The node with the higher name offers
/// one connection at a time; the other node confirms it with the same message. It proves that the
/// sender has the key that its Hello names.
struct Agree {
  Signature proof = {};  // of link_bytes (facts.hpp)
  bool operator==(const Agree&) const = default;
};

/// The token that the peer must show, once, on the bulk link that it dials. A token of 0: please
/// dial now.
struct BulkToken {
  uint64_t token = 0;
  bool encrypted = false;  // the sender wants the bulk link encrypted
  std::string same_host;   // a name in its network namespace where its unix socket listens
  bool operator==(const BulkToken&) const = default;
};

enum class MemberState : uint8_t { alive = 0, suspect, dead, left };

/// A rank whose incarnation is not its node's: it lives in `incarnation`, or it is gone and
/// `incarnation` was its last.
struct RankGone {
  uint32_t rank = 0, incarnation = 0;
  bool lives = false;
  bool operator==(const RankGone&) const = default;
};

/// A mean of all ranks that a node has (actors/cluster).
struct MeanTold {
  uint64_t number = 0;  // 0: none
  uint64_t hash = 0;
  bool operator==(const MeanTold&) const = default;
};

/// The statement of a node about itself, which it signs (facts.hpp), and what other nodes say of
/// it: that it is suspect or dead, and which node says so. A record is newer by (incarnation; in
/// the graph, with more changes of its ranks, dead or left; refutations; state), in this order. An
/// incarnation that was declared dead stays dead, because the exchanges with it were dropped; the
/// node continues with the next one.
struct Member {
  std::string node;
  uint32_t incarnation = 0;                // 1, 2, ...: grows with each start
  uint32_t refutations = 0;                // within this incarnation, raised with each change
  MemberState state = MemberState::alive;  // not signed, but for the last word
  std::string address;                     // where it listens
  uint32_t first_rank = 0, ranks = 0;
  bool ready = true;                  // its ranks have their state: they belong to the graph
  bool finished = false;              // its workers have done their share
  uint32_t accuser = 0;               // of a suspect: hash of the name of who says so; not signed
  PublicKey key = {};                 // of the process, as in its Hello
  std::vector<RankGone> gone;         // of its ranks, by rising rank; at most kMaxGone
  std::vector<uint64_t> unreachable;  // hashes of names, rising: nodes that it cannot reach itself
  MeanTold mean;
  MemberState last_word = MemberState::alive;  // its own: alive, or it has left
  uint32_t generation = 0;                     // of the run: a resumed one has a later one
  bool stops = false;        // it wants the run to stop: all finish what they have begun
  uint32_t means_asked = 0;  // how many means of all ranks it has asked for
  uint64_t life = 0;         // of the process that says so: another each time that it is started
  Signature signature = {};
  bool operator==(const Member&) const = default;
};

/// The requested graph, signed by the node that requested it. Of two, the one with the higher
/// (version, node) wins at all nodes. Version 0 is the first graph, which no node has requested.
struct GraphSpec {
  uint64_t version = 0;
  std::string node;  // who asked for it
  std::string topology;
  PublicKey key = {};  // of who asked for it
  Signature signature = {};
  bool operator==(const GraphSpec&) const = default;
};

/// A measured rate of exchanges, i < j.
struct EdgeRate {
  uint32_t i = 0, j = 0;
  double per_second = 0;
  bool operator==(const EdgeRate&) const = default;
};

/// The rates that a member has measured on its own edges, signed. Of two with one member and part,
/// the later (incarnation, number) counts.
struct RateFact {
  uint64_t owner = 0;  // its id
  uint32_t incarnation = 0, part = 0;
  uint64_t number = 0;
  std::vector<EdgeRate> rates;
  Signature signature = {};
  bool operator==(const RateFact&) const = default;
};

/// How much of the run's work the ranks of a member have done, in all lives of its process; signed.
/// Of two of one member the later number counts, if it does not have fewer gradients.
struct WorkFact {
  uint64_t owner = 0;     // its id
  uint64_t number = 0;    // grows, across lives
  uint64_t taken = 0;     // gradients: steps that are done
  double per_second = 0;  // at which they are taken now
  Signature signature = {};
  bool operator==(const WorkFact&) const = default;
};

/// Failure detection, and the facts that are piggybacked on it (actors/membership/membership.hpp).
struct MembershipPacket {
  // ping_request: probe `target` for me, answered by an ack with that target or by a nack: it has
  // not answered me yet, but I am here. sync: `sequence` is the digest of all I know. sync_reply:
  // news that were not asked for; the last one of a whole view carries its digest, others 0.
  enum class Kind : uint8_t { ping = 0, ack, ping_request, nack, sync, sync_reply };
  Kind kind = Kind::ping;
  uint64_t sequence = 0;
  std::string target;  // of ping_request, of its ack and of nack
  std::vector<Member> news;
  GraphSpec graph;  // without a topology: nothing is said of it
  std::vector<RateFact> rates;
  std::vector<WorkFact> work;
  bool operator==(const MembershipPacket&) const = default;
};

/// Asks for a snapshot of a rank's vectors.
struct FetchState {
  uint64_t transfer = 0;  // the asker's number
  uint32_t rank = 0;
  std::vector<uint32_t> pieces;  // empty: the manifest first
  bool operator==(const FetchState&) const = default;
};

/// The contents of a snapshot. Pieces are sent as parcels (StatePiece), each checked against its
/// hash.
struct Manifest {
  uint64_t transfer = 0;
  std::string refused;  // not empty: why there is none
  DType dtype = DType::f32;
  uint32_t vectors = 0;  // x, x~, momentum, ... in the rule's order
  uint64_t count = 0;    // elements of each
  uint32_t ranks = 1;    // that are in the sum
  uint64_t gradients = 0;
  double usual_step = 0;  // of the rank: the length that its steps have (actors/guard)
  uint64_t piece_bytes = 0;
  std::vector<uint64_t> hashes;   // by piece
  std::vector<uint64_t> numbers;  // counters that go along, in the rule's order
  bool operator==(const Manifest&) const = default;
};

/// Of a communicator of NCCL that a GPU of each of two nodes may have for itself
/// (actors/device/nccl_links.hpp): its sender has begun to connect, and waits for the other end.
struct NcclConnect {
  std::array<std::byte, 128> id = {};  // NCCL's own: plain bytes, of which nothing can be checked
  uint32_t version = 0;                // of NCCL
  bool operator==(const NcclConnect&) const = default;
};

/// No further payload goes by NCCL between the two on this link.
struct NcclEnd {
  enum class Reason : uint8_t {
    unwanted = 0,  // the sender's --link is another one
    version,       // the sender's NCCL is another one
    full,          // the sender can take no communicator now
    out_of_place,  // the receiver has said what has no place
    broken         // the sender's communicator has broken, or could not be made
  };
  Reason reason = Reason::unwanted;
  bool operator==(const NcclEnd&) const = default;
};

/// Shall this payload go in exchange `number`? Numbers are at least 1.
struct NcclRequest {
  uint64_t number = 0;
  uint64_t room_bytes = 0;  // for a payload that comes back; 0: none may
  FrameHeader header;       // announces a payload
  bool operator==(const NcclRequest&) const = default;
};

/// Yes: the sender has begun it.
struct NcclGrant {
  uint64_t number = 0;
  std::optional<FrameHeader> header;  // of what comes back in it
  bool operator==(const NcclGrant&) const = default;
};

struct NcclDecline {
  uint64_t number = 0;
  bool operator==(const NcclDecline&) const = default;
};

/// The messages of two nodes about their communicator.
struct NcclTalk {
  uint64_t edge = 0;  // of which one: chosen by who connects, not the same again
  std::variant<NcclConnect, NcclEnd, NcclRequest, NcclGrant, NcclDecline> what = {};
  bool operator==(const NcclTalk&) const = default;
};

using ControlMessage =
    std::variant<Hello, Refusal, Bye, Agree, BulkToken, FrameHeader, MembershipPacket, FetchState,
                 Manifest, ConsoleRequest, ConsoleReply, MeanAsk, NcclTalk>;

}  // namespace grapevine
