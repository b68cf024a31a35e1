// Runs under the wall clock whose ranks live on a device: one whose streams are threads, which do
// at their own pace what the events allow.
#include <unistd.h>

#include <atomic>
#include <future>

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

OnDevice placed_on(Device& device, const Settings& s) {
  GV_CHECK(static_cast<bool>(check(s)));
  auto objective = make_objective(s);
  GV_CHECK(static_cast<bool>(objective));
  auto share = DeviceShare::make(device, device_sizes(s, **objective));
  GV_CHECK(static_cast<bool>(share));
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
  Node(Device* device, Settings s, NodeSettings own) {
    NodeHooks hooks;
    std::shared_ptr<Objective> objective;
    if (device != nullptr) {
      OnDevice placed = placed_on(*device, s);
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

/// Lost at its k-th piece of work.
class Failing final : public Device {
 public:
  explicit Failing(uint64_t fails_at) : fails_at_(fails_at) {}

  Fate allocate(size_t bytes, Block::Kind kind, Block& out) override {
    return device_.allocate(bytes, kind, out);
  }
  Fate free(const Block& b, Where w) override { return device_.free(b, w); }
  Fate make_stream(bool urgent, Stream& out) override { return device_.make_stream(urgent, out); }
  Fate make_event(Event& out) override { return lost_ ? Fate::lost : device_.make_event(out); }
  Fate record(Event e, Stream s, Where w) override {
    return lost_ ? Fate::lost : device_.record(e, s, w);
  }
  Fate wait(Stream s, Event e, Where w) override {
    return lost_ ? Fate::lost : device_.wait(s, e, w);
  }
  Fate query(Event e, Where w) override { return lost_ ? Fate::lost : device_.query(e, w); }
  Fate copy(Stream s, void* to, const void* from, size_t bytes, Where w) override {
    return fails() ? Fate::lost : device_.copy(s, to, from, bytes, w);
  }
  Fate launch(Stream s, std::span<const Access> accesses, Body body, Where w) override {
    return fails() ? Fate::lost : device_.launch(s, accesses, std::move(body), w);
  }
  void when(Event e, std::function<void(Fate)> then, Where w) override {
    if (lost_) return then(Fate::lost);
    device_.when(e, std::move(then), w);
  }
  Fate drain() override { return device_.drain(); }
  void on_lost(std::function<void()> then) override { on_lost_ = std::move(then); }
  Fate share(const Block& b, int& descriptor) override { return device_.share(b, descriptor); }
  Fate open(int descriptor, size_t bytes, Block& out) override {
    return device_.open(descriptor, bytes, out);
  }

 private:
  bool fails() {
    if (++works_ == fails_at_ && !lost_.exchange(true)) on_lost_();
    return lost_;
  }

  Threaded device_{kPieces};
  const uint64_t fails_at_;
  std::atomic<uint64_t> works_{0};
  std::atomic<bool> lost_{false};
  std::function<void()> on_lost_;
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
