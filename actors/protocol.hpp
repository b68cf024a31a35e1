// Protocol: every message between the actors of a node, and the typed interface of each actor.
//
// Messages are values; bulk data travels as leases. Nothing here is ever serialised by CAF: what crosses a link is a
// Frame, and it crosses through a Transport. Interfaces are typed, so a wrong message does not compile.
#pragma once
#include <caf/all.hpp>
#include <memory>
#include <string>
#include <vector>

#include "actors/conversations/conversation.hpp"
#include "actors/transport/transport.hpp"
#include "kernels/lease.hpp"

namespace grapevine {

struct Tick { int id = 0; };                        // a timer of the receiver's own
struct Pause { bool on = false; };                  // stand still, or go on
struct Drain {};                                    // begin nothing new
struct Report {};                                   // asks for the receiver's report
struct Start {};

// To a communicator.
using ViewPtr = std::shared_ptr<const View>;        // an epoch, or new rates and constants in the same one
struct Taken { uint64_t ticket = 0; Lease lease; };
struct StepReady {};
struct PeerDown { int rank = 0; };
struct CommunicatorReport {
  int rank = 0;
  bool quiet = true;
  uint64_t frames = 0, bytes = 0;                   // sent
  Counts counts;
  std::vector<EdgeCount> edges;
};

// To a worker.
struct Parameters { Lease x; uint64_t gradients = 0; };  // of the rank; gradients it has taken so far
struct Computed { uint64_t index = 0; double loss = 0, seconds = 0; Lease g; };
struct WorkerReport {
  int rank = 0;
  uint64_t gradients = 0;
  double idle_s = 0, alive_s = 0;                   // idle: neither computing nor queued for a compute thread
};

// To a state actor.
struct TakeRequest { int rank = 0; Take take; };
struct ApplyRequest { int rank = 0; Apply apply; };
struct Gradient { int rank = 0; double lr = 0; Lease g; bool wants_copy = true; };
struct Fetch { int rank = 0; };                     // answered by Parameters to the rank's worker
struct SetEta { int rank = 0; double eta = 0; };
struct Detach { int rank = 0; };                    // the rank is gone; its buffers go with it
struct Look { int rank = 0; };                      // answered by Parameters; an empty lease: no such rank
struct Sample { std::shared_ptr<const std::vector<double>> reference; };
struct SampleReply {
  int ranks = 0;
  double squares = 0;                               // sum over ranks of |x - reference|^2
  std::shared_ptr<const std::vector<double>> sum;   // sum over ranks of x - reference
};
struct RankParameters { int rank = 0; std::shared_ptr<const Buffer> x; };
struct Collect {};
struct Collected {
  std::vector<RankParameters> ranks;                // mixed to now
  double conserved_error = 0;  // largest |sum (x + x~) - what it must be|, over coordinates; NaN: not audited
};

// To a topology manager.
struct Reconfigure { std::string topology; };       // answered by a line that describes the new epoch, or an error
struct RankDown { int rank = 0; };
struct RankReady { int rank = 0; };                 // it has its state: a new epoch may begin
struct Solved;                                      // spectrum and constants of a graph, from a compute thread
struct Renew {};                                    // measure rates, and solve again where they have moved
struct EpochInfo {
  uint64_t epoch = 0;
  double at_s = 0;
  std::string topology;
  int ranks = 0;
  double chi1 = 0, chi2 = 0, eta = 0, alpha_tilde = 0;
};

// To a node.
struct Finished { int rank = 0; };                  // a worker has done its share
struct Diverged { int rank = 0; uint64_t gradient = 0; double loss = 0; };
struct KillRank { int rank = 0; };
struct RestartRank { int rank = 0; };
struct Finish {};                                   // end the run: drain, collect, report

template <class... In>
using Takes = caf::reacts_to<In...>;
template <class In, class Out>
using Answers = typename caf::replies_to<In>::template with<Out>;

using CommunicatorActor =
    caf::typed_actor<Takes<Frame>, Takes<Tick>, Takes<Taken>, Takes<StepReady>, Takes<ViewPtr>,
                     Takes<PeerDown>, Takes<Pause>, Takes<Drain>,
                     Answers<Report, CommunicatorReport>>;

using WorkerActor =
    caf::typed_actor<Takes<Parameters>, Takes<Computed>, Takes<Start>, Takes<Tick>, Takes<Pause>,
                     Takes<Drain>, Answers<Report, WorkerReport>>;

/// A rank joins a state actor: with the objective's initial point, or with `x` where it is not empty.
struct Attach {
  int rank = 0;
  Lease x;
  uint64_t gradients = 0;
  CommunicatorActor communicator;
  WorkerActor worker;  // may be empty: no gradients are computed here
};

using StateActor =
    caf::typed_actor<Takes<TakeRequest>, Takes<ApplyRequest>, Takes<Gradient>, Takes<Fetch>,
                     Takes<SetEta>, Takes<Attach>, Takes<Detach>, Answers<Look, Parameters>,
                     Answers<Sample, SampleReply>, Answers<Collect, Collected>>;

/// A rank is about to join the graph; answered by the rank of a neighbour that can give it its state (its own when it
/// is alone). The graph changes at RankReady.
struct RankUp {
  int rank = 0;
  CommunicatorActor communicator;
  WorkerActor worker;
};

using Founders = std::shared_ptr<const std::vector<RankUp>>;  // the ranks of the first epoch; begins it
using SolvedPtr = std::shared_ptr<const Solved>;
using TopologyManagerActor =
    caf::typed_actor<Takes<Founders>, Answers<Reconfigure, std::string>, Answers<RankUp, int>,
                     Takes<RankReady>, Takes<RankDown>, Takes<Renew>, Takes<SolvedPtr>>;

using ObserverActor = caf::typed_actor<Takes<Tick>, Takes<EpochInfo>>;

using NodeActor = caf::typed_actor<Takes<Start>, Takes<Finished>, Takes<Diverged>, Takes<KillRank>,
                                   Takes<RestartRank>, Takes<Pause, int>, Takes<Tick>,
                                   Takes<Finish>>;

using FaultsActor = caf::typed_actor<Takes<Start>, Takes<Tick>>;

}  // namespace grapevine

#define GV_LOCAL_MESSAGE(type) CAF_ALLOW_UNSAFE_MESSAGE_TYPE(grapevine::type)
GV_LOCAL_MESSAGE(Tick)
GV_LOCAL_MESSAGE(Pause)
GV_LOCAL_MESSAGE(Drain)
GV_LOCAL_MESSAGE(Report)
GV_LOCAL_MESSAGE(Frame)
GV_LOCAL_MESSAGE(Lease)
GV_LOCAL_MESSAGE(ViewPtr)
GV_LOCAL_MESSAGE(Taken)
GV_LOCAL_MESSAGE(StepReady)
GV_LOCAL_MESSAGE(PeerDown)
GV_LOCAL_MESSAGE(CommunicatorReport)
GV_LOCAL_MESSAGE(Parameters)
GV_LOCAL_MESSAGE(Computed)
GV_LOCAL_MESSAGE(WorkerReport)
GV_LOCAL_MESSAGE(TakeRequest)
GV_LOCAL_MESSAGE(ApplyRequest)
GV_LOCAL_MESSAGE(Gradient)
GV_LOCAL_MESSAGE(Fetch)
GV_LOCAL_MESSAGE(SetEta)
GV_LOCAL_MESSAGE(Attach)
GV_LOCAL_MESSAGE(Detach)
GV_LOCAL_MESSAGE(Look)
GV_LOCAL_MESSAGE(Sample)
GV_LOCAL_MESSAGE(SampleReply)
GV_LOCAL_MESSAGE(Collect)
GV_LOCAL_MESSAGE(Collected)
GV_LOCAL_MESSAGE(Reconfigure)
GV_LOCAL_MESSAGE(RankUp)
GV_LOCAL_MESSAGE(RankReady)
GV_LOCAL_MESSAGE(Founders)
GV_LOCAL_MESSAGE(SolvedPtr)
GV_LOCAL_MESSAGE(RankDown)
GV_LOCAL_MESSAGE(Renew)
GV_LOCAL_MESSAGE(EpochInfo)
GV_LOCAL_MESSAGE(Finished)
GV_LOCAL_MESSAGE(Diverged)
GV_LOCAL_MESSAGE(KillRank)
GV_LOCAL_MESSAGE(RestartRank)
GV_LOCAL_MESSAGE(Start)
GV_LOCAL_MESSAGE(Finish)
#undef GV_LOCAL_MESSAGE
