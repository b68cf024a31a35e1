#include "actors/run/run.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <future>
#include <system_error>

#include "actors/algorithms/method_registry.hpp"
#include "actors/clocks/virtual_clock.hpp"
#include "actors/clocks/wall_scheduler.hpp"
#include "actors/compute/device_compute.hpp"
#include "actors/compute/host_compute.hpp"
#include "actors/node/checkpointer.hpp"
#include "actors/node/faults.hpp"
#include "actors/node/local_membership.hpp"
#include "actors/node/node.hpp"
#include "actors/node/observer.hpp"
#include "actors/node/topology_manager.hpp"
#include "actors/rank/work_pool.hpp"
#include "actors/rank/worker.hpp"
#include "actors/run/fits.hpp"
#include "actors/run/prepared_run.hpp"
#include "actors/run/simulation.hpp"
#include "actors/run/site.hpp"
#include "actors/run/state_sizes.hpp"
#include "actors/settings/counters.hpp"
#include "actors/state/local_steps.hpp"
#include "actors/state/rank_record.hpp"
#include "actors/state/state.hpp"
#include "actors/transport/simulated.hpp"
#include "kernels/base/caught.hpp"
#include "kernels/base/cores.hpp"
#include "kernels/memory/snapshot_pool.hpp"

namespace grapevine {

RunSystemConfig::RunSystemConfig(Clock clock) {
  if (clock == Clock::simulated) {
    load<VirtualScheduler>();
  } else {
    load<WallScheduler>();
    // The compute threads deliver most messages. The threads of the scheduler serve while all
    // compute threads are busy. At least two: while one is in a pass over a model, the other
    // answers probes.
    set("scheduler.max-threads", std::max(size_t{2}, static_cast<size_t>(usable_cores()) / 4));
  }
}

namespace {

constexpr size_t kLargeBytes = size_t{8} << 20;  // from here on it pays to wake a second thread
constexpr int kPoolThreads = 4;                  // they share the memory's bandwidth

}  // namespace

int compute_threads(const Settings& s) {
  if (s.clock == Clock::simulated) return 1;
  if (const auto gpu = gpu_named(s.device); gpu && *gpu) return kLanes + 1;
  return s.threads > 0 ? s.threads : std::min(usable_cores(), std::max(1, ranks_here(s)));
}

Result<std::shared_ptr<Objective>> make_objective(const Settings& s) {
  ObjectiveSpec spec = s.objective;
  spec.ranks = s.ranks;
  spec.seed = s.seed;
  spec.threads = compute_threads(s);
  auto made = make_objective(spec);
  if (!made) return made.error();
  return std::shared_ptr<Objective>(std::move(*made));
}

namespace {

// The first guess for a step of a script or of a device, which cannot be measured before it runs.
// Short, so that the true time replaces it soon.
constexpr double kUnknownStep_s = 0.05;

// The time of one gradient of one rank while all ranks compute: the first guess for the rates.
// Nothing where it cannot be measured before the run.
std::optional<double> measure_gradient(Objective& objective, const Settings& s, int threads,
                                       bool on_device) {
  if (!objective.has_gradients() || on_device) return std::nullopt;
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
  return std::max(1e-5, best * std::max(1.0, static_cast<double>(ranks_here(s)) / threads));
}

StateDependencies state_dependencies(const Settings& s, const RunClock& clock,
                                     const std::shared_ptr<Objective>& objective,
                                     const RunHooks& hooks, size_t groups,
                                     const std::shared_ptr<ForkJoin>& pool) {
  StateDependencies deps{.clock = clock,
                         .objective = objective,
                         .method = s.method,
                         .rule = rule_settings_of(s, *objective),
                         .inner = inner_steps_of(s),
                         .seed = s.seed,
                         .pool = pool,
                         .ranks = s.ranks,
                         .groups = static_cast<int>(groups)};
  const auto members = (static_cast<size_t>(ranks_here(s)) + groups - 1) / groups;
  deps.pools = pools_of(s, *objective, deps.rule, members, hooks.device != nullptr);
  deps.audits = s.clock == Clock::simulated;
  deps.guarded = s.guarded;
  deps.measures_distance = s.clock == Clock::wall;
  deps.recorded = static_cast<bool>(hooks.checkpoints.write);
  deps.on_throw = hooks.on_throw;
  deps.device = hooks.device;
  return deps;
}

}  // namespace

Status fits(const Settings& s, const Objective& objective, const Resumption& resumption) {
  if (resumption.ranks.empty()) return Done{};
  if (resumption.ranks.size() > static_cast<size_t>(ranks_here(s)))
    return user_error("the run resumes from records of " + std::to_string(resumption.ranks.size()) +
                      " ranks, accepted: at most " + std::to_string(ranks_here(s)));
  const ParameterLayout& layout = objective.layout();
  const ParameterLayout& statistics = objective.statistics();
  const Buffer x(layout.size(), layout.dtype());
  Settings any = s;
  any.rule.gamma = 1;  // its value changes nothing here
  const auto rule =
      method_named(s.method).make({0, s.seed, layout, {}, rule_settings_of(any, objective), x});
  const auto local = local_steps_of({}, objective, inner_steps_of(s));
  for (const RankRecordPtr& record : resumption.ranks) {
    if (!record) continue;
    std::string misfit = misfit_of(*record, state_of(0, *rule, local.get()));
    if (misfit.empty() && record->statistics.size() != statistics.size()) misfit = "statistics";
    if (!misfit.empty())
      return user_error("rank " + std::to_string(record->rank) + " has no \"" + misfit +
                        "\" of the size and type that " + s.method + " of " +
                        std::to_string(layout.size()) + " parameters has");
  }
  return Done{};
}

void SpawnedRun::stop() {
  for (const StateActor& state : states)
    caf::anon_send_exit(state, caf::exit_reason::kill);
  caf::anon_send_exit(faults, caf::exit_reason::kill);
  if (checkpointer) caf::anon_send_exit(checkpointer, caf::exit_reason::kill);
  caf::anon_send_exit(observer, caf::exit_reason::kill);
  caf::anon_send_exit(manager, caf::exit_reason::kill);
  caf::anon_send_exit(membership, caf::exit_reason::kill);
  caf::anon_send_exit(node, caf::exit_reason::user_shutdown);
  compute->stop();
  node = nullptr;
  manager = nullptr;
  membership = nullptr;
  observer = nullptr;
  faults = nullptr;
  checkpointer = nullptr;
  states.clear();
}

namespace {

// The site of a run that has no other process.
Site site_alone(caf::actor_system& system, const Settings& s, uint64_t first_epoch) {
  Site site;
  site.mailboxes = std::make_shared<Mailboxes>();
  site.membership = system.spawn<LocalMembership>(std::make_shared<const Settings>(s), first_epoch);
  if (s.clock == Clock::wall) {
    site.transport = std::make_shared<LocalTransport>(deliver_to(site.mailboxes));
    return site;
  }
  auto simulated = std::make_shared<SimulatedTransport>(
      s.link, s.plan.link_faults, s.seed, s.ranks,
      [mailboxes = site.mailboxes, clock = RunClock(system)](double at, int to, Frame frame) {
        if (const auto actor = mailboxes->find(to)) clock.send_at(at, actor, std::move(frame));
      });
  site.log = [simulated](uint64_t word) { simulated->fold(word); };
  site.event_log_hash = [simulated] { return simulated->event_log_hash(); };
  site.transport = std::move(simulated);
  return site;
}

std::shared_ptr<Compute> compute_for(caf::actor_system& system, const RunClock& clock,
                                     const Settings& s, std::shared_ptr<Objective> objective,
                                     const Site& site, const std::shared_ptr<DeviceShare>& device) {
  if (s.clock == Clock::wall && device)
    return std::make_shared<DeviceCompute>(clock, std::move(objective), device);
  if (s.clock == Clock::wall)
    return std::make_shared<ThreadCompute>(clock, system, std::move(objective), compute_threads(s));
  return std::make_shared<InlineCompute>(clock, std::move(objective),
                                         ComputeModel{s.gradient_s, s.speed_spread, s.seed},
                                         site.log, device);
}

}  // namespace

ToOwner to_owner(const StateActor& state) {
  return [self = caf::actor_cast<caf::weak_actor_ptr>(state)](std::function<void()> task) {
    if (const auto alive = caf::actor_cast<caf::strong_actor_ptr>(self))
      caf::anon_send(caf::actor_cast<StateActor>(alive), DeviceTask{std::move(task)});
  };
}

OwnerTime time_of_owner(const RunClock& clock, const StateActor& state) {
  return {[clock] { return clock.now(); },
          [clock, self = caf::actor_cast<caf::weak_actor_ptr>(state)](double at_s,
                                                                      std::function<void()> task) {
            if (const auto alive = caf::actor_cast<caf::strong_actor_ptr>(self))
              clock.send_at(at_s, alive, DeviceTask{std::move(task)});
          }};
}

LocalTransport::Deliver deliver_to(std::shared_ptr<const Mailboxes> mailboxes) {
  return [mailboxes = std::move(mailboxes)](int to, Frame frame) {
    if (auto actor = mailboxes->find(to))
      caf::anon_send(caf::actor_cast<CommunicatorActor>(actor), std::move(frame));
  };
}

SpawnedRun begin_run(caf::actor_system& system, const Settings& settings,
                     std::shared_ptr<Objective> objective, RunHooks hooks,
                     std::function<void(Outcome)> done) {
  WallScheduler::require_threads(system);
  Site site = site_alone(system, settings, hooks.resumption.epoch + 1);
  const auto membership = caf::actor_cast<LocalMembershipActor>(site.membership);
  SpawnedRun run = spawn_on(system, settings, std::move(objective), std::move(hooks),
                            std::move(site), std::move(done));
  caf::anon_send(membership, LocalStart{run.node, run.manager});
  return run;
}

namespace {

// Looks often enough to notice a signal soon; on the virtual clock, whenever one may be due.
CheckpointerActor spawn_checkpointer(caf::actor_system& system, const RunClock& clock,
                                     const Settings& s, const std::vector<StateActor>& states,
                                     const std::shared_ptr<Counters>& counters,
                                     const RunHooks& hooks) {
  const CheckpointOrders& orders = hooks.checkpoints;
  if (!orders.write) return {};
  CheckpointerDependencies deps{.clock = clock,
                                .states = states,
                                .counters = counters,
                                .ranks = ranks_here(s),
                                .trained_s = hooks.resumption.trained_s,
                                .orders = orders,
                                .sink = hooks.sink};
  if (s.clock == Clock::simulated)
    deps.look_s = orders.every_steps > 0 ? s.gradient_s / 2 : orders.every_s;
  const bool looks = deps.look_s > 0;
  const auto actor = system.spawn<Checkpointer>(std::move(deps));
  if (looks) caf::anon_send(actor, Tick{});
  return actor;
}

// `groups` state actors share the ranks. A device has one.
std::vector<StateActor> spawn_states(caf::actor_system& system, const Settings& s,
                                     const RunClock& clock,
                                     const std::shared_ptr<Objective>& objective,
                                     const RunHooks& hooks, SnapshotPool::Memory memory,
                                     size_t groups) {
  std::shared_ptr<ForkJoin> pool;
  if (s.clock == Clock::wall && objective->layout().bytes() >= kLargeBytes)
    pool = std::make_shared<ForkJoin>(std::min(kPoolThreads, usable_cores()));
  StateDependencies state = state_dependencies(s, clock, objective, hooks, groups, pool);
  state.memory = memory;
  std::vector<StateActor> states;
  for (size_t k = 0; k < groups; ++k)
    states.push_back(system.spawn<State>(state));
  return states;
}

// `gradient_s`: of a rank; no value: not known. A step of the rule has inner_steps of them.
TopologyManagerActor spawn_manager(caf::actor_system& system, ManagerDependencies deps,
                                   std::optional<double> gradient_s) {
  const auto gradients = static_cast<double>(deps.settings->inner_steps);
  deps.step_s = gradients * gradient_s.value_or(kUnknownStep_s);
  deps.step_is_known = gradient_s.has_value();
  if (!deps.spectra) deps.spectra = std::make_shared<SpectrumCache>();
  return system.spawn<TopologyManager>(std::move(deps));
}

// The vectors that the ranks combine when their number changes.
int vectors_together(const Settings& s, const Objective& objective) {
  if (method_named(s.method).pattern != Pattern::collective) return 0;
  try {
    return vectors_of_rule(s, objective, rule_settings_of(s, objective));
  } catch (const std::exception&) {
    return 0;  // it throws again when ranks are added, and is reported then
  }
}

FaultsActor spawn_faults(caf::actor_system& system, FaultsDependencies deps) {
  const FaultsActor faults = system.spawn<Faults>(std::move(deps));
  caf::anon_send(faults, Start{});
  return faults;
}

// Empty if no rank has a worker.
std::shared_ptr<Ledgers> ledgers_of(const Settings& s, const Objective& objective) {
  const bool pairs = method_named(s.method).pattern == Pattern::pairwise;
  const int ranks = pairs && !objective.has_workers() ? 0 : ranks_here(s);
  return std::make_shared<Ledgers>(static_cast<size_t>(ranks));
}

std::shared_ptr<WorkPool> pool_of(const Settings& s, uint64_t before) {
  if (!may_pool(s)) return nullptr;
  return std::make_shared<WorkPool>(s.gradients, before, ranks_here(s), s.fastest_at_most);
}

}  // namespace

SpawnedRun spawn_on(caf::actor_system& system, const Settings& given,
                    std::shared_ptr<Objective> objective, RunHooks hooks, Site site,
                    std::function<void(Outcome)> done) {
  const auto settings = std::make_shared<const Settings>(given);
  const Settings& s = *settings;
  const bool wall = s.clock == Clock::wall, on_device = hooks.device != nullptr;
  const int threads = compute_threads(s);
  const std::optional<double> known_s =
      wall ? measure_gradient(*objective, s, threads, on_device) : s.gradient_s;
  const RunClock clock(system);
  auto counters = std::make_shared<Counters>();
  counters->gradients = gradients_of(hooks.resumption);
  const std::shared_ptr<WorkPool> pool = pool_of(s, counters->gradients);
  const auto ledgers = ledgers_of(s, *objective);
  const auto compute = compute_for(system, clock, s, objective, site, hooks.device);

  const size_t groups =
      wall && !on_device ? static_cast<size_t>(std::min(ranks_here(s), threads)) : 1;
  const auto states = spawn_states(system, s, clock, objective, hooks, site.memory, groups);
  if (on_device) compute->serve(to_owner(states.front()));
  auto observer = system.spawn<Observer>(ObserverDependencies{
      clock, s.sample_s, wall, objective->layout().size(), counters, states, hooks.sink,
      divergence_under(s), s.ranks, wall ? OnRanks() : hooks.on_ranks});
  auto manager = spawn_manager(system,
                               {.clock = clock,
                                .settings = settings,
                                .compute = compute,
                                .observers = {observer},
                                .membership = site.membership,
                                .spectra = hooks.spectra},
                               known_s);
  auto node = system.spawn<Node>(NodeDependencies{
      .clock = clock,
      .settings = settings,
      .rule = rule_settings_of(s, *objective),
      .vectors = vectors_together(s, *objective),
      .objective = objective,
      .mailboxes = site.mailboxes,
      .transport = site.transport,
      .compute = compute,
      .counters = counters,
      .ledgers = ledgers,
      .states = states,
      .manager = manager,
      .membership = site.membership,
      .make_worker = hooks.make_worker ? hooks.make_worker : MakeWorker(spawn_worker),
      .pool = pool,
      .gradient_s = known_s.value_or(kUnknownStep_s),
      .records = std::move(hooks.resumption.ranks),
      .trained_s = hooks.resumption.trained_s,
      .sink = hooks.sink,
      .on_report = wall ? hooks.on_report : OnReport(),
      .done = std::move(done)});
  const FaultsActor faults = spawn_faults(system, {clock, s.plan, s.ranks, node, site.membership});
  if (s.sample_s > 0) caf::anon_send(observer, Tick{kSamplePeriod});
  const auto checkpointer = spawn_checkpointer(system, clock, s, states, counters, hooks);
  return {.node = node,
          .manager = manager,
          .membership = site.membership,
          .observer = observer,
          .faults = faults,
          .checkpointer = checkpointer,
          .states = states,
          .compute = compute,
          .counters = counters,
          .ledgers = ledgers,
          .pool = pool,
          .clock = clock,
          .event_log_hash = std::move(site.event_log_hash)};
}

std::vector<RankCost> final_costs(Ledgers& ledgers, const RunClock& clock,
                                  const std::function<void()>& stop_checkpoints) {
  for (RankLedger& ledger : ledgers)
    ledger.save(clock.now());
  if (stop_checkpoints) stop_checkpoints();
  return costs_of(ledgers, clock.now());
}

std::string held_back(const Settings& s, const Outcome& outcome) {
  if (s.local_ranks > 0) return "";  // ranks of other nodes may be the cause
  for (const CommunicatorReport& rank : outcome.communicators) {
    uint64_t whole = rank.counts.clipped;
    for (const EdgeCount& edge : rank.edges)
      whole -= std::min(whole, edge.clipped);
    if (2 * whole <= rank.counts.applied) return "";
  }
  if (outcome.communicators.empty()) return "";
  return "in most rounds each rank is pulled by far more than its usual steps, and only the guard "
         "limits this: without it the ranks drift apart without end";
}

Alarm raise_divergence(const Settings& s, const Sink& sink, double at_s, const std::string& is) {
  Alarm alarm = divergence_under(s);
  alarm.at_s = at_s;
  alarm.is = is;
  sink.raise(alarm);
  return alarm;
}

void judge_end(const Settings& s, const Objective& objective, const Counters& counters,
               const Sink& sink, Outcome& outcome) {
  if (outcome.failure || outcome.alarm || outcome.parameters.empty()) return;
  const ParameterLayout& layout = objective.layout();
  Buffer first(layout.size(), layout.dtype());
  objective.initial_point(outcome.parameters.front().rank % s.ranks, first);
  Sizes now = sizes_of(mean_parameters(outcome).vec(), first.vec());
  now.distance = consensus_distance(outcome);
  now.first_loss = counters.first_loss.load();
  double sum = 0, told = 0;
  for (const WorkerReport& worker : outcome.workers) {
    if (std::isnan(worker.loss)) continue;
    sum += worker.loss;
    ++told;
  }
  if (told > 0) now.loss = sum / told;
  // The start of ranks that take no steps is not known here, so their growth is not tested.
  std::string grown = DivergenceWatch::far(now, objective.has_workers() ? 0 : now.distance);
  if (grown.empty()) grown = held_back(s, outcome);
  if (!grown.empty()) outcome.fail(raise_divergence(s, sink, outcome.seconds, grown));
}

namespace {

RunResult run_wall(PreparedRun prepared) {
  const Gpu gpu = prepared.gpu;  // outlives the actors, as does the promise
  std::promise<Outcome> ended;
  RunSystemConfig config(Clock::wall);
  caf::actor_system system{config};
  const RunActor run = spawn_prepared(system, std::move(prepared));
  const auto listen = [](caf::event_based_actor* self,
                         std::promise<Outcome>* promise) -> caf::behavior {
    self->set_default_handler(caf::drop);
    return {[promise](Outcome& outcome) { promise->set_value(std::move(outcome)); }};
  };
  caf::anon_send(run, Subscribe{system.spawn(listen, &ended)});
  caf::anon_send(run, Start{});
  RunResult result;
  result.outcome = ended.get_future().get();
  return result;
}

}  // namespace

Result<PreparedRun> prepare(const Settings& s, const std::shared_ptr<Objective>& objective,
                            RunHooks hooks) {
  if (s.local_ranks != 0 && s.local_ranks != s.ranks)
    return user_error("local_ranks is " + std::to_string(s.local_ranks) +
                      " in a run of one process, accepted: 0, which is all " +
                      std::to_string(s.ranks));
  if (Status possible = check(s); !possible) return possible.error();
  return prepare_checked(s, objective, std::move(hooks));
}

Result<PreparedRun> prepare_checked(const Settings& given,
                                    const std::shared_ptr<Objective>& objective, RunHooks hooks) {
  PreparedRun run;
  run.settings = given;
  run.thrown = std::make_shared<Thrown>();
  Settings& s = run.settings;
  const auto safe = guard(objective, run.thrown);
  if (!safe) return safe.error();
  run.objective = *safe;
  guard(hooks, run.thrown);
  const Status fit = guarded(*run.thrown, "the rule of method " + s.method, Status(Done{}),
                             [&] { return fits(s, **safe, hooks.resumption); });
  if (!fit) return fit.error();
  if (!hooks.device) {
    auto opened = open_gpu(s, **safe, hooks.sink.on_event);
    if (!opened) return opened.error();
    run.gpu = std::move(*opened);
    hooks.device = run.gpu.share;
  }
  run.hooks = std::move(hooks);
  return run;
}

Result<RunResult> run(const Settings& given, std::shared_ptr<Objective> objective, RunHooks hooks) {
  auto prepared = prepare(given, objective, std::move(hooks));
  if (!prepared) return prepared.error();
  const std::shared_ptr<Thrown> thrown = prepared->thrown;
  try {
    RunResult result = given.clock == Clock::wall ? run_wall(std::move(*prepared))
                                                  : simulate(std::move(*prepared));
    if (const auto what = thrown->first()) return *what;
    result.objective = std::move(objective);
    return result;
  } catch (const std::system_error& refused) {
    return no_thread(refused);
  }
}

Result<RunResult> run(const Settings& settings, RunHooks hooks) {
  if (Status possible = check(settings); !possible) return possible.error();
  auto objective = make_objective(settings);
  if (!objective) return objective.error();
  return run(settings, std::move(*objective), std::move(hooks));
}

}  // namespace grapevine
