// Runs under the wall clock whose ranks live on a device: one whose streams are threads, which do
// at their own pace what the events allow.
#include <unistd.h>

#include <atomic>
#include <future>
#include <mutex>
#include <set>

#include "actors/run/run_node.hpp"
#include "actors/run/state_sizes.hpp"
#include "tests/catch.hpp"
#include "tests/deadline.hpp"
#include "tests/device/threaded.hpp"
#include "tests/run/simulated_runs.hpp"

using namespace grapevine;
using namespace grapevine::testing;

namespace {

constexpr int kRanks = 4, kLanes = 2;
constexpr size_t kPieces = 1 << 19;  // of work in a stream, at most

Settings settings_of(const std::string& method, const std::string& topology) {
  Settings s;
  s.method = method;
  s.topology = topology;
  s.ranks = kRanks;
  s.threads = kLanes + 1;
  s.gradients = 100 * kRanks;
  s.sample_s = 0.02;
  s.objective.objective = "quadratic";
  s.objective.dim = 20;
  s.objective.noise = 0.1;
  s.objective.zeta2 = 1;
  s.lr = {0.02, Schedule::cosine, 0.1};
  s.rule.optimizer.momentum = 0.9;
  return s;
}

struct OnDevice {
  std::shared_ptr<Objective> objective;
  std::shared_ptr<DeviceShare> share;
};

OnDevice placed_on(Device& device, const Settings& s, SilenceWatch::Patience patience = {}) {
  GV_CHECK(static_cast<bool>(check(s)));
  auto objective = make_objective(s);
  GV_CHECK(static_cast<bool>(objective));
  auto share = DeviceShare::make(device, device_sizes(s, **objective));
  GV_CHECK(static_cast<bool>(share));
  (*share)->silence().set_patience(patience);
  return {std::move(*objective), std::move(*share)};
}

Result<RunResult> run_on(Device& device, const Settings& s) {
  OnDevice placed = placed_on(device, s);
  RunHooks hooks;
  hooks.device = std::move(placed.share);
  return run(s, std::move(placed.objective), std::move(hooks));
}

/// A process's worth of a run: of its ranks, on the device if there is one.
struct Node {
  Node(Device* device, Settings s, NodeSettings own, SilenceWatch::Patience patience = {}) {
    NodeHooks hooks;
    std::shared_ptr<Objective> objective;
    if (device != nullptr) {
      OnDevice placed = placed_on(*device, s, patience);
      hooks.run.device = std::move(placed.share);
      objective = std::move(placed.objective);
    } else {
      objective = *make_objective(s);
    }
    hooks.on_listening = [this](const std::string& at) { address.set_value(at); };
    result = std::async(std::launch::async, [=, hooks = std::move(hooks)]() mutable {
      return run_node(s, own, std::move(objective), std::move(hooks));
    });
  }

  std::promise<std::string> address;
  std::future<Result<NodeResult>> result;
};

/// Lost at its k-th piece of work, or silent from then on: nothing that is queued happens any more.
class Failing final : public Device {
 public:
  enum class How { lost, silent };
  explicit Failing(uint64_t fails_at, How how = How::lost) : fails_at_(fails_at), how_(how) {}

  Fate allocate(size_t bytes, Block::Kind kind, Block& out) override {
    return device_.allocate(bytes, kind, out);
  }
  Fate free(const Block& b, Where w) override { return device_.free(b, w); }
  Fate make_stream(bool urgent, Stream& out) override { return device_.make_stream(urgent, out); }
  Fate make_event(Event& out) override { return lost_ ? Fate::lost : device_.make_event(out); }
  Fate record(Event e, Stream s, Where w) override {
    if (lost_) return Fate::lost;
    const std::lock_guard lock(mutex_);
    if (silent_) return never_.insert(e.id), Fate::ok;
    return device_.record(e, s, w);
  }
  Fate wait(Stream s, Event e, Where w) override {
    return lost_ ? Fate::lost : (silent_ ? Fate::ok : device_.wait(s, e, w));
  }
  Fate query(Event e, Where w) override {
    if (lost_) return Fate::lost;
    const std::lock_guard lock(mutex_);
    return never_.count(e.id) > 0 ? Fate::later : device_.query(e, w);
  }
  Fate copy(Stream s, void* to, const void* from, size_t bytes, Where w) override {
    return work([&] { return device_.copy(s, to, from, bytes, w); });
  }
  Fate launch(Stream s, std::span<const Access> accesses, Body body, Where w) override {
    return work([&] { return device_.launch(s, accesses, std::move(body), w); });
  }
  void when(Event e, std::function<void(Fate)> then, Where w) override {
    if (lost_) return then(Fate::lost);
    const std::lock_guard lock(mutex_);
    if (never_.count(e.id) > 0) return untold_.push_back(std::move(then));
    device_.when(e, std::move(then), w);
  }
  Fate drain() override {
    if (lost_) return Fate::lost;
    if (silent_) test::came_too_late("end of what a silent device has to do");
    return device_.drain();
  }
  void on_lost(std::function<void()> then) override {
    const std::lock_guard lock(mutex_);
    std::swap(on_lost_, then);  // `then` is destroyed outside of the lock
  }
  void give_up() override {
    std::vector<std::function<void(Fate)>> untold;
    {
      const std::lock_guard lock(mutex_);
      if (!lose()) return;
      untold = std::exchange(untold_, {});
    }
    tell_lost();
    for (const auto& then : untold)
      then(Fate::lost);
  }
  Fate share(const Block& b, int& descriptor) override { return device_.share(b, descriptor); }
  Fate open(int descriptor, size_t bytes, Block& out) override {
    return device_.open(descriptor, bytes, out);
  }

 private:
  template <class Queue>
  Fate work(const Queue& queue) {
    bool is_found = false;
    {
      const std::lock_guard lock(mutex_);
      if (++works_ == fails_at_ && how_ == How::silent) silent_ = true;
      if (works_ == fails_at_ && how_ == How::lost) is_found = lose();
      if (!lost_) return silent_ ? Fate::ok : queue();
    }
    if (is_found) tell_lost();
    return Fate::lost;
  }
  // False: it was lost before. What is queued ends first: a device that is lost computes no more,
  // and its owner frees the memory. REQUIRES: the mutex is held.
  bool lose() {
    if (lost_) return false;
    static_cast<void>(device_.drain());
    return lost_ = true;
  }
  // Another thread may end the share of the device meanwhile, and take the call back.
  void tell_lost() {
    std::function<void()> then;
    {
      const std::lock_guard lock(mutex_);
      then = std::exchange(on_lost_, {});
    }
    if (then) then();
  }

  Threaded device_{kPieces};
  const uint64_t fails_at_;
  const How how_;
  uint64_t works_ = 0;
  std::atomic<bool> lost_{false}, silent_{false};
  std::mutex mutex_;          // guards works_ and what follows, and orders lost_ and silent_
  std::set<uint32_t> never_;  // events that will not come
  std::vector<std::function<void(Fate)>> untold_;
  std::function<void()> on_lost_;
};

/// A quadratic for whose gradients of one rank there is no memory, from its third on.
class TooLarge final : public Objective {
 public:
  TooLarge(std::shared_ptr<Objective> of, int rank) : of_(std::move(of)), rank_(rank) {}

  const ParameterLayout& layout() const override { return of_->layout(); }
  void initial_point(int rank, Vec x) const override { of_->initial_point(rank, x); }
  double gradient(int thread, int rank, uint64_t index, ConstVec x, Vec g) override {
    return of_->gradient(thread, rank, index, x, g);
  }
  void queue_gradient(int thread, void* stream, int rank, uint64_t index, ConstVec x, Vec g,
                      double* loss) override {
    if (rank == rank_ && index >= 2) throw NoMemoryLeft();
    of_->queue_gradient(thread, stream, rank, index, x, g, loss);
  }
  Evaluation evaluate(int thread, int rank, ConstVec x) override {
    return of_->evaluate(thread, rank, x);
  }
  uint64_t gradients_per_pass(int) const override { return 0; }
  std::string description() const override { return of_->description(); }
  Status save_model(const std::string&, ConstVec) override { return Done{}; }

 private:
  const std::shared_ptr<Objective> of_;
  const int rank_;
};

}  // namespace

TEST_CASE("every method trains on a device under the wall clock") {
  const std::pair<const char*, const char*> methods[] = {
      {"a2cid2", "ring"},      {"ad_psgd", "star"},
      {"powergossip", "ring"}, {"relaysgd_async", "chain"},
      {"all_reduce", "ring"},  {"d_psgd", "ring"},
      {"sgp", "ring"},         {"gradient_tracking", "ring"},
      {"relaysgd", "chain"},   {"moniqua", "ring"}};
  for (const auto& [method, topology] : methods) {
    INFO(method);
    Settings s = settings_of(method, topology);
    if (s.method == "moniqua") s.rule.compress = "modulo:8", s.rule.gamma = 0.02;
    s.plan.reconfigurations = {{0.05, "complete"}};
    if (s.method.starts_with("relay")) s.plan.reconfigurations = {{0.05, "binary-tree"}};
    Threaded device(kPieces);
    const auto there = run_on(device, s);
    REQUIRE(there);
    CHECK(!there->outcome.failure);
    CHECK(there->outcome.gradients >= s.gradients);
    CHECK(there->outcome.exchanges > 0);
    const auto objective = there->objective;
    Buffer start(objective->layout().size(), objective->layout().dtype());
    objective->initial_point(0, start);
    CHECK(objective->evaluate(0, -1, mean_parameters(there->outcome)).loss <
          0.2 * objective->evaluate(0, -1, start).loss);
  }
}

TEST_CASE(
    "what ranks that wait for each other compute on a device is to the bit what the CPU does") {
  for (const char* method : {"all_reduce", "d_psgd", "gradient_tracking", "a2cid2"}) {
    INFO(method);
    Settings s = settings_of(method, "ring");
    if (s.method == "a2cid2") {  // alone, as there is nobody it waits for
      s.ranks = 1;
      s.topology = "complete";
      s.objective.zeta2 = 0;
    }
    const auto host = run(s);
    INFO((host ? "" : host.error().message));
    REQUIRE(host);
    Threaded device(kPieces);
    const auto there = run_on(device, s);
    REQUIRE(there);
    CHECK(parameter_hash(there->outcome) == parameter_hash(host->outcome));
  }
}

TEST_CASE("nodes whose ranks live on devices, and one in the host's memory, train one model") {
  for (const char* method : {"a2cid2", "powergossip", "d_psgd", "all_reduce"}) {
    INFO(method);
    Settings s = settings_of(method, "ring");
    s.ranks = 6;
    s.local_ranks = 2;
    s.gradients = 0;  // who is ready first would be through with its share before the others come
    s.until_s = 1;
    NodeSettings own;
    own.run = std::string("device-") + method + "-" + std::to_string(::getpid());
    own.total_ranks = 6;
    Threaded first_device(kPieces), second_device(kPieces);
    own.name = own.run + "-a";
    own.first_rank = 0;
    Node first(&first_device, s, own);
    own.join = {test::awaited(first.address.get_future(), "node that listens")};
    own.name = own.run + "-b";
    own.first_rank = 2;
    Node second(&second_device, s, own);
    own.name = own.run + "-c";
    own.first_rank = 4;
    Node host(nullptr, s, own);
    std::shared_ptr<const Buffer> mean;
    uint64_t exchanges = 0;
    for (Node* node : {&first, &second, &host}) {
      const auto result = test::awaited(node->result, "end of a node");
      INFO((result ? "" : result.error().message));
      REQUIRE(result);
      CHECK(result->ranks == 6);
      CHECK(result->missing.empty());
      CHECK(result->outcome.gradients > 0);
      exchanges += result->outcome.exchanges;
      REQUIRE(result->mean);
      if (!mean) mean = result->mean;
      const auto bytes_of = [](const Buffer& b) {
        const auto* at = static_cast<const std::byte*>(b.vec().data);
        return std::vector<std::byte>(at, at + b.vec().bytes());
      };
      CHECK(bytes_of(*result->mean) == bytes_of(*mean));
    }
    CHECK(exchanges > 0);
    const auto objective = *make_objective(s);
    Buffer start(objective->layout().size(), objective->layout().dtype());
    objective->initial_point(0, start);
    CHECK(objective->evaluate(0, -1, *mean).loss < objective->evaluate(0, -1, start).loss);
  }
}

TEST_CASE("a device that is lost under the wall clock ends the run with a sentence") {
  for (const uint64_t piece : {1, 2, 30, 300, 1000}) {
    INFO("piece of work " << piece);
    Failing device(piece);
    Settings s = settings_of("a2cid2", "ring");
    s.gradients = 0;
    s.until_s = 600;
    const auto result = run_on(device, s);
    REQUIRE(!result);
    CHECK_THAT(result.error().message, Catch::Contains("the device of this process"));
    CHECK_THAT(result.error().message, Catch::Contains("is lost"));
  }
}

TEST_CASE(
    "a rank for whose gradients there is no memory leaves with a line, and the others train") {
  for (const char* method : {"a2cid2", "d_psgd"}) {
    INFO(method);
    const Settings s = settings_of(method, "ring");
    Threaded device(kPieces);
    OnDevice placed = placed_on(device, s);
    std::mutex mutex;
    std::string said;
    RunHooks hooks;
    hooks.device = std::move(placed.share);
    hooks.sink.on_event = [&](const std::string& line) {
      const std::lock_guard lock(mutex);
      said += line + "\n";
    };
    const auto result =
        run(s, std::make_shared<TooLarge>(std::move(placed.objective), 2), std::move(hooks));
    REQUIRE(result);
    CHECK(!result->outcome.failure);
    CHECK_THAT(said, Catch::Contains("rank 2 leaves: the device has too little memory for its"));
    REQUIRE(result->outcome.parameters.size() == kRanks - 1u);
    for (const WorkerReport& worker : result->outcome.workers)
      CHECK(worker.gradients >= s.gradients / kRanks);
  }
}

namespace {

struct Ends {
  Result<NodeResult> silent, other;
};

/// Of two nodes, one of whose devices is silent from that piece of work on.
Ends run_beside_silent(uint64_t piece, double until_s, double silent_until_s) {
  Settings s = settings_of("a2cid2", "ring");
  s.ranks = 4;
  s.local_ranks = 2;
  s.gradients = 0;
  s.until_s = until_s;
  s.lr.schedule = Schedule::constant;  // near 0 the guard would take ranks of few exchanges for far
  NodeSettings own;
  own.run = "silent-" + std::to_string(piece) + "-" + std::to_string(::getpid());
  own.name = own.run + "-a";
  own.first_rank = 0;
  Node host(nullptr, s, own);
  own.join = {test::awaited(host.address.get_future(), "node that listens")};
  Failing device(piece, Failing::How::silent);
  own.name = own.run + "-b";
  own.first_rank = 2;
  s.until_s = silent_until_s;
  Node silent(&device, s, own, {0.2, 1, 0.5});
  auto lost = test::awaited(silent.result, "end of the node whose device is silent");
  return {std::move(lost), test::awaited(host.result, "end of the other node")};
}

/// The same, where on a busy machine the time may be over before the other node has come: then the
/// run is as long again. The silent one's time is `rest_s` longer.
Ends run_beside_late(uint64_t piece, double until_s, double rest_s) {
  const auto is_late = [](const Ends& ends) {
    return !ends.silent && ends.silent.error().message.find("no node answers") != std::string::npos;
  };
  Ends ends = run_beside_silent(piece, until_s, until_s + rest_s);
  while (is_late(ends) && until_s < 60) {
    until_s *= 2;
    ends = run_beside_silent(piece, until_s, until_s + rest_s);
  }
  return ends;
}

}  // namespace

TEST_CASE("a node whose device answers no more loses its ranks, and the others train on") {
  for (const uint64_t piece : {1, 40, 1500}) {
    INFO("piece of work " << piece);
    const auto [lost, rest] = run_beside_late(piece, 4, 596);
    REQUIRE(!lost);
    CHECK_THAT(lost.error().message, Catch::Contains("the device of this process"));
    INFO((rest ? "" : rest.error().message));
    REQUIRE(rest);
    CHECK(rest->ranks == 2);
    CHECK(rest->outcome.gradients > 0);
  }
}

// Whether the time is over before or after: a busy machine decides.
TEST_CASE("a node whose device answers no more as the run ends has its end, too") {
  for (const uint64_t piece : {170, 215}) {
    INFO("piece of work " << piece);
    const auto [lost, rest] = run_beside_late(piece, 0.5, 0);
    if (!lost) CHECK_THAT(lost.error().message, Catch::Contains("the device of this process"));
    REQUIRE(rest);
    CHECK(rest->outcome.gradients > 0);
  }
}
