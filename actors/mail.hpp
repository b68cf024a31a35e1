// Mail: every message between the actors of a node.
//
// Values; bulk data travels as leases. Nothing here is ever serialised by CAF: what crosses a link
// is a Frame, through a Transport.
#pragma once
#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "actors/algorithms/rule.hpp"
#include "actors/conversations/conversation.hpp"
#include "actors/membership/roster.hpp"
#include "actors/rank_record.hpp"
#include "actors/rank_state.hpp"
#include "actors/run/samples.hpp"
#include "actors/transport/transport.hpp"

namespace grapevine {

struct Tick {
  int id = 0;
};  // a timer of the receiver's own
struct Pause {
  bool on = false;
};                          // stand still, or go on
struct Drain {              // begin nothing new
  bool breaks_off = false;  // and end what is open, as broken
};
struct Report {};  // asks for the receiver's report
struct Start {};

// To a communicator.
using ViewPtr = std::shared_ptr<const View>;  // an epoch, or new constants in one
struct Taken {
  uint64_t ticket = 0;
  Payload payload;
  double bound = kNever;  // how far from it the other end's snapshot may be
};
struct Skipped {
  int peer = -1;        // whose message was too far off, and left out; -1: all together
  uint64_t number = 0;  // of the exchange
};
struct PeerDown {
  int rank = 0;
  uint32_t incarnation = 0;  // that is over
};
struct GuestSeat;  // guest_seat.hpp

// To a worker.
struct Parameters {
  Lease x;
  uint64_t gradients = 0;
  // Where the rank is a guest's: x is the front of this seat, and so many exchanges have moved it.
  std::shared_ptr<GuestSeat> seat;
  uint64_t exchanges = 0;
};  // of the rank; gradients it has taken so far
struct Computed {
  uint64_t index = 0;
  double loss = 0, seconds = 0;
  Lease g;
  bool no_memory = false;  // there was too little for it, and there is no g
};

// To a state actor.
struct Arrived {
  uint64_t ticket = 0;
  bool lost = false;
};  // from a device: what was awaited has happened, or never will
struct DeviceLost {};
struct DeviceTask {
  std::function<void()> task;
};  // what others have done on the device, which it owns (fence.hpp: ToOwner)
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
struct Gradient {
  int rank = 0;
  double lr = 0;
  Lease g;
  bool wants_copy = true;
};
struct TakeStep {
  int rank = 0;
  std::shared_ptr<GuestSeat> seat;
};  // what a guest did to its front; answered by Parameters, when the round is over
struct Fetch {
  int rank = 0;
};  // answered by Parameters to the rank's worker
struct SetView {
  int rank = 0;
  ViewPtr view;
};  // the constants and the neighbours that its rule goes by
struct Detach {
  int rank = 0;
};  // the rank is gone; its buffers go with it
struct CopyState {
  int rank = 0;
  bool whole = false;  // for the rank itself, which goes on under another number
};                     // answered by a RankStatePtr; null: no such rank
struct RecordRank {
  int rank = 0;
};  // answered by a RankRecordPtr; null: no such rank
struct Sample {
  std::shared_ptr<const std::vector<double>> reference;
};
struct SampleReply {
  int ranks = 0;
  double squares = 0;                              // sum over ranks of |x - reference|^2
  std::shared_ptr<const std::vector<double>> sum;  // sum over ranks of x - reference
};
struct ReadRank {
  int rank = 0;
};  // answered by its parameters, mixed to now
struct Inherit {
  int rank = 0;
  double weight = 0;
  Payload x;
  uint64_t epoch = 0;
};  // the push-sum mass of ranks that have left, and their weighted mean; from this epoch on
struct EdgeDistance {
  int rank = 0, peer = 0;
  double distance = 0;  // |x_rank - x_peer|, as an exchange of the last seconds saw it
};
struct StateReport {
  std::vector<EdgeDistance> distances;
  double broken_after_norm = 0;  // of jumps whose other half may be missing, summed
  std::vector<std::pair<int, RuleCounts>> counts;  // by rising rank
};                                                 // answers Report
struct Collect {};
struct Collected {
  std::vector<RankParameters> ranks;  // mixed to now
  double broken_after_norm = 0;       // as in StateReport
  // Largest |sum (x + x~) - what it must be|, over coordinates; NaN: not audited.
  double conserved_error = 0;
};

}  // namespace grapevine
