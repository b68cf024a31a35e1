// Whole runs whose ranks live on a device: the adversary, which does all that a GPU may do.
#include "actors/algorithms/method_registry.hpp"
#include "kernels/device/dry_device.hpp"
#include "models/zoo.hpp"
#include "tests/catch.hpp"
#include "tests/device/caching_host.hpp"
#include "tests/run/on_adversary.hpp"
#include "tests/run/simulated_scripts.hpp"

using namespace grapevine;
using namespace grapevine::testing;

namespace {

constexpr int kRanks = 6;

struct Run {
  const char *method, *topology, *later, *compress;
  Wire wire = Wire::full;
};

constexpr Run kRuns[] = {
    {"a2cid2", "ring", "complete", ""},
    {"ad_psgd", "ring", "star", ""},
    {"all_reduce", "ring", "complete", ""},
    {"d_psgd", "complete", "ring", ""},
    {"qgm", "ring", "complete", ""},
    {"d2", "ring", "complete", ""},
    {"gradient_tracking", "ring", "star", ""},
    {"sgp", "ring", "complete", ""},
    {"relaysgd", "binary-tree", "chain", ""},
    {"relaysgd", "double-binary-trees", "chain", ""},
    {"relaysum_grad", "chain", "binary-tree", ""},
    {"relaysgd_async", "chain", "binary-tree", ""},
    {"mean_estimation", "chain", "binary-tree", ""},
    {"choco", "ring", "complete", "top-k:0.3"},
    {"choco", "ring", "complete", "random-k:0.3"},
    {"choco", "ring", "complete", "sign"},
    {"deepsqueeze", "ring", "complete", "quantise:6"},
    {"deepsqueeze", "ring", "complete", "low-rank:1"},
    {"moniqua", "ring", "complete", "modulo:4"},
    {"powergossip", "ring", "complete", "powergossip:rank=2,iterations=2"},
    {"powergossip", "ring", "star", "powergossip:start=cold"},
    {"a2cid2", "ring", "complete", "powergossip:rank=2"},
    {"ad_psgd", "ring", "star", "powergossip:rank=1"},
    {"a2cid2", "ring", "complete", "", Wire::bf16},
    {"ad_psgd", "ring", "star", "", Wire::bf16},
    {"a2cid2", "ring", "complete", "powergossip:rank=2", Wire::bf16},
    {"ad_psgd", "ring", "star", "random:0.3", Wire::bf16},
    {"noloco", "ring", "complete", ""},
    {"gasloc", "ring", "complete", ""},
};

/// Latency, loss, a rank that dies and comes back, another graph.
Settings settings_of(const Run& r) {
  Settings s = free_gossip(r.topology, kRanks, 0.2);
  s.method = r.method;
  if (s.method == "d2") s.weights = "lazy";
  s.pacing = Pacing::greedy;
  s.target = 0;
  s.until_s = 0;
  s.gradients = 30 * kRanks;
  s.sample_s = 5;
  s.objective.objective = "quadratic";
  s.objective.dim = 20;
  s.objective.noise = 0.1;
  s.objective.zeta2 = 1;
  s.lr = {0.02, Schedule::cosine, 0.1};
  s.rule.compress = r.compress;
  s.rule.wire = r.wire;
  if (method_named(r.method).pattern == Pattern::rounds && !s.rule.compress.empty())
    s.rule.gamma = s.method == "moniqua" ? 0.02 : 0.3;
  s.rule.optimizer.momentum = 0.9;
  if (s.rule.compress.find("rank") != std::string::npos) {  // of a tensor, which has no gradients
    s.objective.objective = "matrix";
    s.objective.rows = 7;
    s.objective.columns = 6;
    s.gradients = 0;
    s.until_s = 30;
  }
  s.speed_spread = 0.2;
  s.plan.link_faults = {loss_of(FrameClass::all, 0.05)};
  s.plan.rank_faults = {rank_fault(RankFaultKind::kill, {2}, 8),
                        rank_fault(RankFaultKind::restart, {2}, 15)};
  s.plan.rank_faults.push_back(rank_fault(RankFaultKind::pause, {4}, 5));
  s.plan.rank_faults.back().until = 7;
  s.plan.reconfigurations = {{12, r.later}};
  return s;
}

}  // namespace

TEST_CASE("a run on a device has the events and the bits of the same run in the host's memory") {
  for (const Run& r : kRuns) {
    const Settings s = settings_of(r);
    const Status possible = check(s);
    INFO(r.method << " on " << r.topology << " "
                  << (possible ? std::string() : possible.error().message));
    REQUIRE(possible);
    const RunResult host = simulate_one(s, 1);
    RunDevice device(1);
    const RunResult there = *simulate_on(device, s, 1);
    CHECK(there.events == host.events);
    CHECK(there.outcome.exchanges == host.outcome.exchanges);
    CHECK(there.outcome.bytes == host.outcome.bytes);
    CHECK(parameter_hash(there.outcome) == parameter_hash(host.outcome));
    CHECK(device.world().judge().findings() == std::set<std::string>());
  }
}

TEST_CASE("a sample of ranks on a device is the sample of the same ranks in the host's memory") {
  for (const Run& r : {kRuns[0], kRuns[2], kRuns[8]}) {
    const Settings s = settings_of(r);
    const auto sampled = [&s](const auto& run) {
      std::vector<RunSample> samples;
      RunHooks hooks;
      hooks.sink.on_sample = [&samples](const RunSample& sample) { samples.push_back(sample); };
      REQUIRE(run(*make_objective(s), std::move(hooks)));
      return samples;
    };
    const auto here = sampled([&s](auto objective, RunHooks hooks) {
      return run(s, std::move(objective), std::move(hooks));
    });
    RunDevice device(1);
    const auto there = sampled([&](auto objective, RunHooks hooks) {
      return simulate_on(device, s, std::move(objective), std::move(hooks));
    });
    INFO(r.method << " on " << r.topology);
    REQUIRE(there.size() == here.size());
    REQUIRE(here.size() >= 3);
    for (size_t k = 0; k < here.size(); ++k) {
      CHECK(there[k].ranks == here[k].ranks);
      CHECK(there[k].consensus_distance == Approx(here[k].consensus_distance).margin(1e-12));
      for (size_t i = 0; i < here[k].mean->size(); ++i)
        CHECK((*there[k].mean)[i] == Approx((*here[k].mean)[i]).margin(1e-12));
    }
  }
}

TEST_CASE("so has a run whose ranks take inner steps, by every method") {
  for (const Run& r : kRuns) {
    Settings s = settings_of(r);
    s.inner_steps = 4;
    s.rule.optimizer = {.kind = OptimizerKind::adamw};
    INFO(r.method << " on " << r.topology << ' ' << r.compress);
    REQUIRE(check(s));
    const RunResult host = simulate_one(s, 1);
    RunDevice device(1);
    const RunResult there = *simulate_on(device, s, 1);
    CHECK(there.events == host.events);
    CHECK(there.outcome.gradients == host.outcome.gradients);
    CHECK(parameter_hash(there.outcome) == parameter_hash(host.outcome));
    CHECK(device.world().judge().findings() == std::set<std::string>());
  }
}

TEST_CASE("parts grow as more than half of the ranks go, and are small again as these return") {
  Settings s = settings_of({"all_reduce", "ring", "complete", ""});
  s.plan.rank_faults = {rank_fault(RankFaultKind::kill, {1}, 4),
                        rank_fault(RankFaultKind::kill, {2, 3}, 6),
                        rank_fault(RankFaultKind::kill, {5}, 8),
                        rank_fault(RankFaultKind::restart, {1, 2, 3, 5}, 11)};
  const RunResult host = simulate_one(s, 1);
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    RunDevice device(seed);
    const auto there = simulate_on(device, s, 1);
    INFO("seed " << seed << ": " << (there ? "" : there.error().message));
    REQUIRE(there);
    CHECK(there->events == host.events);
    CHECK(parameter_hash(there->outcome) == parameter_hash(host.outcome));
    CHECK(device.world().judge().findings() == std::set<std::string>());
  }
}

TEST_CASE("a graph whose messages find no room on the device ends the run with a sentence") {
  Settings s = settings_of({"relaysgd", "chain", "double-binary-trees", ""});
  s.ranks = 16;
  s.gradients = 300 * 16;
  s.plan.rank_faults.clear();
  s.plan.link_faults.clear();
  CHECK(simulate_one(s, 1).outcome.gradients >= s.gradients);
  RunDevice device(1);
  const auto there = simulate_on(device, s, 1);
  REQUIRE(!there);
  CHECK_THAT(there.error().message, Catch::Contains("no memory for its messages"));
}

TEST_CASE("a run on a device that is late loses nothing, whatever its work is behind") {
  for (const Run& r : kRuns) {
    for (uint64_t seed = 1; seed <= 5; ++seed) {
      INFO(r.method << " on " << r.topology << ", seed " << seed);
      Settings s = settings_of(r);
      if (s.gradients == 0) continue;  // no worker comes, and with it no time of the device's
      s.plan.rank_faults.erase(s.plan.rank_faults.begin(), s.plan.rank_faults.begin() + 2);
      RunDevice device(seed, RunDevice::Pace::late);
      RunHooks hooks;
      hooks.make_worker = on_late(device);
      const RunResult there = *simulate_on(device, s, seed, hooks);
      CHECK(there.outcome.gradients >= s.gradients);
      if (method_named(r.method).pattern == Pattern::pairwise)
        CHECK(there.outcome.conserved_error <= 1e-9);
      CHECK(device.world().judge().findings() == std::set<std::string>());
    }
  }
}

// Not found is what orders a lane behind whoever has read its gradient slot before: on the virtual
// clock a gradient begins in the instant in which its copy of x is made, and that copy is behind
// every step so far. Between threads it may begin later.
TEST_CASE("what orders a state actor's work on a device is found out where it is left out") {
  for (const Run& r : {kRuns[0], kRuns[2], kRuns[8]}) {
    Settings s = settings_of(r);
    s.speed_spread = 0;  // what many ranks do at once is hardest to order
    RunDevice whole(1);
    REQUIRE(simulate_on(whole, s, 1));
    CHECK(whole.world().sites.size() >= 8);
    std::vector<std::string> unnoticed;
    for (const auto& [site, count] : whole.world().sites) {
      bool found = site.second.find("on_adversary") != std::string::npos;  // ours
      for (uint64_t seed = 1; seed <= 5 && !found; ++seed) {
        RunDevice device(seed);
        device.world().left_out = site;
        static_cast<void>(simulate_on(device, s, seed));
        found = !device.world().judge().findings().empty();
      }
      if (!found) unnoticed.push_back(site.first + " at " + site.second);
    }
    CAPTURE(r.method, unnoticed);
    CHECK(unnoticed.size() <= 2);
    for (const std::string& site : unnoticed)
      CHECK((site.starts_with("wait at lane_gradient.cpp") ||
             site.starts_with("record at steps.cpp")));
  }
}

TEST_CASE("a device that is lost ends the run with a sentence, whichever call it fails at") {
  const Run& r = kRuns[0];
  uint64_t calls = 0;
  {
    RunDevice device(1);
    CHECK(simulate_on(device, settings_of(r), 1));
    calls = device.adversary().calls;
  }
  for (uint64_t k = 1; k < calls; k += 1 + calls / 60) {
    RunDevice device(1);
    device.adversary().fail_call = k;
    INFO("call " << k << " of " << calls);
    const auto result = simulate_on(device, settings_of(r), 1);
    REQUIRE(!result);
    CHECK((result.error().message.find("is lost") != std::string::npos ||
           result.error().message.find("too little memory") != std::string::npos));
    CHECK(device.world().judge().findings() == std::set<std::string>());
  }
}

namespace {

/// Of ranks that all begin where rank 0 does.
class Alike final : public Objective {
 public:
  explicit Alike(std::shared_ptr<Objective> of) : of_(std::move(of)) {}

  const ParameterLayout& layout() const override { return of_->layout(); }
  void initial_point(int, Vec x) const override {
    ++drawn;
    of_->initial_point(0, x);
  }
  bool starts_alike() const override { return true; }
  double gradient(int thread, int rank, uint64_t index, ConstVec x, Vec g) override {
    return of_->gradient(thread, rank, index, x, g);
  }
  Evaluation evaluate(int, int, ConstVec) override { return {}; }
  uint64_t gradients_per_pass(int) const override { return 0; }
  std::string description() const override { return of_->description(); }
  Status save_model(const std::string&, ConstVec) override { return Done{}; }

  mutable int drawn = 0;

 private:
  const std::shared_ptr<Objective> of_;
};

}  // namespace

TEST_CASE("where all ranks of a device begin alike, their start is made and brought there once") {
  const Settings s = settings_of(kRuns[2]);  // a rank goes and comes back
  const auto here = std::make_shared<Alike>(*make_objective(s));
  const auto there = std::make_shared<Alike>(*make_objective(s));
  const auto host = run(s, here);
  RunDevice device(1);
  const auto on_device = simulate_on(device, s, there);
  REQUIRE((host && on_device));
  CHECK(here->drawn > kRanks);
  CHECK(there->drawn == 1);
  CHECK(on_device->events == host->events);
  CHECK(parameter_hash(on_device->outcome) == parameter_hash(host->outcome));
  CHECK(device.world().judge().findings() == std::set<std::string>());
}

namespace {

/// Has pinned memory, as a network's gradients have: copies on the lanes go from it and into it.
class Pinning final : public Objective {
 public:
  using LibTorch = CachingHost<uint32_t>;
  using Pinned = std::unique_ptr<LibTorch::Block>;
  Pinning(std::shared_ptr<Objective> of, LibTorch& libtorch, const Adversary& device, Pinned& left)
      : of_(std::move(of)),
        device_(device),
        pinned_(std::make_unique<LibTorch::Block>(libtorch)),
        left_(left) {}
  ~Pinning() override {
    if (is_lost_) left_ = std::move(pinned_);
  }
  void lose_gpu() override { is_lost_ = true; }

  const ParameterLayout& layout() const override { return of_->layout(); }
  void initial_point(int rank, Vec x) const override { of_->initial_point(rank, x); }
  double gradient(int thread, int rank, uint64_t index, ConstVec x, Vec g) override {
    pinned_->copied_on(device_.queueing().id);
    return of_->gradient(thread, rank, index, x, g);
  }
  Evaluation evaluate(int, int, ConstVec) override { return {}; }
  uint64_t gradients_per_pass(int) const override { return 0; }
  std::string description() const override { return of_->description(); }
  Status save_model(const std::string&, ConstVec) override { return Done{}; }

 private:
  const std::shared_ptr<Objective> of_;
  const Adversary& device_;
  Pinned pinned_, &left_;  // what is left behind
  bool is_lost_ = false;
};

}  // namespace

TEST_CASE("what a network has pinned is left alone when its device is lost, and freed when not") {
  for (const uint64_t work : {0, 40, 400}) {
    Settings s = settings_of(kRuns[0]);
    RunDevice device(1);
    Adversary& adversary = device.adversary();
    adversary.fail_work = work;
    Pinning::LibTorch libtorch([&adversary](uint32_t) { return !adversary.lost(); });
    Pinning::Pinned left;
    {
      const auto network =
          std::make_shared<Pinning>(std::move(*make_objective(s)), libtorch, adversary, left);
      const auto result = simulate_on(device, s, network);
      CHECK(static_cast<bool>(result) == (work == 0));
    }
    CHECK_FALSE(libtorch.ends_process());
    CHECK(libtorch.freed() == (work == 0));
  }
}

TEST_CASE("a device that answers no more is lost in the end, whichever call is its last") {
  for (const Run& r : {kRuns[0], kRuns[2], kRuns[8]}) {
    Settings s = settings_of(r);
    s.plan.rank_faults.clear();  // whose messages would wake a state actor that looks too seldom
    uint64_t calls = 0;
    {
      RunDevice device(1);
      CHECK(simulate_on(device, s, 1));
      calls = device.adversary().calls;
    }
    for (uint64_t k = 1 + calls / 50; k < calls * 9 / 10; k += 1 + calls / 20) {
      RunDevice device(1);
      device.adversary().silent_call = k;
      INFO(r.method << ", call " << k << " of " << calls);
      const auto result = simulate_on(device, s, 1);
      REQUIRE(!result);
      CHECK_THAT(result.error().message, Catch::Contains("is lost"));
      CHECK(device.world().judge().findings() == std::set<std::string>());
    }
  }
}

namespace {

/// An objective of scripts: it has no gradients of its own.
class OfScripts final : public Objective {
 public:
  explicit OfScripts(std::shared_ptr<Objective> of) : of_(std::move(of)) {}

  const ParameterLayout& layout() const override { return of_->layout(); }
  bool has_gradients() const override { return false; }
  bool has_workers() const override { return true; }
  void initial_point(int rank, Vec x) const override { of_->initial_point(rank, x); }
  double gradient(int, int, uint64_t, ConstVec, Vec) override { return 0; }
  Evaluation evaluate(int, int, ConstVec) override { return {}; }
  uint64_t gradients_per_pass(int) const override { return 0; }
  std::string description() const override { return "of scripts"; }
  Status save_model(const std::string&, ConstVec) override { return Done{}; }

 private:
  const std::shared_ptr<Objective> of_;
};

/// Scripts that come late, go, are slow, and spoil their front once; where ranks wait for each
/// other none goes.
std::vector<std::vector<ScriptOptions>> some_scripts(const Run& r) {
  std::vector<std::vector<ScriptOptions>> scripts(kRanks, {ScriptOptions{.lr = 0.05}});
  scripts[1] = {{.lr = 0.05, .momentum = 0.9, .comes_s = 1.3}};
  scripts[3] = {{.slowness = 2}};
  scripts[5] = {{.spoils_at = 2}};
  if (method_named(r.method).pattern != Pattern::pairwise) return scripts;
  scripts[2] = {{.goes_s = 10.2}, {.comes_s = 14.1}};
  scripts[4] = {{.steps = 12}};
  return scripts;
}

Settings of_scripts(const Run& r, uint64_t seed) {
  Settings s = settings_of(r);
  s.seed = seed;
  s.rule.optimizer = {};
  s.gradients = 0;
  s.until_s = s.method == "all_reduce" ? 150.5 : 40.5;  // a sum goes round in twelve steps or so
  return s;
}

}  // namespace

TEST_CASE("scripts' ranks on a device have the events and the bits that they have on the CPU") {
  for (const size_t k : {0, 1, 2, 3, 8, 11, 13, 20, 23}) {
    const Run& r = kRuns[k];
    INFO(r.method << " on " << r.topology << ", " << r.compress);
    const Settings s = of_scripts(r, 1);
    const auto objective = *make_objective(s);
    SimulatedScripts at_host(s, objective, some_scripts(r)), there(s, objective, some_scripts(r));
    const RunResult host = *run(s, std::make_shared<OfScripts>(objective), at_host.hooks());
    RunDevice device(1);
    const RunResult on_device =
        *simulate_on(device, s, std::make_shared<OfScripts>(objective), there.hooks());
    CHECK(on_device.events == host.events);
    CHECK(on_device.outcome.exchanges == host.outcome.exchanges);
    CHECK(parameter_hash(on_device.outcome) == parameter_hash(host.outcome));
    CHECK(there.log(0, 0).steps == at_host.log(0, 0).steps);
    CHECK(there.log(0, 0).steps > 3u);
    CHECK(there.log(5, 0).not_finite == 1);
    CHECK(at_host.log(5, 0).not_finite == 1);
    CHECK(device.world().judge().findings() == std::set<std::string>());
  }
}

TEST_CASE("scripts of a device that is late lose nothing") {
  for (const Run& r : {kRuns[0], kRuns[1], kRuns[2], kRuns[3]}) {
    for (uint64_t seed = 1; seed <= 5; ++seed) {
      INFO(r.method << " on " << r.topology << ", seed " << seed);
      Settings s = of_scripts(r, seed);
      s.plan.rank_faults.clear();
      const auto objective = *make_objective(s);
      SimulatedScripts scripts(s, objective, some_scripts(r));
      RunDevice device(seed, RunDevice::Pace::late);
      RunHooks hooks = scripts.hooks();
      hooks.make_worker = on_late(device, hooks.make_worker);
      const RunResult there =
          *simulate_on(device, s, std::make_shared<OfScripts>(objective), std::move(hooks));
      CHECK(scripts.log(0, 0).steps > 0u);
      if (method_named(r.method).pattern == Pattern::pairwise)
        CHECK(there.outcome.conserved_error <= 1e-9);
      CHECK(device.world().judge().findings() == std::set<std::string>());
    }
  }
}

namespace {

/// Counts what is taken of it.
class Counting final : public Device {
 public:
  Fate allocate(size_t bytes, Block::Kind kind, Block& out) override {
    if (kind != Block::Kind::pinned) taken += bytes;
    return dry_.allocate(bytes, kind, out);
  }
  Fate free(const Block& b, Where w) override { return dry_.free(b, w); }
  Fate make_stream(bool urgent, Stream& out) override { return dry_.make_stream(urgent, out); }
  Fate make_event(Event& out) override { return dry_.make_event(out); }
  Fate record(Event e, Stream s, Where w) override { return dry_.record(e, s, w); }
  Fate wait(Stream s, Event e, Where w) override { return dry_.wait(s, e, w); }
  Fate query(Event e, Where w) override { return dry_.query(e, w); }
  Fate copy(Stream s, void* to, const void* from, size_t bytes, Where w) override {
    return dry_.copy(s, to, from, bytes, w);
  }
  Fate launch(Stream s, std::span<const Access> accesses, Body body, Where w) override {
    return dry_.launch(s, accesses, std::move(body), w);
  }
  void when(Event e, std::function<void(Fate)> then, Where w) override {
    dry_.when(e, std::move(then), w);
  }
  Fate drain() override { return dry_.drain(); }
  void on_lost(std::function<void()>) override {}
  void give_up() override {}
  Fate share(const Block& b, int& descriptor) override { return dry_.share(b, descriptor); }
  Fate open(int descriptor, size_t bytes, Block& out) override {
    return dry_.open(descriptor, bytes, out);
  }

  size_t taken = 0;

 private:
  DryDevice dry_;
};

/// Of a layout, and no more.
class Shaped final : public Objective {
 public:
  explicit Shaped(ParameterLayout layout) : layout_(std::move(layout)) {}

  const ParameterLayout& layout() const override { return layout_; }
  void initial_point(int, Vec) const override {}
  double gradient(int, int, uint64_t, ConstVec, Vec) override { return 0; }
  Evaluation evaluate(int, int, ConstVec) override { return {}; }
  uint64_t gradients_per_pass(int) const override { return 0; }
  std::string description() const override { return "a shape"; }
  Status save_model(const std::string&, ConstVec) override { return Done{}; }

 private:
  const ParameterLayout layout_;
};

}  // namespace

TEST_CASE("64 ranks of ResNet-18 take of a device what the sums say, 25 GB") {
  const auto plan = plan_network("resnet18", {3, 32, 32, true}, 10, true);
  REQUIRE(plan);
  const Shaped objective(plan->layout);
  Settings s;
  s.ranks = 64;
  const DeviceSizes sizes = device_sizes(s, objective);
  const size_t v = SnapshotPool::bytes_for(plan->layout.size(), DType::f32, 1);
  CHECK(plan->layout.size() == 11173962u);
  CHECK(sizes.rank_bytes == 64 * 3 * v);            // x, x~, momentum
  CHECK(sizes.copy_bytes == (2 * 64 + 8) * v);      // that gradients are computed at
  CHECK(sizes.exchange_bytes == (2 * 64 + 8) * v);  // what an exchange sends, and the one before
  CHECK(sizes.gradient_bytes() == (64 + kLanes + 2) * v);
  Counting device;
  REQUIRE(DeviceShare::make(device, sizes));
  CHECK(device.taken == sizes.memory_bytes() + sizes.gradient_bytes());
  CHECK(static_cast<double>(device.taken) < 25e9);
  CHECK_THAT(sizes.text(), Catch::StartsWith("24.") && Catch::Contains("ranks 9."));
  // In rounds the messages of two phases, and what a rule keeps; of an all-reduce two vectors a
  // rank, and two of each of half as many, of a quarter, and so on, if so many have gone.
  const auto exchanges = [&](const char* method, const char* topology) {
    s.method = method;
    s.topology = topology;
    return device_sizes(s, objective).exchange_bytes;
  };
  CHECK(exchanges("d_psgd", "ring") == (3 * 64 + 8) * v);
  CHECK(exchanges("relaysgd", "chain") <= (3 * 2 * 63 + 9) * v);
  CHECK(exchanges("sgp", "ring") <= (8 * 64 + 9) * v);
  CHECK(exchanges("all_reduce", "ring") <= 4.8 * 64 * static_cast<double>(v));
}
