// Worker: the actor that computes a rank's gradients, at its own speed, without ever waiting for
// another rank.
//
//   Parameters (a lease of x)  ->  Compute  ->  Computed (loss, g)  ->  Gradient to state  ->
//   Parameters ...
//
// Greedy: the next gradient starts when the last one's step is taken. Poisson: gradients start at
// the events of a Poisson process of rate 1 / gradient_s; on the virtual clock such an event takes
// no time. Where a method's rounds do not wait, ranks on the virtual clock begin at different
// moments, up to one gradient's time apart: nowhere else do ranks that nobody holds in step begin
// in step. A worker of your own only has to speak WorkerActor's messages: slow, failing or clever,
// nobody else will notice.
#pragma once
#include <memory>
#include <utility>

#include "actors/compute.hpp"
#include "actors/counters.hpp"
#include "actors/protocol.hpp"
#include "actors/run/run.hpp"
#include "kernels/random.hpp"

namespace grapevine {

struct WorkerDependencies {
  int rank = 0;
  int place = 0;  // among the ranks here; a rank that goes on under another number keeps it
  RunClock clock;
  std::shared_ptr<const Settings> settings;
  uint64_t horizon = 0;   // gradients of this rank; 0: no end
  uint64_t resumed_at = 0;  // of them, those of an earlier life
  double gradient_s = 1;  // expected mean: the Poisson rate, and the unit of an endless schedule
  std::shared_ptr<Compute> compute;
  std::shared_ptr<Counters> counters;
  StateActor state;
  NodeActor node;
};

/// What a MakeWorker (run.hpp) answers: put one into RunHooks to add a worker of your own.
struct SpawnedWorker {
  SpawnedWorker() = default;  // none: the rank computes nothing
  SpawnedWorker(WorkerActor made) : actor(std::move(made)) {}

  WorkerActor actor;
};

WorkerActor spawn_worker(caf::actor_system&, WorkerDependencies);

class Worker final : public WorkerActor::base {
 public:
  Worker(caf::actor_config& config, WorkerDependencies deps);

 protected:
  behavior_type make_behavior() override;
  void on_exit() override;

 private:
  bool poisson() const { return deps_.settings->pacing == Pacing::poisson; }
  bool begins_alone() const;
  bool ended(uint64_t gradients) const;
  void on_parameters(Parameters&);
  void on_computed(Computed&);
  void start_gradient(Lease x);
  void wind_up();
  double learning_rate(uint64_t index) const;

  WorkerDependencies deps_;
  Random timer_;
  uint64_t gradients_ = 0;  // taken
  bool begun_ = false, computing_ = false, draining_ = false, paused_ = false;
  double finished_s_ = kNever;  // when its share was done: it is not idle after that
  uint64_t backlog_ = 0;        // rings of the Poisson timer not yet served
  double born_s_ = 0, busy_since_s_ = 0, busy_s_ = 0, rings_at_s_ = 0;
  Parameters held_;  // arrived while paused
  Computed held_answer_;
};

}  // namespace grapevine
