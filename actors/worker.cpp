#include "actors/worker.hpp"

#include <cmath>
#include <utility>

#include "actors/algorithms/choose.hpp"

namespace grapevine {

WorkerActor spawn_worker(caf::actor_system& system, WorkerWiring wiring) {
  return system.spawn<Worker>(std::move(wiring));
}

Worker::Worker(caf::actor_config& config, WorkerWiring wiring)
    : WorkerActor::base(config),
      wiring_(std::move(wiring)),
      timer_(wiring_.settings->seed, static_cast<uint32_t>(wiring_.rank), Purpose::gradient_timer) {
}

bool Worker::begins_alone() const {
  const Settings& settings = *wiring_.settings;
  return settings.clock == Clock::simulated && !method_named(settings.method).waits;
}

bool Worker::ended(uint64_t gradients) const {
  return wiring_.horizon > 0 && gradients >= wiring_.horizon;
}

double Worker::learning_rate(uint64_t index) const {
  const LearningRate& lr = wiring_.settings->lr;
  if (wiring_.horizon == 0) return lr.peak;
  return lr.at(static_cast<double>(index) / static_cast<double>(wiring_.horizon));
}

void Worker::wind_up() {
  const double now = wiring_.clock.now();
  const double slowness = wiring_.settings->plan.slowness(wiring_.rank, now);
  rings_at_s_ = std::max(rings_at_s_, now) + timer_.exponential() * wiring_.gradient_s * slowness;
  scheduled_send(caf::actor_cast<WorkerActor>(this), wiring_.clock.instant(rings_at_s_), Tick{});
}

void Worker::start_gradient(Lease x) {
  const double now = wiring_.clock.now();
  computing_ = true;
  busy_since_s_ = now;
  GradientJob job;
  job.rank = wiring_.rank % wiring_.settings->ranks;  // a newcomer shares another rank's data
  job.index = gradients_;
  job.x = std::move(x);
  job.slowness = wiring_.settings->plan.slowness(wiring_.rank, now);
  job.instant = poisson() && wiring_.settings->clock == Clock::simulated;
  job.answer_to = caf::actor_cast<WorkerActor>(this);
  wiring_.compute->submit(std::move(job));
}

void Worker::on_parameters(Parameters& p) {
  if (paused_) return void(held_ = std::move(p));
  if (!computing_) gradients_ = p.gradients;
  if (ended(gradients_)) {
    if (finished_s_ == kNever) send(wiring_.node, Finished{wiring_.rank});
    finished_s_ = std::min(finished_s_, wiring_.clock.now());
    return;
  }
  if (draining_ || computing_ || !p.x) return;
  if (poisson()) {
    if (backlog_ == 0) return;
    --backlog_;
  }
  start_gradient(std::move(p.x));
}

void Worker::on_computed(Computed& c) {
  if (paused_) return void(held_answer_ = std::move(c));
  computing_ = false;
  busy_s_ += wiring_.clock.now() - busy_since_s_;
  if (!std::isfinite(c.loss)) {
    send(wiring_.node, Diverged{wiring_.rank, c.index, c.loss});
    return;
  }
  if (draining_) return;
  wiring_.tally->gradients.fetch_add(1, std::memory_order_relaxed);
  Tally::add(wiring_.tally->loss_sum, c.loss);
  const double lr = learning_rate(c.index);
  gradients_ = c.index + 1;
  send(wiring_.state, Gradient{wiring_.rank, lr, std::move(c.g), !poisson() || ended(gradients_)});
  if (poisson() && backlog_ > 0) send(wiring_.state, Fetch{wiring_.rank});
}

Worker::behavior_type Worker::make_behavior() {
  return {
      [this](Parameters& p) { on_parameters(p); },
      [this](Computed& c) { on_computed(c); },
      [this](Start) {
        if (!std::exchange(begun_, true) && begins_alone()) {
          const double at = wiring_.clock.now() + timer_.uniform() * wiring_.gradient_s;
          scheduled_send(caf::actor_cast<WorkerActor>(this), wiring_.clock.instant(at), Start{});
          return;
        }
        born_s_ = rings_at_s_ = wiring_.clock.now();
        send(wiring_.state, Fetch{wiring_.rank});
        if (poisson()) wind_up();
      },
      [this](Tick) {
        if (draining_ || finished_s_ < kNever) return;
        wind_up();
        ++backlog_;
        if (!computing_ && !paused_) send(wiring_.state, Fetch{wiring_.rank});
      },
      [this](Pause pause) {
        paused_ = pause.on;
        if (paused_) return;
        if (held_answer_.g) on_computed(held_answer_);
        held_answer_ = {};
        if (held_.x) on_parameters(held_);
        held_ = {};
        if (poisson() && backlog_ > 0) send(wiring_.state, Fetch{wiring_.rank});
      },
      [this](Drain) { draining_ = true; },
      [this](Report) {
        const double now = std::min(finished_s_, wiring_.clock.now());
        const double busy = busy_s_ + (computing_ ? now - busy_since_s_ : 0);
        const double alive = now - born_s_;
        const bool instant = poisson() && wiring_.settings->clock == Clock::simulated;
        return WorkerReport{wiring_.rank, gradients_, instant ? 0 : alive - busy, alive};
      },
  };
}

void Worker::on_exit() {
  wiring_ = WorkerWiring{0, wiring_.clock, {}, 0, 1, {}, {}, {}, {}};
  held_ = {};
  held_answer_ = {};
}

}  // namespace grapevine
