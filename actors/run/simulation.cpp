#include "actors/run/simulation.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "actors/clocks/virtual_clock.hpp"
#include "actors/compute/compute.hpp"
#include "actors/node/observer.hpp"
#include "actors/run/site.hpp"
#include "actors/settings/counters.hpp"

namespace grapevine {

namespace {

// Rounding in single precision: of the sum over ranks, relative to its largest coordinate.
constexpr double kRounding = 1e-3;

// Advances the virtual clock until the run is over, its time is up, or the ranks agree.
class Simulation {
 public:
  Simulation(const PreparedRun& run, RunHooks hooks)
      : settings_(run.settings),
        thrown_(*run.thrown),
        config_(Clock::simulated),
        system_(config_),
        scheduler_(VirtualScheduler::of(system_)),
        interrupts_(hooks.interrupts),
        is_enough_(hooks.is_enough),
        takes_steps_(run.objective->has_gradients()) {
    auto outer = hooks.sink.on_sample;
    hooks.sink.on_sample = [this, outer](const RunSample& s) {
      last_ = s;
      if (!std::isnan(s.loss)) loss_ = s.loss;
      if (outer && !sampling_quietly_) outer(s);
    };
    if (hooks.on_ranks)
      hooks.on_ranks = [this, told = hooks.on_ranks](const RunSample& s, const auto& parameters) {
        if (!sampling_quietly_) told(s, parameters);
      };
    sink_ = hooks.sink;
    hooks.sink.on_alarm = [this, told = hooks.sink.on_alarm](const Alarm& alarm) {
      if (told) told(alarm);
      if (alarm.what == Alarm::What::divergence && !alarm_) alarm_ = alarm;
    };
    run_.emplace(begin_run(system_, settings_, run.objective, std::move(hooks),
                           [this](Outcome o) { outcome_ = std::move(o); }));
    scheduler_.run();
  }

  ~Simulation() {
    run_->stop();
    scheduler_.clear();
  }

  RunResult drive() {
    result_.consensus_norm_start = norm();
    const RunSample first = last_;
    const auto start = std::chrono::steady_clock::now();
    const uint64_t fired = scheduler_.clock().fired();
    while (!outcome_ && !alarm_ && !over() && scheduler_.step()) {
    }
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    result_.events = scheduler_.clock().fired() - fired;
    result_.events_per_second = static_cast<double>(result_.events) / took.count();
    result_.consensus_norm_end = norm();
    const bool sampled = first.mean != nullptr;  // false if every rule threw at once
    if (sampled && !alarm_) judge_end(first);
    caf::anon_send(run_->node, Finish{});
    scheduler_.run_until([this] { return outcome_.has_value(); });
    GV_CHECK(outcome_.has_value());
    result_.outcome = std::move(*outcome_);
    if (!alarm_ && !result_.outcome.failure)
      if (const std::string held = held_back(settings_, result_.outcome); !held.empty())
        raise(held);
    if (alarm_) {
      result_.outcome.fail(*alarm_);
    } else if (sampled) {
      audit();
    }
    result_.event_log_hash = run_->event_log_hash();
    return std::move(result_);
  }

 private:
  double norm() {  // |pi x|
    sampling_quietly_ = true;
    caf::anon_send(run_->observer, Tick{kSampleNow});
    scheduler_.run();
    sampling_quietly_ = false;
    return std::sqrt(last_.consensus_distance * last_.ranks);
  }

  // Tests the end, because the run was sampled too seldom or never.
  void judge_end(const RunSample& first) {
    Sizes now = sizes_of(*last_.mean, *first.mean);
    if (!takes_steps_) now.moved = 0;
    now.distance = last_.consensus_distance;
    now.loss = loss_;
    now.first_loss = run_->counters->first_loss.load(std::memory_order_relaxed);
    const std::string grown = DivergenceWatch::far(now, first.consensus_distance);
    if (!grown.empty()) raise(grown);
  }

  void raise(const std::string& grown) {
    alarm_ = raise_divergence(settings_, sink_, last_.at_s, grown);
  }

  // Finds a rule, such as a user's own, that loses a jump.
  void audit() const {
    double most = 0;
    for (const double m : *last_.mean)
      most = std::max(most, std::abs(m));
    const double off = result_.outcome.conserved_error;  // NaN: not audited
    const double explained =
        result_.outcome.broken_after_norm + kRounding * last_.ranks * (1 + most);
    if (!(off > explained)) return;
    Alarm alarm;
    alarm.what = Alarm::What::conserved_sum;
    alarm.at_s = last_.at_s;
    alarm.is = fmt::format("the sum that {} conserves has moved by {:.3g}", settings_.method, off);
    alarm.reason = fmt::format("exchanges that ended half-done explain {:.3g}",
                               result_.outcome.broken_after_norm);
    alarm.advice = "averages are not exact: look for a jump that one end applies and the other not";
    sink_.raise(alarm);
  }

  bool over() {
    if (settings_.until_s > 0 && !scheduler_.clock().empty() &&
        scheduler_.clock().next() > run_->clock.instant(settings_.until_s))
      return true;
    if (interrupts_ != nullptr && interrupts_->load(std::memory_order_relaxed) > 0) return true;
    if (is_enough_ != nullptr && is_enough_->load(std::memory_order_relaxed)) return true;
    if (thrown_.any()) return true;
    if (settings_.target <= 0) return false;
    const uint64_t exchanges = run_->counters->applied_ends.load(std::memory_order_relaxed) / 2;
    if (exchanges < next_check_) return false;
    next_check_ = exchanges + std::max<uint64_t>(1, static_cast<uint64_t>(settings_.ranks) / 8);
    const double shrunk = norm() / result_.consensus_norm_start;
    result_.reached_target = shrunk < settings_.target;
    return result_.reached_target || !(shrunk < 1e4);
  }

  const Settings& settings_;
  const Thrown& thrown_;
  RunSystemConfig config_;
  caf::actor_system system_;
  VirtualScheduler& scheduler_;
  const std::atomic<int>* interrupts_;
  const std::atomic<bool>* is_enough_;
  const bool takes_steps_;
  std::optional<SpawnedRun> run_;
  std::optional<Outcome> outcome_;
  std::optional<Alarm> alarm_;  // the run has diverged
  Sink sink_;                   // the user's
  RunSample last_;
  double loss_ = Sizes::kNone;  // the last that a sample had
  bool sampling_quietly_ = false;
  uint64_t next_check_ = 0;
  RunResult result_;
};

}  // namespace

RunResult simulate(PreparedRun run) { return Simulation(run, std::move(run.hooks)).drive(); }

}  // namespace grapevine
