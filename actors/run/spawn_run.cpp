#include "actors/run/spawn_run.hpp"

#include <algorithm>
#include <system_error>
#include <utility>

#include "actors/clocks/virtual_clock.hpp"
#include "actors/clocks/wall_scheduler.hpp"
#include "actors/mail/mail_node.hpp"
#include "actors/node/checkpointer.hpp"
#include "actors/run/prepared_run.hpp"
#include "actors/run/site.hpp"
#include "actors/settings/counters.hpp"
#include "kernels/base/caught.hpp"

namespace grapevine {

using KeptRun = std::shared_ptr<SpawnedRun>;  // null: it could not begin
using Costs = std::shared_ptr<const std::vector<RankCost>>;

}  // namespace grapevine

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(grapevine::KeptRun)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(grapevine::Costs)

namespace grapevine {

namespace {

constexpr double kLook_s = 0.05;  // between two looks at what may end a run

// Owns the actors of a run: Start spawns them, Finish stops them. Both may take long, and stopping
// waits for threads that run actors. So under the wall clock the keeper has a thread of its own.
using KeeperActor = caf::typed_actor<Answers<Start, KeptRun>, Answers<Finish, Costs>>;

// Also gets what happens in the run.
using RunnerActor = RunActor::extend<Takes<RunSample>, Takes<EpochInfo>, Takes<std::string>,
                                     Takes<Alarm>, Takes<Outcome>, Takes<Tick>>;

template <class Message>
void tell(const caf::weak_actor_ptr& runner, Message message) {
  if (const auto alive = caf::actor_cast<caf::strong_actor_ptr>(runner))
    caf::anon_send(caf::actor_cast<RunnerActor>(alive), std::move(message));
}

template <class Value>
std::function<void(const Value&)> also_to(const caf::weak_actor_ptr& runner,
                                          std::function<void(const Value&)> told) {
  return [runner, told = std::move(told)](const Value& value) {
    if (told) told(value);
    tell(runner, value);
  };
}

class Keeper final : public KeeperActor::base {
 public:
  Keeper(caf::actor_config& config, PreparedRun prepared)
      : KeeperActor::base(config), prepared_(std::move(prepared)) {}

 protected:
  behavior_type make_behavior() override {
    return {[this](Start) { return begin(caf::actor_cast<caf::weak_actor_ptr>(current_sender())); },
            [this](Finish) { return stop(); }};
  }

  void on_exit() override { stop(); }

 private:
  KeptRun begin(const caf::weak_actor_ptr& runner) {
    prepared_.thrown->tell([runner] { tell(runner, Tick{}); });
    RunHooks hooks = std::move(prepared_.hooks);  // the records go to the ranks
    stop_checkpoints_ = hooks.checkpoints.stop;
    hooks.sink.on_sample = also_to(runner, std::move(hooks.sink.on_sample));
    hooks.sink.on_epoch = also_to(runner, std::move(hooks.sink.on_epoch));
    hooks.sink.on_event = also_to(runner, std::move(hooks.sink.on_event));
    hooks.sink.on_alarm = also_to(runner, std::move(hooks.sink.on_alarm));
    const Status begun = caught([&]() -> Status {
      run_ = std::make_shared<SpawnedRun>(
          begin_run(system(), prepared_.settings, prepared_.objective, std::move(hooks),
                    [runner](Outcome outcome) { tell(runner, std::move(outcome)); }));
      return Done{};
    });
    if (!begun) prepared_.thrown->keep(begun.error());
    return run_;
  }

  Costs stop() {
    if (!run_) return std::make_shared<const std::vector<RankCost>>();
    const auto ledgers = run_->ledgers;
    const RunClock clock = run_->clock;
    run_->stop();
    run_.reset();
    return std::make_shared<const std::vector<RankCost>>(
        final_costs(*ledgers, clock, stop_checkpoints_));
  }

  PreparedRun prepared_;
  KeptRun run_;
  std::function<void()> stop_checkpoints_;
};

// Tells a runner that time has passed. The runner cannot have timers of its own, since a timer
// keeps its actor.
void clockwork(caf::event_based_actor* self, const caf::weak_actor_ptr& runner, RunClock clock,
               double first_s, double period_s) {
  self->scheduled_send(caf::actor(self), clock.instant(first_s), Tick{});
  self->become([=](Tick tick) {
    if (!caf::actor_cast<caf::strong_actor_ptr>(runner)) return self->quit();
    tell(runner, tick);
    if (period_s == 0) return self->quit();
    self->scheduled_send(caf::actor(self), clock.instant(clock.now() + period_s), tick);
  });
}

class Runner final : public RunnerActor::base {
 public:
  Runner(caf::actor_config& config, const PreparedRun& run, KeeperActor keeper)
      : RunnerActor::base(config),
        settings_(run.settings),
        objective_(run.objective),
        sink_(run.hooks.sink),
        interrupts_(run.hooks.interrupts),
        is_enough_(run.hooks.is_enough),
        thrown_(run.thrown),
        keeper_(std::move(keeper)) {}

 protected:
  behavior_type make_behavior() override;
  void on_exit() override;

 private:
  enum class Phase { waiting, running, ending, over };

  std::string refusal() const;  // of a request; empty: the run can serve it
  void begin();
  void begun(const KeptRun&);
  void subscribe(const caf::actor& listener);
  void look();
  void save_and_finish();
  void saved();
  void finish();
  void on_down(const caf::down_msg&);
  void end(Outcome);
  void conclude(Outcome);
  void release();
  caf::result<RanksReport> report();

  template <class Message>
  void tell_all(const Message& message) const {
    for (const caf::actor& listener : listeners_)
      caf::anon_send(listener, message);
  }

  const Settings settings_;
  std::shared_ptr<Objective> objective_;
  Sink sink_;
  const std::atomic<int>* interrupts_;
  const std::atomic<bool>* is_enough_;
  std::shared_ptr<Thrown> thrown_;
  KeeperActor keeper_;
  Phase phase_ = Phase::waiting;
  bool asked_ = false;               // to finish
  std::optional<double> save_by_s_;  // of the last checkpoint, while the end waits for it
  KeptRun run_;
  std::shared_ptr<Counters> counters_;
  std::vector<caf::actor> listeners_, clockworks_;
  std::optional<Alarm> alarm_;    // the run has diverged
  std::optional<Outcome> ended_;  // but the last checkpoint is not
  Outcome outcome_;
};

std::string Runner::refusal() const {
  if (phase_ == Phase::waiting) return "the run has not begun";
  if (phase_ == Phase::over) return "the run is over";
  return phase_ == Phase::ending || asked_ ? "the run is ending" : "";
}

caf::error refused(const std::string& why) { return caf::make_error(caf::sec::runtime_error, why); }

Outcome failed(std::string why) {
  Outcome outcome;
  outcome.failure = world_error(std::move(why));
  return outcome;
}

void Runner::subscribe(const caf::actor& listener) {
  if (!listener) return;
  if (phase_ == Phase::over) return caf::anon_send(listener, outcome_);
  if (std::find(listeners_.begin(), listeners_.end(), listener) != listeners_.end()) return;
  monitor(listener);
  listeners_.push_back(listener);
}

void Runner::begin() {
  if (phase_ != Phase::waiting) return;
  phase_ = Phase::running;
  request(keeper_, caf::infinite, Start{})
      .await([this](const KeptRun& kept) { begun(kept); },
             [this](const caf::error& e) { conclude(failed(system().render(e))); });
}

void Runner::begun(const KeptRun& kept) {
  if (!kept) return conclude({});
  run_ = kept;
  counters_ = run_->counters;
  monitor(run_->node);
  const auto me = caf::actor_cast<caf::weak_actor_ptr>(caf::actor_cast<RunnerActor>(this));
  const bool wall = settings_.clock == Clock::wall;
  if (!wall && settings_.until_s > 0)
    clockworks_.push_back(system().spawn(clockwork, me, run_->clock, settings_.until_s, 0.0));
  const double period_s = wall ? kLook_s : settings_.gradient_s;
  if (wall || interrupts_ != nullptr || is_enough_ != nullptr)
    clockworks_.push_back(system().spawn(clockwork, me, run_->clock, period_s, period_s));
  look();  // at what has happened since Start
}

void Runner::look() {
  if (phase_ != Phase::running) return;
  if (save_by_s_ && run_->clock.now() >= *save_by_s_) return saved();
  if (thrown_->any()) return end({});  // no outcome follows an exception
  if (interrupts_ != nullptr && interrupts_->load() > 0) return save_and_finish();
  constexpr double kRounding_s = 1e-9;
  const bool late = settings_.until_s > 0 && run_->clock.now() >= settings_.until_s - kRounding_s;
  if (late || (is_enough_ != nullptr && is_enough_->load())) finish();
}

void Runner::save_and_finish() {
  if (std::exchange(asked_, true)) return;
  save_by_s_ = run_->clock.now() + static_cast<double>(kSaveAtMost.count());
  if (!run_->checkpointer) return saved();
  // Without a time limit, which would be a timer of the runner.
  request(run_->checkpointer, caf::infinite, SaveNow{})
      .then([this](const std::string&) { saved(); }, [this](const caf::error&) { saved(); });
}

// Or it has failed, or takes too long.
void Runner::saved() {
  if (phase_ != Phase::running || !std::exchange(save_by_s_, std::nullopt)) return;
  if (ended_) return end(std::move(*ended_));
  send(run_->membership, ShareDone{});
}

void Runner::finish() {
  if (phase_ == Phase::waiting) return conclude(failed("the run was ended before it began"));
  if (phase_ != Phase::running || std::exchange(asked_, true)) return;
  send(run_->membership, ShareDone{});
}

void Runner::on_down(const caf::down_msg& down) {
  std::erase_if(listeners_, [&](const caf::actor& a) { return a.address() == down.source; });
  if (phase_ == Phase::running && run_ && run_->node.address() == down.source)
    end(failed("the node of the run has ended: " + system().render(down.reason)));
}

void Runner::end(Outcome outcome) {
  if (phase_ != Phase::running) return;
  if (save_by_s_) {
    if (!ended_) ended_ = std::move(outcome);
    return;
  }
  phase_ = Phase::ending;
  run_.reset();
  for (const caf::actor& clockwork : std::exchange(clockworks_, {}))
    caf::anon_send_exit(clockwork, caf::exit_reason::kill);
  const auto ended = std::make_shared<Outcome>(std::move(outcome));
  request(keeper_, caf::infinite, Finish{})
      .then(
          [this, ended](const Costs& costs) {
            ended->costs = *costs;
            conclude(std::move(*ended));
          },
          [this, ended](const caf::error&) { conclude(std::move(*ended)); });
}

void Runner::conclude(Outcome outcome) {
  if (alarm_) outcome.fail(*alarm_);
  if (const auto what = thrown_->first()) {
    outcome.failure = what;
  } else if (counters_) {
    Sink sink;  // the listeners get an alarm before the outcome
    sink.on_event = [this](const std::string& line) {
      if (sink_.on_event) sink_.on_event(line);
      tell_all(line);
    };
    sink.on_alarm = [this](const Alarm& alarm) {
      if (sink_.on_alarm) sink_.on_alarm(alarm);
      tell_all(alarm);
    };
    judge_end(settings_, *objective_, *counters_, sink, outcome);
  }
  outcome_ = std::move(outcome);
  phase_ = Phase::over;
  tell_all(outcome_);
  for (const caf::actor& listener : std::exchange(listeners_, {}))
    demonitor(listener.address());
  release();
}

// Drops the objects that only a run in progress needs.
void Runner::release() {
  if (keeper_) caf::anon_send_exit(keeper_, caf::exit_reason::user_shutdown);
  keeper_ = nullptr;
  run_.reset();
  counters_.reset();
  objective_.reset();
  sink_ = {};
}

caf::result<RanksReport> Runner::report() {
  if (phase_ == Phase::over)
    return RanksReport{outcome_.seconds, outcome_.workers, outcome_.communicators};
  if (phase_ != Phase::running) return refused(refusal());
  auto promise = make_response_promise<RanksReport>();
  request(run_->node, caf::infinite, Report{})
      .then(
          [promise, now = run_->clock.now()](NodeReport& all) mutable {
            promise.deliver(RanksReport{now, std::move(all.workers), std::move(all.communicators)});
          },
          [promise](const caf::error&) mutable { promise.deliver(refused("the run is ending")); });
  return promise;
}

Runner::behavior_type Runner::make_behavior() {
  set_exit_handler([this](const caf::exit_msg& exit) { quit(exit.reason); });
  set_down_handler([this](const caf::down_msg& down) { on_down(down); });
  return {
      [this](Start) { begin(); },
      [this](Finish) { finish(); },
      [this](const Subscribe& who) { subscribe(who.listener); },
      [this](const Reconfigure& change) -> caf::result<std::string> {
        if (const std::string why = refusal(); !why.empty()) return refused(why);
        return delegate(run_->membership, change);
      },
      [this](const KillRank& kill) -> caf::result<std::string> {
        if (const std::string why = refusal(); !why.empty()) return refused(why);
        return delegate(run_->node, ChangeRank{kill.rank, false});
      },
      [this](RestartRank restart) -> caf::result<std::string> {
        if (const std::string why = refusal(); !why.empty()) return refused(why);
        return delegate(run_->node, ChangeRank{restart.rank, true});
      },
      [this](Report) { return report(); },
      [this](const RunSample& sample) { tell_all(sample); },
      [this](const EpochInfo& epoch) { tell_all(epoch); },
      [this](const std::string& line) { tell_all(line); },
      [this](const Alarm& alarm) {
        tell_all(alarm);
        if (alarm.what != Alarm::What::divergence || phase_ != Phase::running) return;
        if (!alarm_) alarm_ = alarm;
        finish();
      },
      [this](Outcome& outcome) { end(std::move(outcome)); },
      [this](Tick) { look(); },
  };
}

void Runner::on_exit() {
  if (phase_ != Phase::over) tell_all(failed("the actor of the run has ended before the run"));
  for (const caf::actor& clockwork : clockworks_)
    caf::anon_send_exit(clockwork, caf::exit_reason::kill);
  listeners_.clear();
  clockworks_.clear();
  release();
}

// The scheduler makes the time of its system.
Status check_clock(caf::actor_system& system, const Settings& s) {
  const bool is_virtual = dynamic_cast<VirtualScheduler*>(&system.scheduler()) != nullptr;
  if (is_virtual == (s.clock == Clock::simulated)) return Done{};
  return user_error(std::string("the actor system has the ") + (is_virtual ? "virtual" : "wall") +
                    " clock and the settings name the " + (is_virtual ? "wall" : "virtual") +
                    " clock, accepted: a system made with RunSystemConfig(settings.clock)");
}

// If the keeper's thread cannot start, CAF leaves the keeper without an end, but counts it. The
// system's destructor would wait for it.
KeeperActor spawn_keeper(caf::actor_system& system, const PreparedRun& prepared) {
  if (prepared.settings.clock != Clock::wall) return system.spawn<Keeper>(prepared);
  try {
    return system.spawn<Keeper, caf::detached>(prepared);
  } catch (const std::system_error&) {
    system.registry().dec_running();
    system.dec_detached_threads();
    throw;
  }
}

Result<VirtualScheduler*> virtual_scheduler(caf::actor_system& system) {
  if (auto* const scheduler = dynamic_cast<VirtualScheduler*>(&system.scheduler()))
    return scheduler;
  return user_error(
      "the actor system has no virtual clock, accepted: a system made with "
      "RunSystemConfig(Clock::simulated)");
}

}  // namespace

RunActor spawn_prepared(caf::actor_system& system, PreparedRun prepared) {
  WallScheduler::require_threads(system);
  const KeeperActor keeper = spawn_keeper(system, prepared);
  return caf::actor_cast<RunActor>(system.spawn<Runner>(prepared, keeper));
}

Result<RunActor> spawn_run(caf::actor_system& system, const Settings& settings,
                           std::shared_ptr<Objective> objective, RunHooks hooks) {
  if (settings.target > 0)
    return user_error("target is " + std::to_string(settings.target) +
                      ", accepted: 0, since only run() stops at a target");
  if (Status same = check_clock(system, settings); !same) return same.error();
  try {
    auto prepared = prepare(settings, objective, std::move(hooks));
    if (!prepared) return prepared.error();
    return spawn_prepared(system, std::move(*prepared));
  } catch (const std::system_error& refused) {
    return no_thread(refused);
  }
}

Status run_virtual(caf::actor_system& system, const std::function<bool()>& enough) {
  const auto scheduler = virtual_scheduler(system);
  if (!scheduler) return scheduler.error();
  (*scheduler)->run_until(enough);
  return Done{};
}

Status stop_virtual(caf::actor_system& system, RunActor& run) {
  const auto scheduler = virtual_scheduler(system);
  if (!scheduler) return scheduler.error();
  caf::anon_send_exit(run, caf::exit_reason::user_shutdown);
  run = nullptr;
  (*scheduler)->clear();
  return Done{};
}

}  // namespace grapevine
