// Whole runs of gossip whose ranks live on a GPU; where none is, on the adversary, and that is
// said.
#include "actors/algorithms/method_registry.hpp"
#include "actors/run/state_sizes.hpp"
#include "kernels/gpu/cuda_device.hpp"
#include "tests/catch.hpp"
#include "tests/run/on_adversary.hpp"
#include "tests/skipped.hpp"

using namespace grapevine;
using namespace grapevine::testing;

namespace {

/// A device that has done whatever is asked about, so that a run has the events of one on the CPU.
class Prompt final : public Device {
 public:
  explicit Prompt(std::unique_ptr<Device> device) : device_(std::move(device)) {}

  Fate query(Event e, Where w) override {
    for (;;)
      if (const Fate fate = device_->query(e, w); fate != Fate::later) return fate;
  }
  Fate free(const Block& b, Where w) override { return device_->free(b, w); }
  Fate drain() override { return device_->drain(); }
  Fate allocate(size_t bytes, Block::Kind kind, Block& out) override {
    return device_->allocate(bytes, kind, out);
  }
  Fate make_stream(bool urgent, Stream& out) override { return device_->make_stream(urgent, out); }
  Fate make_event(Event& out) override { return device_->make_event(out); }
  Fate record(Event e, Stream s, Where w) override { return device_->record(e, s, w); }
  Fate wait(Stream s, Event e, Where w) override { return device_->wait(s, e, w); }
  Fate copy(Stream s, void* to, const void* from, size_t bytes, Where w) override {
    return device_->copy(s, to, from, bytes, w);
  }
  Fate launch(Stream s, std::span<const Access> accesses, Body body, Where w) override {
    return device_->launch(s, accesses, std::move(body), w);
  }
  void when(Event e, std::function<void(Fate)> then, Where w) override {
    device_->when(e, std::move(then), w);
  }
  void on_lost(std::function<void()> then) override { device_->on_lost(std::move(then)); }
  void give_up() override { device_->give_up(); }
  Fate share(const Block& b, int& descriptor) override { return device_->share(b, descriptor); }
  Fate open(int descriptor, size_t bytes, Block& out) override {
    return device_->open(descriptor, bytes, out);
  }

 private:
  const std::unique_ptr<Device> device_;
};

struct Run {
  const char *method, *topology, *compress;
};

// Not the low-rank parts, whose sums are in another order (kernels/README.md).
constexpr Run kRuns[] = {{"a2cid2", "ring", ""},
                         {"ad_psgd", "ring", ""},
                         {"all_reduce", "ring", ""},
                         {"d_psgd", "complete", ""},
                         {"qgm", "ring", ""},
                         {"d2", "ring", ""},
                         {"gradient_tracking", "ring", ""},
                         {"sgp", "ring", ""},
                         {"relaysgd", "binary-tree", ""},
                         {"relaysum_grad", "chain", ""},
                         {"relaysgd_async", "chain", ""},
                         {"mean_estimation", "chain", ""},
                         {"choco", "ring", "top-k:0.3"},
                         {"choco", "ring", "random-k:0.3"},
                         {"deepsqueeze", "ring", "sign"},
                         {"deepsqueeze", "ring", "quantise:6"},
                         {"moniqua", "ring", "modulo:4"}};

}  // namespace

TEST_CASE("gossip on a GPU has the events and the bits that it has on the CPU", "[gpu]") {
  const bool is_gpu = cuda_device_count() > 0;
  if (!is_gpu) test::skipped("no CUDA device");
  for (const Run& r : kRuns) {
    Settings s = free_gossip(r.topology, 6, 0.2);
    s.method = r.method;
    if (s.method == "d2") s.weights = "lazy";
    s.pacing = Pacing::greedy;
    s.target = 0;
    s.until_s = 30;
    s.objective.dim = 1003;
    s.rule.compress = r.compress;
    if (!s.rule.compress.empty()) s.rule.gamma = s.method == "moniqua" ? 0.02 : 0.3;
    INFO(r.method << " " << r.compress);
    REQUIRE(check(s));
    const RunResult host = simulate_one(s, 1);
    const std::unique_ptr<Device> device =
        is_gpu ? std::make_unique<Prompt>(*open_cuda_device(0))
               : std::unique_ptr<Device>(std::make_unique<RunDevice>(1));
    s.seed = 1;
    const auto objective = *make_objective(s);
    RunHooks hooks;
    hooks.device = *DeviceShare::make(*device, device_sizes(s, *objective));
    const RunResult there = *run(s, objective, std::move(hooks));
    CHECK(there.events == host.events);
    CHECK(there.outcome.exchanges == host.outcome.exchanges);
    CHECK(parameter_hash(there.outcome) == parameter_hash(host.outcome));
  }
}
