#include "tests/run/simulated_scripts.hpp"

#include <cmath>
#include <utility>

#include "kernels/passes/ops.hpp"

namespace grapevine {
namespace {

struct Answered {
  GuestAnswer answer;
};

enum ScriptTick { kComes, kStepMade, kGoes };

using ScriptActor = caf::typed_actor<Takes<Tick>, Takes<Answered>>;

struct ScriptDependencies {
  int place = 0;
  ScriptOptions options;
  RunClock clock;
  double gradient_s = 1;
  std::shared_ptr<Objective> objective;
  std::weak_ptr<GuestTable> table;
  std::shared_ptr<ScriptLog> log;
};

// The seat keeps the script, which goes with the run.
class Script final : public ScriptActor::base {
 public:
  Script(caf::actor_config& config, ScriptDependencies deps)
      : ScriptActor::base(config), deps_(std::move(deps)) {}

 protected:
  behavior_type make_behavior() override {
    at(deps_.options.comes_s, kComes);
    if (deps_.options.goes_s < kNever) at(deps_.options.goes_s, kGoes);
    return {
        [this](Tick tick) {
          if (tick.id == kComes) return come();
          if (tick.id == kGoes) return go();
          const auto seat = seat_.lock();
          const auto table = deps_.table.lock();
          if (seat == nullptr || table == nullptr) return;
          if (!deps_.options.writes_early) write(*seat);
          seat->steps = true;
          seat->turn = GuestSeat::Turn::rank;
          const GuestTable::RankWorker server = table->worker_at(deps_.place);
          if (server.worker) send(server.worker, Computed{});
        },
        [this](const Answered& a) {
          if (const auto seat = seat_.lock()) answered(a.answer, *seat);
        },
    };
  }

 private:
  void at(double seconds, int what) {
    scheduled_send(caf::actor_cast<ScriptActor>(this), deps_.clock.instant(seconds), Tick{what});
  }

  void come() {
    const ParameterLayout& layout = deps_.objective->layout();
    auto memory = std::make_shared<Buffer>(layout.size(), layout.dtype());
    v_ = Buffer(layout.size(), layout.dtype());
    g_ = Buffer(layout.size(), layout.dtype());
    auto seat = std::make_shared<GuestSeat>(
        memory->vec(), memory,
        [me = caf::actor_cast<ScriptActor>(this)](const GuestAnswer& answer) {
          caf::anon_send(me, Answered{answer});
        });
    seat->turn = GuestSeat::Turn::rank;
    seat_ = seat;
    if (const auto table = deps_.table.lock()) table->set_seat(deps_.place, std::move(seat));
  }

  void go() {
    if (const auto table = deps_.table.lock()) table->set_seat(deps_.place, nullptr);
  }

  void write(GuestSeat& seat) {
    const ScriptOptions& o = deps_.options;
    mix_and_step({}, 0, {o.lr, o.momentum, false, 0}, g_, v_, seat.front, {}, {});
    if (o.spoils_at > 0 && static_cast<double>(deps_.log->steps) == o.spoils_at)
      *seat.front.as<double>() = std::nan("");
  }

  // The gradient is computed at once, and the step told when the modelled time is over.
  void answered(const GuestAnswer& a, GuestSeat& seat) {
    ScriptLog& log = *deps_.log;
    if (!std::exchange(begun_, true))
      log.first = a.steps;
    else
      ++log.steps;
    log.exchanges = a.exchanges;
    log.answered_s.push_back(deps_.clock.now());
    log.not_finite += std::exchange(seat.finite, 1) != 1;
    log.end = a.end;
    const ScriptOptions& o = deps_.options;
    const bool done = o.steps > 0 && log.steps >= o.steps;
    if (done) send(deps_.table.lock()->worker_at(deps_.place).worker, GuestFinished{});
    if (done || a.end) return;
    seat.loss = deps_.objective->gradient(0, deps_.place, a.steps, seat.front, g_);
    if (o.writes_early) write(seat);
    const bool tests = o.tests_s > 0 && static_cast<double>(log.steps) == o.tests_at;
    const double takes_s = deps_.gradient_s * o.slowness + (tests ? o.tests_s : 0);
    at(deps_.clock.now() + takes_s, kStepMade);
  }

  ScriptDependencies deps_;
  std::weak_ptr<GuestSeat> seat_;
  Buffer v_, g_;
  bool begun_ = false;
};

}  // namespace

SimulatedScripts::SimulatedScripts(Settings settings, std::shared_ptr<Objective> objective,
                                   std::vector<std::vector<ScriptOptions>> scripts)
    : settings_(std::move(settings)),
      objective_(std::move(objective)),
      scripts_(std::move(scripts)) {
  for (const auto& place : scripts_) {
    logs_.emplace_back();
    for (size_t k = 0; k < place.size(); ++k)
      logs_.back().push_back(std::make_shared<ScriptLog>());
  }
}

RunHooks SimulatedScripts::hooks() const {
  auto table = std::make_shared<GuestTable>(static_cast<int>(scripts_.size()));
  auto begun = std::make_shared<std::vector<bool>>(scripts_.size());
  RunHooks hooks;
  hooks.make_worker = [=, this, make = guest_workers(table)](caf::actor_system& system,
                                                             WorkerDependencies deps) {
    const auto place = static_cast<size_t>(deps.place);
    const RunClock clock = deps.clock;
    WorkerActor worker = make(system, std::move(deps)).actor;
    if (begun->at(place)) return worker;
    begun->at(place) = true;
    for (size_t k = 0; k < scripts_[place].size(); ++k)
      system.spawn<Script>(ScriptDependencies{static_cast<int>(place), scripts_[place][k], clock,
                                              settings_.gradient_s, objective_, table,
                                              logs_[place][k]});
    return worker;
  };
  return hooks;
}

}  // namespace grapevine

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(grapevine::Answered)
