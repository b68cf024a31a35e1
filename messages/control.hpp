// ControlMessage: the messages of two nodes on their control link. Values.
//
// Headers of frames without a payload are sent here, too; payloads have a separate link. The
// constants below bound all sizes, so the largest message fits into kControlBytes. Strings are one
// line of printable ASCII. Received data is never used as a path and never executed.
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

constexpr uint16_t kControlVersion = 6;      // between nodes
constexpr uint16_t kConsoleVersion = 3;      // between a console and a node
constexpr uint16_t kOldestConsole = 2;       // the oldest console version still understood
constexpr size_t kControlBytes = 64 * 1024;  // of an encoded message, at most
constexpr size_t kNameBytes = 63;            // in a node's name and in a run's
constexpr size_t kAddressBytes = 255;
constexpr size_t kLineBytes = 511;                  // in a reason, or in the description of a job
constexpr size_t kSettingsBytes = 1279;             // in the settings of a run, as lines
constexpr size_t kSpecBytes = 4095;                 // in a topology's spec
constexpr size_t kMaxNews = 32;                     // members in one packet
constexpr size_t kMaxRateFacts = 32;                // in one packet
constexpr size_t kMaxWorkFacts = 16;                // in one packet
constexpr size_t kMaxRates = 16;                    // edges in one fact
constexpr size_t kMaxNumbers = 16;                  // with a snapshot
constexpr size_t kMaxGone = 64;                     // of one node: ranks that died or were restored
constexpr size_t kMaxUnreachable = 16;              // of one node
constexpr uint64_t kMaxCount = uint64_t{1} << 53;   // of steps, rounds and similar counters
constexpr double kMaxClock_s = 1e9;                 // of a node
constexpr uint32_t kIncarnationsAtMost = 1u << 24;  // of a node

enum class LinkPurpose : uint8_t { control = 0, console };

/// The first message in each direction. Both ends must agree on version, run, job and each setting
/// that both name (a console only on the version). If they differ, the other end gets the reason as
/// a Refusal. A process that wants to join first connects as a console, and starts with the
/// settings that it receives.
struct Hello {
  uint16_t version = kControlVersion;
  LinkPurpose purpose = LinkPurpose::control;
  std::string run;           // the run's name
  uint64_t job = 0;          // hash of the method, layout and dtype, which must agree
  std::string job_is;        // the same in words, for the refusal
  std::string node;          // the sender's name
  uint32_t incarnation = 0;  // the sender's: grows with each start
  std::string address;       // where the sender listens, "host:port"
  // Of the sender's process: tells apart two of one name; 0 for a console.
  PublicKey key = {};
  Challenge challenge = {};  // for this connection; the other end's Agree signs it
  std::string settings;      // "name=value" lines, equal at all nodes of the run
  // The same for settings that a joining node takes unless it has its own.
  std::string defaults;
  bool operator==(const Hello&) const = default;
};

/// The reason why the sender closes the link; its last message.
struct Refusal {
  std::string reason;  // one line
  bool operator==(const Refusal&) const = default;
};

/// The regular end of a link, so that a cut is not mistaken for it.
struct Bye {
  bool operator==(const Bye&) const = default;
};

/// Selects this connection among all between this pair of nodes. The node with the higher name
/// offers one connection at a time; the other node confirms it with the same message. It proves
/// that the sender has the key in its Hello.
struct Agree {
  Signature proof = {};  // of link_bytes (facts.hpp)
  bool operator==(const Agree&) const = default;
};

/// The peer must show this token once, on the bulk link that it dials. A token of 0 asks the peer
/// to dial now.
struct BulkToken {
  uint64_t token = 0;
  bool encrypted = false;  // the sender wants the bulk link encrypted
  std::string same_host;   // a name for its unix socket in its network namespace
  bool operator==(const BulkToken&) const = default;
};

enum class MemberState : uint8_t { alive = 0, suspect, dead, left };

/// A rank whose incarnation is not its node's: the rank is alive in `incarnation`, or it is gone
/// and `incarnation` was its last.
struct RankGone {
  uint32_t rank = 0, incarnation = 0;
  bool lives = false;
  bool operator==(const RankGone&) const = default;
};

/// A mean of all ranks that the node has (actors/cluster).
struct MeanTold {
  uint64_t number = 0;  // 0: none
  uint64_t hash = 0;
  bool operator==(const MeanTold&) const = default;
};

/// A node's statement about itself, which it signs (facts.hpp). Other nodes add that it is suspect
/// or dead, and who says so. The newer record has the higher (incarnation; in the graph, with more
/// changes of its ranks, dead or left; refutations; state), compared in this order. An incarnation
/// that was declared dead stays dead, because the exchanges with it were dropped; the node
/// continues with the next incarnation.
struct Member {
  std::string node;
  uint32_t incarnation = 0;                // 1, 2, ...: grows with each start
  uint32_t refutations = 0;                // in this incarnation; grows with each change
  MemberState state = MemberState::alive;  // not signed, except the last word
  std::string address;                     // where it listens
  uint32_t first_rank = 0, ranks = 0;
  bool ready = true;                  // its ranks have their state and belong to the graph
  bool finished = false;              // its workers have taken their gradients
  uint32_t accuser = 0;               // of a suspect: hash of the accuser's name; not signed
  PublicKey key = {};                 // of the process, as in its Hello
  std::vector<RankGone> gone;         // of its ranks, ascending; at most kMaxGone
  std::vector<uint64_t> unreachable;  // hashes of names, ascending: nodes that it cannot reach
  MeanTold mean;
  MemberState last_word = MemberState::alive;  // its own word: alive, or it has left
  uint32_t generation = 0;                     // of the run; a resumed run has a later one
  bool stops = false;        // it wants the run to stop: all finish what they have begun
  uint32_t means_asked = 0;  // how many means of all ranks it has requested
  uint64_t life = 0;         // of the sending process: new at each start
  Signature signature = {};
  bool operator==(const Member&) const = default;
};

/// The requested graph, signed by the node that requested it. All nodes take the spec with the
/// higher (version, node). Version 0 is the first graph, which no node has requested.
struct GraphSpec {
  uint64_t version = 0;
  std::string node;  // the node that requested it
  std::string topology;
  PublicKey key = {};  // of that node
  Signature signature = {};
  bool operator==(const GraphSpec&) const = default;
};

/// A measured rate of exchanges, i < j.
struct EdgeRate {
  uint32_t i = 0, j = 0;
  double per_second = 0;
  bool operator==(const EdgeRate&) const = default;
};

/// The rates that a member has measured on its own edges, signed. For one member and part, the
/// later (incarnation, number) counts.
struct RateFact {
  uint64_t owner = 0;  // its id
  uint32_t incarnation = 0, part = 0;
  uint64_t number = 0;
  std::vector<EdgeRate> rates;
  Signature signature = {};
  bool operator==(const RateFact&) const = default;
};

/// The part of the run's work that a member's ranks have done, in all processes of the member;
/// signed. For one member, the later number counts, unless it has fewer gradients.
struct WorkFact {
  uint64_t owner = 0;     // its id
  uint64_t number = 0;    // grows, also across restarts
  uint64_t taken = 0;     // gradients: completed steps
  double per_second = 0;  // the present speed
  double counted_s = 0;   // when `taken` was counted, by the owner's clock
  Signature signature = {};
  bool operator==(const WorkFact&) const = default;
};

/// Failure detection, and the facts that it carries (actors/membership/membership.hpp).
struct MembershipPacket {
  // ping_request: asks the receiver to probe `target`. The answer is an ack with that target, or a
  // nack: the target has not answered so far, but the receiver is there. sync: `sequence` is the
  // digest of all the sender knows. sync_reply: unrequested news; the last one of a complete view
  // has its digest, the others have 0.
  enum class Kind : uint8_t { ping = 0, ack, ping_request, nack, sync, sync_reply };
  Kind kind = Kind::ping;
  uint64_t sequence = 0;
  std::string target;  // of a ping_request, its ack and its nack
  std::vector<Member> news;
  GraphSpec graph;  // without a topology: no news of the graph
  std::vector<RateFact> rates;
  std::vector<WorkFact> work;
  bool operator==(const MembershipPacket&) const = default;
};

/// Asks for a snapshot of a rank's vectors.
struct FetchState {
  uint64_t transfer = 0;  // the requester's number
  uint32_t rank = 0;
  std::vector<uint32_t> pieces;  // empty: send the manifest first
  bool operator==(const FetchState&) const = default;
};

/// The contents of a snapshot. Pieces are sent as parcels (StatePiece); each is checked against its
/// hash.
struct Manifest {
  uint64_t transfer = 0;
  std::string refused;  // not empty: why there is no snapshot
  DType dtype = DType::f32;
  uint32_t vectors = 0;  // x, x~, momentum, ... in the rule's order
  uint64_t count = 0;    // elements of each vector
  uint32_t ranks = 1;    // the number of ranks in the sum
  uint64_t gradients = 0;
  double usual_step = 0;  // the usual length of the rank's steps (actors/guard)
  uint64_t piece_bytes = 0;
  std::vector<uint64_t> hashes;   // by piece
  std::vector<uint64_t> numbers;  // the rule's counters, in the rule's order
  bool operator==(const Manifest&) const = default;
};

/// About an NCCL communicator for one GPU of each of two nodes (actors/device/nccl_links.hpp): the
/// sender has begun to connect, and waits for the other end.
struct NcclConnect {
  std::array<std::byte, 128> id = {};  // NCCL's own bytes, which cannot be checked
  uint32_t version = 0;                // of NCCL
  bool operator==(const NcclConnect&) const = default;
};

/// No further payload is sent by NCCL between the two nodes on this link.
struct NcclEnd {
  enum class Reason : uint8_t {
    unwanted = 0,  // the sender has another --link
    version,       // the sender has another NCCL version
    full,          // the sender can take no communicator now
    out_of_place,  // the receiver sent a message out of order
    broken         // the sender's communicator has broken or failed to connect
  };
  Reason reason = Reason::unwanted;
  bool operator==(const NcclEnd&) const = default;
};

/// Asks whether this payload may be sent in exchange `number`. Numbers are at least 1.
struct NcclRequest {
  uint64_t number = 0;
  uint64_t room_bytes = 0;  // for a payload in return; 0: none is allowed
  FrameHeader header;       // announces a payload
  bool operator==(const NcclRequest&) const = default;
};

/// The sender agrees and has begun the exchange.
struct NcclGrant {
  uint64_t number = 0;
  std::optional<FrameHeader> header;  // of the payload in return
  bool operator==(const NcclGrant&) const = default;
};

struct NcclDecline {
  uint64_t number = 0;
  bool operator==(const NcclDecline&) const = default;
};

/// The messages of two nodes about their communicator.
struct NcclTalk {
  uint64_t edge = 0;  // the communicator's number, unique, chosen by the node that connects
  std::variant<NcclConnect, NcclEnd, NcclRequest, NcclGrant, NcclDecline> what = {};
  bool operator==(const NcclTalk&) const = default;
};

using ControlMessage =
    std::variant<Hello, Refusal, Bye, Agree, BulkToken, FrameHeader, MembershipPacket, FetchState,
                 Manifest, ConsoleRequest, ConsoleReply, MeanAsk, NcclTalk>;

}  // namespace grapevine
