// Mail to communicators and state actors, from the library's own actors only. mail.hpp has the
// rest.
#pragma once
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "actors/algorithms/rule.hpp"
#include "actors/conversations/conversation.hpp"
#include "actors/mail/mail.hpp"
#include "actors/mail/protocol.hpp"
#include "actors/mail/rank_state.hpp"
#include "actors/membership/roster.hpp"
#include "actors/settings/checkpoint_orders.hpp"
#include "actors/settings/samples.hpp"
#include "actors/transport/transport.hpp"

namespace grapevine {

// To a communicator.
using ViewPtr = std::shared_ptr<const View>;  // an epoch, or new constants in one
struct Taken {
  uint64_t ticket = 0;
  Payload payload;
  Limits limits;  // this rank's; they are sent with the payload
};
struct Judged {
  int peer = -1;  // the sender of a message that was far or not finite; -1: all together
  Guard::Verdict verdict = Guard::Verdict::far;
};
struct PeerDown {
  int rank = 0;
  uint32_t incarnation = 0;  // the one that has ended
};

// To a state actor.
/// A rank joins a state actor: with another rank's state, with its own record from an earlier life,
/// or without a state at the objective's initial point.
struct Attach {
  int rank = 0;
  RankStatePtr state;
  CommunicatorActor communicator;
  WorkerActor worker;    // may be empty: no gradients are computed here
  RankRecordPtr record;  // newer than that state
};
struct Arrived {
  uint64_t ticket = 0;
  bool lost = false;
};  // from a device: the fence has happened, or never will
struct DeviceLost {};
struct DeviceTask {
  std::function<void()> task;
};  // runs on the owner of the device (fence.hpp: ToOwner)
struct TakeRequest {
  int rank = 0;
  Take take;
};
struct WriteRequest {
  int rank = 0;
  Write write;
};
struct ApplyRequest {
  int rank = 0;
  Apply apply;
};
struct SetView {
  int rank = 0;
  ViewPtr view;
};  // the neighbours and constants of its rule
struct Detach {
  int rank = 0;
};  // the rank is gone; its buffers go with it
struct CopyState {
  int rank = 0;
  bool whole = false;  // true: for the rank itself, which continues under another number
};                     // answered with a RankStatePtr; null: no such rank
struct RecordRank {
  int rank = 0;
};                   // answered with a RankRecordPtr; null: no such rank
struct HandIn {};    // the run ends: unfinished inner steps become steps of the rules
struct HandedIn {};  // the answer; communicators have received the results before it
struct Sample {
  std::shared_ptr<const std::vector<double>> reference;
};
/// An edge whose ends are far from each other and whose allowance is used up (actors/guard), or
/// whose last message is not finite; or a rank that is apart from all its neighbours, without a
/// peer.
struct FarEdge {
  int rank = 0, peer = 0;
  bool is_finite = true, is_apart = false;
  double steps = 0, peer_steps = 0;  // the distance, in usual steps of the two ends
};
struct SampleReply {
  int ranks = 0;  // without those that are apart, unless all are
  std::vector<FarEdge> far;
  double squares = 0;                              // sum over ranks of |x - reference|^2
  std::shared_ptr<const std::vector<double>> sum;  // sum over ranks of x - reference
};
struct ReadRank {
  int rank = 0;
};  // answered with its parameters, mixed to now
struct EdgeDistance {
  int rank = 0, peer = 0;
  double distance = 0;   // |x_rank - x_peer| at an exchange of the last seconds; NaN: unknown
  double allowance = 1;  // the part of the edge's that is left, 0 to 1 (actors/guard)
};
struct StateReport {
  std::vector<EdgeDistance> distances;
  double broken_after_norm = 0;  // the sum of the norms of jumps whose other half may be missing
  std::vector<std::pair<int, RuleCounts>> counts;  // by rising rank
};                                                 // answers Report
struct Collect {};
struct Collected {
  std::vector<RankParameters> ranks;  // mixed to now
  double broken_after_norm = 0;       // as in StateReport
  // The largest |sum (x + x~) - its expected value| over coordinates; NaN: not audited.
  double conserved_error = 0;
};

}  // namespace grapevine
