// The number of device calls of a gradient and of an exchange. The device here does nothing, and
// its work is never done at once. kernels/MEASURED.md has the table.
#include <atomic>
#include <memory>
#include <sstream>
#include <vector>

#include "actors/run/state_sizes.hpp"
#include "kernels/device/dry_device.hpp"
#include "tests/catch.hpp"
#include "tests/run/simulated_runs.hpp"

using namespace grapevine;

namespace {

struct Calls {
  double passes = 0, copies = 0, records = 0, waits = 0, queries = 0, functions = 0;

  Calls operator-(const Calls& o) const {
    return {passes - o.passes, copies - o.copies,   records - o.records,
            waits - o.waits,   queries - o.queries, functions - o.functions};
  }
  Calls operator*(double by) const {
    return {by * passes, by * copies, by * records, by * waits, by * queries, by * functions};
  }
  bool operator==(const Calls&) const = default;
  std::string text() const {
    std::ostringstream out;
    out << passes << " passes, " << copies << " copies, " << records << " records, " << waits
        << " waits, " << queries << " queries, " << functions << " functions of the host";
    return out.str();
  }
};

/// Pinned memory is real. An event has come when it is asked about once more, or waited for. Lanes
/// launch on threads of their own.
class CountingCalls final : public Device {
 public:
  Fate allocate(size_t bytes, Block::Kind kind, Block& out) override {
    if (kind != Block::Kind::pinned) return dry_.allocate(bytes, kind, out);
    pinned_.push_back(std::make_unique<Buffer>(bytes, DType::bytes));
    out = {static_cast<std::byte*>(pinned_.back()->vec().data), bytes, kind};
    return Fate::ok;
  }
  Fate free(const Block&, Where) override { return Fate::ok; }
  Fate make_stream(bool urgent, Stream& out) override { return dry_.make_stream(urgent, out); }
  Fate make_event(Event& out) override {
    asked_.push_back(false);
    return dry_.make_event(out);
  }
  Fate record(Event e, Stream, Where) override {
    ++calls.records;
    asked_[e.id] = false;
    return Fate::ok;
  }
  Fate wait(Stream, Event, Where) override { return ++calls.waits, Fate::ok; }
  Fate query(Event e, Where) override {
    ++calls.queries;
    const bool asked = asked_[e.id];
    asked_[e.id] = true;
    return asked ? Fate::ok : Fate::later;
  }
  Fate copy(Stream, void*, const void*, size_t, Where) override { return ++calls.copies, Fate::ok; }
  Fate launch(Stream, std::span<const Access>, Body, Where) override { return ++passes_, Fate::ok; }
  void when(Event e, std::function<void(Fate)> then, Where) override {
    ++calls.waits;  // the bell's
    ++calls.functions;
    asked_[e.id] = true;
    then(Fate::ok);
  }
  Fate drain() override { return Fate::ok; }
  void on_lost(std::function<void()>) override {}
  void give_up() override {}
  Fate share(const Block&, int&) override { return Fate::lost; }
  Fate open(int, size_t, Block&) override { return Fate::out_of_memory; }

  Calls all() const {
    Calls all = calls;
    all.passes = passes_;
    return all;
  }

  Calls calls;

 private:
  DryDevice dry_;
  std::atomic<int> passes_{0};
  std::vector<bool> asked_;  // by event
  std::vector<std::unique_ptr<Buffer>> pinned_;
};

struct Counted {
  Calls calls;
  double gradients = 0, ends = 0;  // of exchanges
  double samples = 0;
};

Counted count(Clock clock, int ranks, uint64_t gradients, double sample_s = 1e6) {
  Settings s = free_gossip("complete", ranks, 0.2);
  s.clock = clock;
  s.method = "a2cid2";
  s.pacing = Pacing::greedy;
  s.target = 0;
  s.until_s = 0;
  s.gradients = gradients;
  s.sample_s = sample_s;
  s.objective.objective = "quadratic";
  s.objective.dim = 20;
  s.lr = {0.02, Schedule::constant, 0};
  s.rule.optimizer.momentum = 0.9;
  REQUIRE(check(s));
  CountingCalls device;
  const auto objective = *make_objective(s);
  auto share = DeviceShare::make(device, device_sizes(s, *objective));
  REQUIRE(share);
  RunHooks hooks;
  hooks.device = std::move(*share);
  double samples = 0;
  hooks.sink.on_sample = [&samples](const RunSample&) { ++samples; };
  const auto result = run(s, objective, std::move(hooks));
  REQUIRE(result);
  const Outcome& outcome = result->outcome;
  return {device.all(), static_cast<double>(outcome.gradients),
          2 * static_cast<double>(outcome.exchanges), samples};
}

}  // namespace

TEST_CASE("a gradient and an exchange cost a device the calls that the table says") {
  const auto of_a_gradient = [](Clock clock) {
    const Counted few = count(clock, 1, 100), many = count(clock, 1, 300);
    return (many.calls - few.calls) * (1 / (many.gradients - few.gradients));
  };
  const Calls gradient = of_a_gradient(Clock::wall);
  INFO("a gradient: " << gradient.text());
  CHECK(gradient == Calls{4, 0, 3, 4, 1, 2});
  // The simulation audits each gradient. Its exchanges cost what others do.
  const Counted some = count(Clock::simulated, 2, 200), more = count(Clock::simulated, 2, 1000);
  REQUIRE(more.ends > some.ends + 100);
  const Calls audited = of_a_gradient(Clock::simulated) * (more.gradients - some.gradients);
  const Calls end = (more.calls - some.calls - audited) * (1 / (more.ends - some.ends));
  INFO("an end of an exchange: " << end.text());
  CHECK((end.passes <= 6 && end.copies <= 1 && end.records <= 3 && end.waits <= 3));
  CHECK((end.queries <= 3 && end.functions <= 3));
}

TEST_CASE("a sample takes as many copies from a device, however many ranks are there") {
  const auto of_a_sample = [](int ranks) {
    const auto gradients = static_cast<uint64_t>(50 * ranks);
    const Counted without = count(Clock::simulated, ranks, gradients);
    const Counted with = count(Clock::simulated, ranks, gradients, 1);
    REQUIRE(with.samples > without.samples + 10);
    return (with.calls.copies - without.calls.copies) / (with.samples - without.samples);
  };
  const double of_two = of_a_sample(2);
  CHECK(of_two > 0);
  CHECK(of_two == of_a_sample(6));
}
