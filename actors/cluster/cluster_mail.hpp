// Mail between the actors that connect a process with the others of its run, and their interfaces:
// the cluster actor, the transfers and the console server.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "actors/cluster/mean_exchange.hpp"
#include "actors/cluster/node_status.hpp"
#include "actors/cluster/state_transfer.hpp"
#include "actors/mail/mail_node.hpp"
#include "actors/membership/membership.hpp"
#include "actors/node/checkpointer.hpp"
#include "actors/transport/links.hpp"

namespace grapevine {

// Messages of the links.
struct LinkUp {
  Hello peer;
};
struct LinkDown {
  std::string node, reason;
};
struct DialFailed {
  std::string address, reason;
  bool refused = false;
};
struct Contested {  // a process claims the name of a member
  std::string node;
};
struct Heard {  // a packet of the membership
  std::string node;
  MembershipPacket packet;
};
struct Said {  // any other control message
  std::string node;
  ControlMessage message;
};
struct ParcelCame {
  std::string node;
  Parcel parcel;
  Payload payload;
};
struct Asked {
  uint64_t console = 0;
  ConsoleRequest request;
};
struct ConsoleGone {
  uint64_t console = 0;
};
struct TurnedAway {
  std::string from, reason;
};
struct BulkEnded {
  std::string node;
  uint64_t lost = 0;  // frames
  std::string reason;
};

// To the cluster actor.
struct Leave {           // this node alone; the others continue
  bool drained = false;  // its operator asked for it and may start it again
};
struct Stop {};  // the whole run
struct RunEnded {
  bool failed = false;
  std::vector<RankParameters> parameters;  // of the ranks here, at one time
};
struct StateCame {
  RankStatePtr state;  // null: no node gave it
};
struct HasMean {
  MeanTold mean;
};
struct CannotReach {
  std::string node;
};
struct LeftOut {  // of a mean
  std::string node, why;
};
struct NeedLinks {
  std::vector<std::string> nodes;  // which are needed for some seconds
};
using MeanPtr = std::shared_ptr<const Mean>;
struct MeanResult {
  uint64_t serial = 0;  // of the snapshot; 0: the mean at the end
  MeanPtr mean;         // null: it did not arrive
  std::vector<std::string> missing;
};
struct WantStatus {};  // answered with what this actor knows
struct WantMean {};    // answered with the MeanResult of a mean that begins later

// To the transfers.
struct FetchFrom {
  std::vector<FetcherOptions::Source> sources;  // in the order of requests
};
/// The members, after each change.
struct MembersSeen {
  std::shared_ptr<const std::vector<Member>> all;  // by name
  uint64_t epoch = 0;                              // of these members
  std::vector<std::string> unheard;                // whose requests for means do not count
};
struct BeginMean {
  uint64_t serial = 0;                     // 0: the mean at the end
  std::vector<RankParameters> parameters;  // of the ranks here, for the mean at the end
  std::vector<std::string> expected;       // nodes that took part when the end began
};
struct SumMore {
  uint64_t mean = 0;
};                      // to itself: sum the next piece, for the mean of this number
struct HashMore {};     // to itself: hash the next piece of a requested state
struct WantRefused {};  // answered with counts of refused messages
struct Refused {
  std::map<std::string, uint64_t> by_reason;  // pieces and requests
};
// In the next snapshot: the distance from the mean of all to that of the others.
struct MeasureLeaving {};
struct LeavingMeasured {
  int here = 0, of = 0;  // ranks
  double mean_changed_by = 0;
};

// To the console server.
struct Note {
  std::string line;
};

struct ClusterStart;
struct TransfersStart;
struct ConsoleStart;

using ClusterActor =
    MembershipActor::extend<Takes<ClusterStart>, Takes<LinkUp>, Takes<LinkDown>, Takes<DialFailed>,
                            Takes<Contested>, Takes<Heard>, Takes<RunEnded>, Takes<Finish>,
                            Takes<Stop>, Takes<Leave>, Takes<StateCame>, Takes<HasMean>,
                            Takes<CannotReach>, Takes<LeftOut>, Takes<NeedLinks>, Takes<MeanResult>,
                            Takes<LeavingMeasured>, Takes<Tick>, Answers<WantStatus, NodeStatus>,
                            Answers<WantMean, MeanResult>>;

using TransfersActor =
    caf::typed_actor<Takes<TransfersStart>, Takes<LinkUp>, Takes<LinkDown>, Takes<Said>,
                     Takes<ParcelCame>, Takes<MembersSeen>, Takes<FetchFrom>, Takes<BeginMean>,
                     Takes<MeasureLeaving>, Takes<SumMore>, Takes<HashMore>, Takes<Tick>,
                     Answers<WantRefused, Refused>>;

using ConsoleActor =
    caf::typed_actor<Takes<ConsoleStart>, Takes<Asked>, Takes<ConsoleGone>, Takes<TurnedAway>,
                     Takes<BulkEnded>, Takes<EpochInfo>, Takes<Note>, Takes<Tick>>;

// Sent to each actor once all others are spawned.
struct ClusterStart {
  std::shared_ptr<Links> links;
  NodeActor node;
  TopologyManagerActor manager;
  std::vector<StateActor> states;
  TransfersActor transfers;
  ConsoleActor console;
};
struct TransfersStart {
  std::shared_ptr<Links> links;
  std::vector<StateActor> states;
  ClusterActor cluster;
};
struct ConsoleStart {
  std::shared_ptr<Links> links;
  NodeActor node;
  std::vector<StateActor> states;
  ClusterActor cluster;
  TransfersActor transfers;
  CheckpointerActor checkpointer;  // null: there are no checkpoints
};

}  // namespace grapevine

#define GV_LOCAL_MESSAGE(type) CAF_ALLOW_UNSAFE_MESSAGE_TYPE(grapevine::type)
GV_LOCAL_MESSAGE(LinkUp)
GV_LOCAL_MESSAGE(LinkDown)
GV_LOCAL_MESSAGE(DialFailed)
GV_LOCAL_MESSAGE(Contested)
GV_LOCAL_MESSAGE(Heard)
GV_LOCAL_MESSAGE(Said)
GV_LOCAL_MESSAGE(ParcelCame)
GV_LOCAL_MESSAGE(Asked)
GV_LOCAL_MESSAGE(ConsoleGone)
GV_LOCAL_MESSAGE(TurnedAway)
GV_LOCAL_MESSAGE(BulkEnded)
GV_LOCAL_MESSAGE(Leave)
GV_LOCAL_MESSAGE(Stop)
GV_LOCAL_MESSAGE(RunEnded)
GV_LOCAL_MESSAGE(StateCame)
GV_LOCAL_MESSAGE(HasMean)
GV_LOCAL_MESSAGE(CannotReach)
GV_LOCAL_MESSAGE(LeftOut)
GV_LOCAL_MESSAGE(NeedLinks)
GV_LOCAL_MESSAGE(MeanResult)
GV_LOCAL_MESSAGE(WantStatus)
GV_LOCAL_MESSAGE(WantMean)
GV_LOCAL_MESSAGE(NodeStatus)
GV_LOCAL_MESSAGE(FetchFrom)
GV_LOCAL_MESSAGE(MembersSeen)
GV_LOCAL_MESSAGE(BeginMean)
GV_LOCAL_MESSAGE(SumMore)
GV_LOCAL_MESSAGE(HashMore)
GV_LOCAL_MESSAGE(WantRefused)
GV_LOCAL_MESSAGE(Refused)
GV_LOCAL_MESSAGE(MeasureLeaving)
GV_LOCAL_MESSAGE(LeavingMeasured)
GV_LOCAL_MESSAGE(Note)
GV_LOCAL_MESSAGE(ClusterStart)
GV_LOCAL_MESSAGE(TransfersStart)
GV_LOCAL_MESSAGE(ConsoleStart)
#undef GV_LOCAL_MESSAGE
