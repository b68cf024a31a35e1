#include "tests/cluster/simulated_cluster.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "actors/rank/worker.hpp"
#include "actors/run/state_sizes.hpp"
#include "kernels/memory/hash.hpp"
#include "kernels/passes/ops.hpp"
#include "tests/signing.hpp"

namespace grapevine::test {

namespace {

constexpr size_t kSize = 6;     // of the model
constexpr int kMostRanks = 64;  // of a scenario

// Asks the actor that owns a rank for the rank's state at the end.
void ask_rank(caf::actor_system& system, const StateActor& state, int rank,
              std::function<void(const RankStatePtr&)> then) {
  system.spawn(
      [](caf::event_based_actor* self, const StateActor& owner, int which,
         const std::function<void(const RankStatePtr&)>& told) {
        self->request(owner, caf::infinite, CopyState{which}).then(told);
      },
      state, rank, std::move(then));
}

}  // namespace

void Slopes::initial_point(int rank, Vec x) const {
  Random random(1, static_cast<uint32_t>(rank), Purpose::initial_point);
  for (size_t k = 0; k < x.size; ++k)
    x.as<double>()[k] = random.normal();
}

double Slopes::gradient(int, int rank, uint64_t, ConstVec x, Vec g) {
  Random random(2, static_cast<uint32_t>(rank), Purpose::problem);
  double loss = 0;
  for (size_t k = 0; k < g.size; ++k) {
    g.as<double>()[k] = random.normal();
    loss += g.as<double>()[k] * x.as<double>()[k];
  }
  return loss;
}

void Slopes::read_statistics(int rank, Vec out) const {
  const auto r = static_cast<float>(rank);
  for (size_t k = 0; k < out.size; ++k)
    out.as<float>()[k] = k == 0 ? 1 : k == 1 ? r : r * r;
}

Settings endless(const std::string& method, const std::string& topology, int ranks, int here) {
  Settings s;
  s.clock = Clock::simulated;
  s.ranks = ranks;
  s.local_ranks = here;
  s.method = method;
  s.topology = topology;
  s.gradient_s = 0.1;
  s.gradients = 0;
  s.lr = {0.01, Schedule::constant, 0};
  s.rule = with_optimizer({});
  s.sample_s = 0;
  s.link.latency_s = 0.01;
  return s;
}

void found(SimulatedCluster& cluster, int hosts, const Settings& settings) {
  const int here = settings.ranks / hosts;
  for (int h = 0; h < hosts; ++h)
    cluster.start(h, settings, here * h, settings.ranks,
                  h == 0 ? std::vector<int>{} : std::vector<int>{0});
  cluster.run(3);
}

SimulatedCluster::SimulatedCluster(NetworkModel model, uint64_t seed)
    : clock_(std::make_shared<VirtualClock>()),
      world_config_(clock_),
      world_(world_config_),
      network_(std::make_unique<SimulatedNetwork>(world_, model, seed)),
      objective_(std::make_shared<Slopes>(kSize)) {}

SimulatedCluster::~SimulatedCluster() {
  for (const auto& p : processes_)
    bury(*p);
  clock_->cancel_all();
  if (nccl_) nccl_->clear();
  if (devices_) devices_->run();  // who waits is told, or forgotten
  run_ready();
  network_.reset();
  clock_->cancel_all();
  run_ready();
  clock_->cancel_all();
}

void SimulatedCluster::use_devices(uint64_t seed) {
  devices_ = std::make_unique<testing::AdverseWorld>(seed);
  nccl_ = std::make_unique<testing::NcclWorld>(*devices_);
  network_->share_memory([this](int sender) -> SimulatedNetwork::Knowledge {
    testing::Adversary& device = at(sender).device->adversary();
    testing::Judge& judge = devices_->judge();
    const auto known = device.lost() ? device.all() : judge.clock(device.host());
    judge.tick(device.host());
    return [this, known](int receiver) {
      devices_->judge().learn(at(receiver).device->adversary().host(), known);
    };
  });
  let_devices_work();
}

/// Their work takes up to a few tenths of a gradient.
void SimulatedCluster::let_devices_work() {
  constexpr double kTick_s = 0.01, kDevice_s = 0.5;  // of theirs for one of ours
  devices_->run_until(kDevice_s * now());
  network_->at(now() + kTick_s, [this] { let_devices_work(); });
}

std::shared_ptr<DeviceShare> SimulatedCluster::place_on_device(Process& p, const Settings& s) {
  using testing::RunDevice;
  p.device = std::make_unique<RunDevice>(*devices_, p.name, RunDevice::Pace::late);
  auto share = DeviceShare::make(*p.device, device_sizes(s, *objective_));
  GV_CHECK(static_cast<bool>(share));
  (*share)->choose_by(
      [this](size_t n) { return devices_->random().below(static_cast<uint32_t>(n)); });
  return *share;
}

int SimulatedCluster::start(int host, Settings settings, int first_rank, int total_ranks,
                            std::vector<int> join_hosts) {
  const int number = count();
  processes_.push_back(std::make_unique<Process>());
  Process& p = *processes_.back();
  p.host = host;
  p.name = name_of(host);
  p.begun_s = now();
  p.config = std::make_unique<VirtualConfig>(clock_);
  p.config->when_ready = [this, number] { ready_.insert(number); };
  p.system = std::make_unique<caf::actor_system>(*p.config);
  p.scheduler = &VirtualScheduler::of(*p.system);
  NodeSettings n;
  n.run = "simulated";
  n.name = p.name;
  const uint64_t folder = host % 2 == 0 ? 0 : static_cast<uint64_t>(number);  // kept, or none
  n.own_key = std::make_shared<const NodeKey>(key_of(p.name, folder));
  n.life = static_cast<uint64_t>(number) + 1;
  n.first_rank = first_rank;
  n.total_ranks = total_ranks;
  for (const int other : join_hosts)
    n.join.push_back(address_of(other));
  NodeHooks hooks;
  hooks.run.spectra = spectra_;
  if (devices_) hooks.run.device = place_on_device(p, settings);
  if (devices_ && settings.device_link == DeviceLink::nccl)
    hooks.run.nccl = std::make_shared<const Nccl>(nccl_->of(p.device->adversary()));
  hooks.run.sink.on_event = [&p, this](const std::string& line) {
    p.lines.push_back(std::to_string(now()) + " " + line);
  };
  hooks.render = [&p, this](const NodeStatus& status) {
    p.status = status;
    p.status_at_s = now();
    return std::string("status");
  };
  hooks.run.make_worker = [this, number](caf::actor_system& system, WorkerDependencies deps) {
    const int place = deps.place, rank = deps.rank;
    network_->at(now(), [this, number, place, rank] {  // before it has computed anything
      if (at(number).alive) collect_rank(number, rank, at(number).begun[place]);
    });
    return spawn_worker(system, std::move(deps));
  };
  hooks.describe_snapshot = [](const Mean& mean) { return std::to_string(mean.ranks); };
  hooks.read_plan = [](const std::string&) -> Result<Plan> { return Plan{}; };
  p.node = spawn_node(*p.system, settings, n, objective_, hooks,
                      {[this, number](Outcome o) {
                         at(number).outcome = std::move(o);
                         network_->at(now(), [this, number] {
                           hurry(at(number));
                           collect(number);
                         });
                       },
                       [this, number](ClusterEnding e) {
                         at(number).ending = std::move(e);
                         network_->at(now() + 0.05, [this, number] {
                           if (at(number).alive) bury(at(number));
                         });
                       }});
  p.links = network_->open(host, address_of(host), p.node.options, p.node.events);
  p.node.start(p.links);
  run_ready();
  return number;
}

void SimulatedCluster::collect(int process) {
  for (const RankParameters& r : at(process).outcome->parameters)
    collect_rank(process, r.rank, at(process).ranks);
}

/// Adds the rank's present state; nothing if it is no rank of the process.
void SimulatedCluster::collect_rank(int process, int rank, std::vector<RankEnd>& into) {
  const auto took = [rank, &into](const RankStatePtr& state) {
    if (!state) return;
    RankEnd end{rank, state->gradients, std::vector<double>(kSize)};
    const auto& vectors = state->vectors;
    for (size_t k = 0; k < kSize; ++k) {
      const double x = std::as_const(vectors[0]).vec().as<double>()[k];
      const auto& twin = vectors.size() > 1 ? vectors[1] : vectors[0];
      end.sum[k] = x + std::as_const(twin).vec().as<double>()[k];
    }
    into.push_back(std::move(end));
  };
  Process& p = at(process);
  ask_rank(*p.system, p.node.run->states.front(), rank, took);
}

/// A rank begins at its own initial point, or with what it has fetched of another, and may go on
/// under another number, with the steps of that one.
void SimulatedCluster::add_up(int process, const Settings& settings, Account& account) const {
  for (auto* numbers : {&account.sum, &account.expected, &account.magnitude})
    numbers->resize(kSize);
  const Process& p = *processes_[static_cast<size_t>(process)];
  int place = 0;
  for (const RankEnd& end : p.ranks) {
    ++account.ranks;
    const auto begun = p.begun.find(place++);
    if (begun == p.begun.end()) {
      account.unseen = p.name + ": nobody saw how rank " + std::to_string(end.rank) + " began";
      return;
    }
    std::vector<RankEnd> way = begun->second;
    way.push_back(end);
    for (size_t k = 0; k < kSize; ++k) {
      account.sum[k] += end.sum[k];
      account.expected[k] += way.front().sum[k];
      account.magnitude[k] += std::abs(end.sum[k]);
    }
    for (size_t part = 0; part + 1 < way.size(); ++part) {
      Buffer x(kSize, DType::f64), g(kSize, DType::f64);
      objective_->gradient(0, way[part].rank % settings.ranks, 0, x.vec(), g);
      const auto steps = static_cast<double>(way[part + 1].gradients - way[part].gradients);
      for (size_t k = 0; k < kSize; ++k) {
        const double moved = 2 * settings.lr.peak * steps * std::as_const(g).vec().as<double>()[k];
        account.expected[k] -= moved;
        account.magnitude[k] += std::abs(moved);
      }
    }
  }
}

double Account::is_off() const {
  double most = 0;
  for (size_t k = 0; k < sum.size(); ++k) {
    const double off = std::abs(sum[k] - expected[k]) / magnitude[k];
    if (!std::isfinite(off)) return off;
    most = std::max(most, off);
  }
  return most;
}

/// Its device has done what is queued, and answers at once from now on.
void SimulatedCluster::hurry(Process& p) {
  if (!p.device || !p.alive) return;
  p.device->set_pace(testing::RunDevice::Pace::prompt);
  do {
    p.scheduler->run();
  } while (devices_->step());
}

/// Its actors end; nobody outside hears of it from here.
void SimulatedCluster::bury(Process& p) {
  if (!std::exchange(p.alive, false)) return;
  p.node.stop();
  p.links.reset();
  p.scheduler->run();
}

void SimulatedCluster::kill(int process) {
  hurry(at(process));
  if (!at(process).outcome) {  // what it takes with it
    for (int rank = 0; rank < kMostRanks; ++rank)
      collect_rank(process, rank, at(process).ranks);
    at(process).system->spawn(
        [](caf::event_based_actor* self, const NodeActor& node, NodeReport* told) {
          self->request(node, caf::infinite, Report{}).then([told](NodeReport& report) {
            *told = std::move(report);
          });
        },
        at(process).node.run->node, &at(process).last_words);
    at(process).scheduler->run();
  }
  if (at(process).device) {
    nccl_->kill(at(process).device->adversary());
    at(process).device->adversary().kill();
  }
  network_->kill(process);
  bury(at(process));
}

void SimulatedCluster::stop(int process) {
  if (!running(process)) return;
  at(process).stopped = true;
  network_->stop(process);
}

void SimulatedCluster::go_on(int process) {
  if (!std::exchange(at(process).stopped, false)) return;
  network_->go_on(process);
  run_ready();
}

void SimulatedCluster::leave(int process) {
  at(process).leaving = true;
  caf::anon_send(at(process).node.cluster, Leave{});
  run_ready();
}

void SimulatedCluster::ask(int process, ConsoleVerb verb, std::string argument) {
  network_->ask(process, {verb, std::move(argument)}, [this, verb](const ConsoleReply& reply) {
    if (verb != ConsoleVerb::status) answers_.push_back((reply.ok ? "" : "error: ") + reply.text);
  });
  run_ready();
}

void SimulatedCluster::run_ready() {
  VirtualScheduler& world = VirtualScheduler::of(world_);
  for (bool any = true; any;) {
    any = !world.idle();
    world.run();
    for (auto next = ready_.begin(); next != ready_.end();) {  // by rising number
      const int number = *next++;
      if (at(number).stopped) continue;
      any |= !at(number).scheduler->idle();
      at(number).scheduler->run();
      ready_.erase(number);
      next = ready_.upper_bound(number);
    }
  }
}

void SimulatedCluster::run(double until_s) {
  bool there = false;
  network_->at(until_s, [&there] { there = true; });
  while (!there && clock_->fire())
    run_ready();
}

uint64_t SimulatedCluster::log_hash() const {
  uint64_t hash = network_->log_hash();
  for (const auto& p : processes_)
    for (const std::string& line : p->lines)
      hash = fnv1a(line, hash);
  return hash;
}

}  // namespace grapevine::test
