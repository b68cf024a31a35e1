#include "actors/rank/worker.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "actors/algorithms/method_registry.hpp"
#include "actors/rank/work_pool.hpp"
#include "actors/settings/counters.hpp"
#include "actors/settings/rank_ledger.hpp"
#include "actors/settings/settings.hpp"
#include "kernels/base/random.hpp"

namespace grapevine {

namespace {

constexpr int kRing = 0, kLook = 1;    // ticks
constexpr double kLookAgain_s = 0.05;  // at most, of the wall clock

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
  void obey(Order);
  void on_computed(Computed&);
  void start_gradient(Lease x);
  void wind_up();
  double learning_rate(uint64_t index);
  void look_again();

  WorkerDependencies deps_;
  Random timer_;
  uint64_t gradients_ = 0;  // taken
  bool started_ = false, has_begun_ = false, computing_ = false, draining_ = false, paused_ = false;
  bool looks_again_ = false;    // it waits for gradients of the pool
  double finished_s_ = kNever;  // after its last gradient it is not idle
  uint64_t backlog_ = 0;        // rings of the Poisson timer not yet served
  double born_s_ = 0, busy_since_s_ = 0, busy_s_ = 0, rings_at_s_ = 0;
  double paused_at_s_ = 0;
  double loss_ = std::numeric_limits<double>::quiet_NaN();  // the last one
  Parameters held_;                                         // arrived while paused
  Computed held_answer_;
};

Worker::Worker(caf::actor_config& config, WorkerDependencies deps)
    : WorkerActor::base(config),
      deps_(std::move(deps)),
      timer_(deps_.settings->seed, static_cast<uint32_t>(deps_.rank), Purpose::gradient_timer) {}

bool Worker::begins_alone() const {
  const Settings& settings = *deps_.settings;
  return settings.clock == Clock::simulated && !method_named(settings.method).waits;
}

bool Worker::ended(uint64_t gradients) const {
  if (deps_.pool) return deps_.pool->is_complete();
  return deps_.horizon > 0 && gradients >= deps_.horizon;
}

// The schedule follows the progress of the pool, of this rank's gradients, or of the time. The
// whole time of the run is that of its earlier lives and --until, which is the time of this one.
double Worker::learning_rate(uint64_t index) {
  const LearningRate& lr = deps_.settings->lr;
  const double now = deps_.clock.now(), until = deps_.settings->until_s, before = deps_.trained_s;
  if (deps_.pool) {
    const double done = deps_.pool->progress(now);
    deps_.counters->progress.store(done, std::memory_order_relaxed);
    return lr.at(done);
  }
  if (deps_.horizon > 0)
    return lr.at(static_cast<double>(index) / static_cast<double>(deps_.horizon));
  return until > 0 ? lr.at(std::min(1.0, (before + now) / (before + until))) : lr.peak;
}

// As far as known, all gradients are taken. Looks again soon, because other ranks may have taken
// fewer.
void Worker::look_again() {
  deps_.ledger->wait(deps_.clock.now());
  if (poisson() || looks_again_) return;  // the Poisson timer looks again
  looks_again_ = true;
  const double wait_s = deps_.settings->clock == Clock::simulated
                            ? deps_.gradient_s / 4
                            : std::min(kLookAgain_s, deps_.gradient_s / 4);
  scheduled_send(caf::actor_cast<WorkerActor>(this),
                 deps_.clock.instant(deps_.clock.now() + wait_s), Tick{kLook});
}

void Worker::wind_up() {
  const double now = deps_.clock.now();
  const double slowness = deps_.settings->plan.slowness(deps_.rank, now);
  rings_at_s_ = std::max(rings_at_s_, now) + timer_.exponential() * deps_.gradient_s * slowness;
  scheduled_send(caf::actor_cast<WorkerActor>(this), deps_.clock.instant(rings_at_s_), Tick{kRing});
}

void Worker::start_gradient(Lease x) {
  const double now = deps_.clock.now();
  computing_ = true;
  busy_since_s_ = now;
  deps_.ledger->compute(now);
  GradientJob job;
  job.rank = deps_.rank % deps_.settings->ranks;  // a rank that joined shares another rank's data
  job.index = gradients_;
  job.x = std::move(x);
  job.slowness = deps_.settings->plan.slowness(deps_.rank, now);
  job.instant = poisson() && deps_.settings->clock == Clock::simulated;
  job.answer_to = caf::actor_cast<WorkerActor>(this);
  deps_.compute->submit(std::move(job));
}

void Worker::on_parameters(Parameters& p) {
  if (paused_) return void(held_ = std::move(p));
  deps_.ledger->applied(deps_.clock.now(), p.own_s, p.saved_from_s, p.saved_until_s);
  has_begun_ = true;
  if (!computing_) gradients_ = p.gradients;
  if (ended(gradients_)) {
    if (finished_s_ == kNever) send(deps_.node, Finished{deps_.rank});
    finished_s_ = std::min(finished_s_, deps_.clock.now());
    deps_.ledger->wait(deps_.clock.now());
    return;
  }
  if (draining_ || computing_ || !p.x) return;
  if (poisson() && backlog_ == 0) return;
  if (deps_.pool && deps_.pool->is_enough(deps_.clock.now())) return look_again();
  if (poisson()) --backlog_;
  start_gradient(std::move(p.x));
}

void Worker::on_computed(Computed& c) {
  const double now = deps_.clock.now();
  if (paused_) {  // the gradient of a paused rank is not lost
    deps_.ledger->stand(Lost::pause, now, paused_at_s_);
    held_answer_ = std::move(c);
    return;
  }
  computing_ = false;
  busy_s_ += now - busy_since_s_;
  if (!std::isfinite(c.loss)) {
    send(deps_.node, Diverged{deps_.rank, c.index, c.loss});
    return;
  }
  if (c.no_memory) {
    send(deps_.node, KillRank{deps_.rank, "the device has too little memory for its gradients"});
    return;
  }
  if (draining_) return;
  deps_.ledger->computed(now);
  if (deps_.pool) deps_.pool->took();
  const double lr = learning_rate(c.index);
  loss_ = c.loss;
  count_gradient(*deps_.counters, c.loss, lr);
  gradients_ = c.index + 1;
  const bool is_last = ended(gradients_);
  send(deps_.state, Gradient{deps_.rank, lr, std::move(c.g), !poisson() || is_last, is_last});
  if (!poisson()) return;
  deps_.ledger->wait(now);
  if (backlog_ > 0) send(deps_.state, Fetch{deps_.rank});
}

void Worker::obey(Order order) {
  switch (order) {
    case Order::pause:
      paused_ = true;
      paused_at_s_ = deps_.clock.now();
      if (!computing_) deps_.ledger->stand(Lost::pause, paused_at_s_, paused_at_s_);
      return;
    case Order::resume:
      paused_ = false;
      deps_.ledger->back(deps_.clock.now());
      if (held_answer_.g || held_answer_.no_memory) on_computed(held_answer_);
      held_answer_ = {};
      if (held_.x) on_parameters(held_);
      held_ = {};
      if (poisson() && backlog_ > 0) send(deps_.state, Fetch{deps_.rank});
      return;
    case Order::drain:
    case Order::leave: draining_ = true;
  }
}

Worker::behavior_type Worker::make_behavior() {
  return {
      [this](Parameters& p) { on_parameters(p); },
      [this](Computed& c) { on_computed(c); },
      [this](Start) {
        if (!std::exchange(started_, true) && begins_alone()) {
          const double at = deps_.clock.now() + timer_.uniform() * deps_.gradient_s;
          scheduled_send(caf::actor_cast<WorkerActor>(this), deps_.clock.instant(at), Start{});
          return;
        }
        born_s_ = rings_at_s_ = deps_.clock.now();
        send(deps_.state, Fetch{deps_.rank});
        if (poisson()) wind_up();
      },
      [this](Tick tick) {
        if (draining_ || finished_s_ < kNever) return;
        if (tick.id == kLook) {
          looks_again_ = false;
          if (!computing_ && !paused_) send(deps_.state, Fetch{deps_.rank});
          return;
        }
        wind_up();
        ++backlog_;
        if (!computing_ && !paused_) send(deps_.state, Fetch{deps_.rank});
      },
      [this](Order order) { obey(order); },
      [this](Report) {
        const double now = std::min(finished_s_, deps_.clock.now());
        const double busy = busy_s_ + (computing_ ? now - busy_since_s_ : 0);
        const double alive = now - born_s_;
        const bool instant = poisson() && deps_.settings->clock == Clock::simulated;
        return WorkerReport{deps_.rank, gradients_, instant ? 0 : alive - busy,
                            alive,      false,      deps_.resumed_at,
                            has_begun_, loss_};
      },
  };
}

void Worker::on_exit() {
  deps_ = {.clock = deps_.clock,
           .settings = {},
           .pool = {},
           .compute = {},
           .counters = {},
           .ledger = {},
           .state = {},
           .node = {}};
  held_ = {};
  held_answer_ = {};
}

}  // namespace

WorkerActor spawn_worker(caf::actor_system& system, WorkerDependencies deps) {
  return system.spawn<Worker>(std::move(deps));
}

void count_gradient(Counters& counters, double loss, double lr) {
  counters.gradients.fetch_add(1, std::memory_order_relaxed);
  counters.add_loss(loss);
  counters.learning_rate.store(lr, std::memory_order_relaxed);
}

}  // namespace grapevine
