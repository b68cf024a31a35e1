#include "actors/run.hpp"

#include <chrono>
#include <cmath>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "actors/algorithms/choose.hpp"
#include "actors/faults.hpp"
#include "actors/state.hpp"
#include "actors/topology_manager.hpp"
#include "actors/transport/simulated.hpp"
#include "actors/virtual_clock.hpp"

namespace grapevine {

RunSystemConfig::RunSystemConfig(Clock clock) {
  if (clock == Clock::simulated) {
    load<VirtualScheduler>();
  } else {
    set("scheduler.policy", caf::atom("sharing"));
    set("scheduler.max-threads", size_t{2});
  }
}

int compute_threads(const Settings& s) {
  if (s.clock == Clock::simulated) return 1;
  const auto cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  return s.threads > 0 ? s.threads : std::min(cores, std::max(1, s.ranks));
}

namespace {

void deliver(caf::actor_system& system, const Mailboxes& mailboxes, RunClock::Instant at, int to,
             Frame frame) {
  if (auto actor = mailboxes.find(to)) {
    system.clock().schedule_message(
        at, std::move(actor),
        caf::make_mailbox_element(nullptr, caf::make_message_id(), {}, std::move(frame)));
  }
}

// How long one gradient of one rank takes when all ranks compute: the first guess for the rates.
double measure_gradient(Objective& objective, const Settings& s, int threads) {
  if (!objective.has_gradients()) return s.gradient_s;
  const size_t size = objective.layout().size();
  Buffer x(size, objective.layout().dtype()), g(size, objective.layout().dtype());
  objective.initial_point(0, x);
  double best = kNever;
  for (int round = 0; round < 3; ++round) {
    const auto start = std::chrono::steady_clock::now();
    objective.gradient(0, 0, 0, x, g);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    best = std::min(best, took.count());
  }
  return std::max(1e-5, best * std::max(1.0, static_cast<double>(s.ranks) / threads));
}

StateWiring state_wiring(const Settings& s, const RunClock& clock,
                         const std::shared_ptr<Objective>& objective, size_t groups) {
  StateWiring wiring{clock, objective, s.method, {}, {}, static_cast<int>(groups), 0, 0, 0, false};
  if (objective->has_gradients()) wiring.optimizer = {s.momentum, s.nesterov, s.weight_decay};
  const auto members = (static_cast<size_t>(s.ranks) + groups - 1) / groups;
  wiring.snapshots = 8 * members + 8;  // a rank has at most four exchanges open, one copy, one sample
  if (pattern_of(s.method) == Pattern::collective) {
    const auto n = static_cast<size_t>(s.ranks);
    wiring.chunk_size = objective->layout().size() / n + 1;
    wiring.chunks = 6 * n * members;  // the parts of two rounds are kept, those of a third arrive
  }
  wiring.audits = s.clock == Clock::simulated;
  return wiring;
}

}  // namespace

void SpawnedRun::stop() {
  for (const StateActor& state : states) caf::anon_send_exit(state, caf::exit_reason::kill);
  caf::anon_send_exit(faults, caf::exit_reason::kill);
  caf::anon_send_exit(observer, caf::exit_reason::kill);
  caf::anon_send_exit(manager, caf::exit_reason::kill);
  caf::anon_send_exit(node, caf::exit_reason::user_shutdown);
  compute->stop();
  node = nullptr;
  manager = nullptr;
  observer = nullptr;
  faults = nullptr;
  states.clear();
}

SpawnedRun spawn_run(caf::actor_system& system, const Settings& given,
                     std::shared_ptr<Objective> objective, RunHooks hooks,
                     std::function<void(Outcome)> done) {
  const auto settings = std::make_shared<const Settings>(given);
  const Settings& s = *settings;
  const bool wall = s.clock == Clock::wall;
  const int threads = compute_threads(s);
  const double gradient_s = wall ? measure_gradient(*objective, s, threads) : s.gradient_s;
  const RunClock clock(system);
  auto tally = std::make_shared<Tally>();
  auto mailboxes = std::make_shared<Mailboxes>(s.ranks);

  std::shared_ptr<Transport> transport;
  std::shared_ptr<Compute> compute;
  std::function<uint64_t()> hash;
  if (wall) {
    transport = std::make_shared<LocalTransport>([mailboxes](int to, Frame frame) {
      if (auto actor = mailboxes->find(to))
        caf::anon_send(caf::actor_cast<CommunicatorActor>(actor), std::move(frame));
    });
    compute = std::make_shared<ThreadCompute>(clock, system, objective, threads);
  } else {
    auto simulated = std::make_shared<SimulatedTransport>(
        s.link, s.plan.link_faults, s.seed, s.ranks,
        [&system, mailboxes, clock](double at, int to, Frame frame) {
          deliver(system, *mailboxes, clock.instant(at), to, std::move(frame));
        });
    transport = simulated;
    compute = std::make_shared<InlineCompute>(
        clock, system, objective, ComputeModel{s.gradient_s, s.speed_spread, s.seed},
        [simulated](uint64_t word) { simulated->fold(word); });
    hash = [simulated] { return simulated->event_log_hash(); };
  }

  const size_t groups = wall ? static_cast<size_t>(std::min(s.ranks, threads)) : 1;
  std::vector<StateActor> states;
  for (size_t k = 0; k < groups; ++k)
    states.push_back(system.spawn<State>(state_wiring(s, clock, objective, groups)));
  auto observer = system.spawn<Observer>(ObserverWiring{
      clock, s.sample_s, objective->layout().size(), tally, states, hooks.sink});
  auto manager = system.spawn<TopologyManager>(
      ManagerWiring{clock, settings, compute, gradient_s, {observer}});
  NodeWiring wiring{clock,
                    settings,
                    objective,
                    mailboxes,
                    transport,
                    compute,
                    tally,
                    states,
                    manager,
                    hooks.make_worker ? hooks.make_worker : MakeWorker(spawn_worker),
                    gradient_s,
                    hooks.sink,
                    std::move(done)};
  auto node = system.spawn<Node>(std::move(wiring));
  auto faults = system.spawn<Faults>(FaultsWiring{clock, s.plan, s.ranks, node, manager});
  caf::anon_send(node, Start{});
  caf::anon_send(faults, Start{});
  if (s.sample_s > 0) caf::anon_send(observer, Tick{kSamplePeriod});
  return {node, manager, observer, faults, states, compute, tally, clock, hash};
}

namespace {

RunResult run_wall(const Settings& settings, std::shared_ptr<Objective> objective, RunHooks hooks) {
  RunSystemConfig config(Clock::wall);
  caf::actor_system system{config};
  std::mutex mutex;
  std::condition_variable ended;
  std::optional<Outcome> outcome;
  const auto* interrupts = hooks.interrupts;
  SpawnedRun run = spawn_run(system, settings, std::move(objective), std::move(hooks),
                             [&](Outcome o) {
                               const std::lock_guard lock(mutex);
                               outcome = std::move(o);
                               ended.notify_all();
                             });
  const auto deadline = std::chrono::steady_clock::now() +
                        std::chrono::duration<double>(settings.until_s > 0 ? settings.until_s : 1e9);
  bool asked = false;
  std::unique_lock lock(mutex);
  while (!outcome) {
    ended.wait_for(lock, std::chrono::milliseconds(50));
    const bool over = std::chrono::steady_clock::now() >= deadline ||
                      (interrupts != nullptr && interrupts->load() > 0);
    if (over && !asked) {
      asked = true;
      caf::anon_send(run.node, Finish{});
    }
  }
  lock.unlock();
  run.stop();
  RunResult result;
  result.outcome = std::move(*outcome);
  return result;
}

// Drives the virtual clock until the run is over, its time is up, or the ranks agree well enough.
class Simulation {
 public:
  Simulation(const Settings& settings, std::shared_ptr<Objective> objective, RunHooks hooks)
      : settings_(settings), config_(Clock::simulated), system_(config_),
        scheduler_(VirtualScheduler::of(system_)), interrupts_(hooks.interrupts) {
    auto outer = hooks.sink.on_sample;
    hooks.sink.on_sample = [this, outer](const RunSample& s) {
      last_ = s;
      if (outer && !sampling_quietly_) outer(s);
    };
    run_.emplace(spawn_run(system_, settings, std::move(objective), std::move(hooks),
                           [this](Outcome o) { outcome_ = std::move(o); }));
    scheduler_.run();
  }

  ~Simulation() {
    run_->stop();
    run_.reset();
    scheduler_.run();
    scheduler_.clock().cancel_all();
    scheduler_.run();
  }

  RunResult drive() {
    result_.consensus_norm_start = norm();
    const auto start = std::chrono::steady_clock::now();
    const uint64_t fired = scheduler_.clock().fired();
    while (!outcome_ && !over() && scheduler_.step()) {
    }
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    result_.events = scheduler_.clock().fired() - fired;
    result_.events_per_second = static_cast<double>(result_.events) / took.count();
    result_.consensus_norm_end = norm();
    caf::anon_send(run_->node, Finish{});
    scheduler_.run();
    while (!outcome_ && scheduler_.step()) {
    }
    GV_CHECK(outcome_.has_value());
    result_.outcome = std::move(*outcome_);
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

  bool over() {
    if (settings_.until_s > 0 && !scheduler_.clock().empty() &&
        scheduler_.clock().next() > run_->clock.instant(settings_.until_s))
      return true;
    if (interrupts_ != nullptr && interrupts_->load(std::memory_order_relaxed) > 0) return true;
    if (settings_.target <= 0) return false;
    const uint64_t exchanges = run_->tally->applied_ends.load(std::memory_order_relaxed) / 2;
    if (exchanges < next_check_) return false;
    next_check_ = exchanges + std::max<uint64_t>(1, static_cast<uint64_t>(settings_.ranks) / 8);
    const double shrunk = norm() / result_.consensus_norm_start;
    result_.reached_target = shrunk < settings_.target;
    return result_.reached_target || !(shrunk < 1e4);
  }

  const Settings& settings_;
  RunSystemConfig config_;
  caf::actor_system system_;
  VirtualScheduler& scheduler_;
  const std::atomic<int>* interrupts_;
  std::optional<SpawnedRun> run_;
  std::optional<Outcome> outcome_;
  RunSample last_;
  bool sampling_quietly_ = false;
  uint64_t next_check_ = 0;
  RunResult result_;
};

}  // namespace

RunResult run(const Settings& settings, std::shared_ptr<Objective> objective, RunHooks hooks) {
  if (settings.clock == Clock::wall)
    return run_wall(settings, std::move(objective), std::move(hooks));
  return Simulation(settings, std::move(objective), std::move(hooks)).drive();
}

// --- what an outcome says

Buffer mean_parameters(const Outcome& outcome) {
  GV_CHECK(!outcome.parameters.empty());
  const Buffer& first = *outcome.parameters.front().x;
  Buffer sum(first.size(), DType::f64);
  const Buffer zero(first.size(), DType::f64);
  for (const RankParameters& p : outcome.parameters) add_deviation({}, p.x->vec(), zero, sum);
  Buffer mean(first.size(), first.dtype());
  const double n = static_cast<double>(outcome.parameters.size());
  for (size_t k = 0; k < first.size(); ++k) {
    const double value = sum.vec().as<double>()[k] / n;
    if (first.dtype() == DType::f32) {
      mean.vec().as<float>()[k] = static_cast<float>(value);
    } else {
      mean.vec().as<double>()[k] = value;
    }
  }
  return mean;
}

double consensus_distance(const Outcome& outcome) {
  const size_t size = outcome.parameters.front().x->size();
  Buffer sum(size, DType::f64), mean(size, DType::f64), unused(size, DType::f64);
  for (const RankParameters& p : outcome.parameters) add_deviation({}, p.x->vec(), mean, sum);
  const double n = static_cast<double>(outcome.parameters.size());
  scale({}, 1 / n, sum, mean);
  double squares = 0;
  for (const RankParameters& p : outcome.parameters)
    squares += add_deviation({}, p.x->vec(), mean, unused);
  return squares / n;
}

uint64_t parameter_hash(const Outcome& outcome) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const RankParameters& p : outcome.parameters) {
    const ConstVec x = std::as_const(*p.x).vec();
    const auto* bytes = static_cast<const unsigned char*>(x.data);
    for (size_t k = 0; k < x.bytes(); ++k) hash = (hash ^ bytes[k]) * 0x100000001b3;
  }
  return hash;
}

}  // namespace grapevine
