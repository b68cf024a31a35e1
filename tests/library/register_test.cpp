// Methods, graphs and more that a program adds under its own names, by <grapevine/extend.hpp>.
#include <grapevine/extend.hpp>

#include <atomic>
#include <cstring>
#include <stdexcept>

#include "tests/catch.hpp"
#include "tests/library/bowl.hpp"

using namespace grapevine;
using Catch::Contains;
using test::Bowl;
using test::short_run;

namespace {

std::string refusal(const Status& status) {
  REQUIRE_FALSE(status);
  CHECK(status.error().exit_status() == 2);
  return status.error().message;
}

/// Everybody on its own: nothing is sent that is listened to.
class Deaf : public RoundRule {
 public:
  using RoundRule::RoundRule;
  size_t message_bytes() const override { return layout_.bytes(); }
  void write(int, size_t, Payload& out) override {
    std::memcpy(out.writable(dtype(), size()).data, x_.vec().data, layout_.bytes());
  }
  void combine(double, int, std::span<const Received>) override {}
};

/// Says nothing of it, and adds to the sum that gossip conserves.
class Leaky final : public Deaf {
 public:
  using Deaf::Deaf;
  void combine(double, int, std::span<const Received>) override { x_.vec().as<double>()[1] += 1; }
};

std::unique_ptr<Rule> make_leaky(const RuleContext& context) {
  return std::make_unique<Leaky>(context);
}

std::unique_ptr<Rule> make_deaf(const RuleContext& context) {
  return std::make_unique<Deaf>(context);
}

Result<std::vector<Edge>> path(int ranks, const std::vector<std::string>& arguments) {
  if (arguments.size() == 1 && arguments[0] == "throw") throw std::runtime_error("no way");
  if (arguments.size() == 1 && arguments[0] == "refuse") return user_error("not today");
  std::vector<Edge> edges;
  for (int i = 0; i + 1 < ranks; ++i)
    edges.push_back({.i = i + 1, .j = i});
  return edges;
}

/// Half of a tensor's numbers: the first ones.
class FirstHalf final : public TensorCompressor {
 public:
  size_t bytes(size_t rows, size_t columns, DType dtype) const override {
    return (rows * columns + 1) / 2 * size_of(dtype);
  }
  void encode(ConstVec v, size_t rows, size_t columns, std::byte* out) const override {
    std::memcpy(out, v.data, bytes(rows, columns, v.dtype));
  }
  void decode(const std::byte* in, size_t, size_t, double a, Vec y) const override {
    for (size_t k = 0; k < (y.size + 1) / 2; ++k) {
      double value;
      std::memcpy(&value, in + k * sizeof value, sizeof value);
      y.as<double>()[k] += a * value;
    }
  }
};

DataSet squares() {
  DataSet set;
  set.classes = 2;
  for (Samples* part : {&set.train, &set.test}) {
    part->shape = {1, 4, 4, true};
    for (uint8_t k = 0; k < 20; ++k) {
      part->pixels.insert(part->pixels.end(), 16, static_cast<uint8_t>(k % 2 == 0 ? 10 : 200));
      part->labels.push_back(k % 2);
    }
  }
  return set;
}

// Which call into a rule throws.
struct Trap {
  std::atomic<const char*> call{""};
  std::atomic<int> before{0};  // calls of its kind that go well

  void set(const char* on, int well = 30) {
    before = well;
    call = on;
  }
  void step(const char* on) {
    if (std::strcmp(call, on) == 0 && --before < 0) throw std::runtime_error("out of ink");
  }
};
Trap trap;

class TrappedRounds final : public Deaf {
 public:
  explicit TrappedRounds(const RuleContext& context) : Deaf(context) { trap.step("make"); }
  void read(double now, Vec out) override { trap.step("read"), Deaf::read(now, out); }
  void on_gradient(double now, double lr, ConstVec g, Vec copy) override {
    trap.step("on_gradient"), Deaf::on_gradient(now, lr, g, copy);
  }
  double distance(size_t, const Payload&) override { return trap.step("distance"), 1; }
  void write(int phase, size_t edge, Payload& out) override {
    trap.step("write"), Deaf::write(phase, edge, out);
  }
  void combine(double, int, std::span<const Received>) override { trap.step("combine"); }
  void enter(const Neighbourhood& near) override { trap.step("enter"), Deaf::enter(near); }
};

class TrappedPairs final : public PairRule {
 public:
  using PairRule::PairRule;
  void set_eta(double, double) override { trap.step("set_eta"); }
  void read(double, Vec out) override { trap.step("read"), scale({}, 1, x_, out); }
  void on_gradient(double, double lr, ConstVec g, Vec copy) override {
    trap.step("on_gradient");
    optimizer_.step({}, 0, lr, g, x_, {}, copy);
  }
  void snapshot(double, const ExchangeKey& key, ConstVec front, Payload& out) override {
    trap.step("snapshot");
    PairRule::write(key, 0, {}, front, out);
  }
  void jump(double, const ExchangeKey&, const Payload&, const Payload&, double, double) override {
    trap.step("jump");
  }
  RuleCounts counts() const override { return trap.step("counts"), PairRule::counts(); }
};

class TrappedAll final : public CollectiveRule {
 public:
  explicit TrappedAll(const RuleContext& context)
      : x_(context.layout.size(), DType::f64), sum_(context.layout.size(), DType::f64) {}
  void read(double, Vec out) override { scale({}, 1, x_, out); }
  void reset(double, ConstVec x) override { scale({}, 1, x, x_); }
  RuleState state(double) override { return {}; }
  void on_gradient(double, double, ConstVec, Vec) override {}
  void add_conserved(double, Vec) override {}
  bool conserves() const override { return false; }
  void begin(double, int) override { trap.step("begin"); }
  Vec part(size_t offset, size_t count) override {
    return trap.step("part"), sum_.vec().part(offset, count);
  }
  void finish(double, int, int, Vec copy) override {
    trap.step("finish");
    if (copy) scale({}, 1, x_, copy);
  }

 private:
  Buffer x_, sum_;
};

template <class Trapped>
Method trapped(const char* name, Pattern pattern) {
  const auto make = [](const RuleContext& context) -> std::unique_ptr<Rule> {
    return std::make_unique<Trapped>(context);
  };
  return {.name = name, .pattern = pattern, .make = make};
}

// `once`: what each rank is asked once, so that it throws at once.
void check_trapped(const Method& method, std::initializer_list<const char*> calls,
                   std::initializer_list<const char*> once) {
  REQUIRE(register_method(method));
  std::vector<std::pair<const char*, int>> cases;
  for (const char* call : calls)
    cases.push_back({call, 30});
  for (const char* call : once)
    cases.push_back({call, 1});
  for (const auto& [call, well] : cases) {
    for (const Clock clock : {Clock::simulated, Clock::wall}) {
      trap.set(call, well);
      INFO(method.name << ", " << call << (clock == Clock::wall ? ", wall" : ", simulated"));
      Settings settings = short_run(clock);
      settings.method = method.name;
      settings.gradients = 0;  // it has no other end
      const auto result = run(settings, std::make_shared<Bowl>());
      trap.set("");
      REQUIRE_FALSE(result);
      CHECK(result.error().exit_status() == 1);
      CHECK_THAT(result.error().message, Contains("the rule of rank "));
      CHECK_THAT(result.error().message, Contains(" failed: out of ink"));
    }
  }
}

}  // namespace

TEST_CASE("a method from outside runs by its name, and names that are taken are refused") {
  const Method deaf{.name = "deaf", .pattern = Pattern::rounds, .make = make_deaf};
  REQUIRE(register_method(deaf));
  CHECK_THAT(refusal(register_method(deaf)), Contains("method deaf is there already"));
  Method other = deaf;
  other.name = "a2cid2";
  CHECK_THAT(refusal(register_method(other)), Contains("a2cid2 is there already"));
  for (const char* name : {"", "Deaf", "de af", "-deaf", "deaf:1"}) {
    other.name = name;
    CHECK_THAT(refusal(register_method(other)), Contains("small letters"));
  }
  other = {.name = "handless", .pattern = Pattern::rounds, .make = nullptr};
  refusal(register_method(other));

  CHECK_THAT(method_names(), Contains("d_psgd, deaf, deepsqueeze"));
  for (const Clock clock : {Clock::simulated, Clock::wall}) {
    Settings settings = short_run(clock);
    settings.method = "deaf";
    const auto result = run(settings, std::make_shared<Bowl>());
    REQUIRE(result);
    CHECK(result->outcome.gradients == 200u);
    CHECK(consensus_distance(result->outcome) < 1e-20);  // in step, though nobody listens
  }
  Settings settings = short_run(Clock::wall);
  settings.method = "deaf";
  settings.device = "cuda";
  const auto there = run(settings, std::make_shared<Bowl>());
  REQUIRE_FALSE(there);
  CHECK_THAT(there.error().message, Contains("method is deaf, which runs on the CPU alone"));
}

TEST_CASE("what a rule from outside throws ends the run, with its text and whose rule it was") {
  check_trapped(trapped<TrappedRounds>("trapped-rounds", Pattern::rounds),
                {"read", "on_gradient", "write", "distance", "combine"}, {"make", "enter"});
  check_trapped(trapped<TrappedPairs>("trapped-pairs", Pattern::pairwise),
                {"read", "on_gradient", "snapshot", "jump"}, {"set_eta"});
  check_trapped(trapped<TrappedAll>("trapped-all", Pattern::collective),
                {"begin", "part", "finish"}, {});
}

TEST_CASE("what a rule throws when the run ends is a value too") {
  trap.set("");
  REQUIRE(register_method(trapped<TrappedPairs>("trapped-at-last", Pattern::pairwise)));
  for (const Clock clock : {Clock::simulated, Clock::wall}) {
    RunHooks hooks;
    std::atomic<int> interrupts{0};
    hooks.interrupts = &interrupts;
    hooks.sink.on_sample = [&](const RunSample& sample) {
      if (sample.gradients < 20) return;
      trap.set("counts", 0);
      interrupts = 1;
    };
    Settings settings = short_run(clock);
    settings.method = "trapped-at-last";
    settings.gradients = 0;
    const auto result = run(settings, std::make_shared<Bowl>(), hooks);
    trap.set("");
    REQUIRE_FALSE(result);
    CHECK_THAT(result.error().message, Contains("failed: out of ink"));
  }
}

TEST_CASE("a method from outside that loses what it should conserve is told so in a simulation") {
  REQUIRE(register_method({.name = "sealed", .pattern = Pattern::rounds, .make = make_deaf}));
  REQUIRE(register_method({.name = "leaky", .pattern = Pattern::rounds, .make = make_leaky}));
  for (const bool leaks : {false, true}) {
    Settings settings = short_run(Clock::simulated);
    settings.method = leaks ? "leaky" : "sealed";
    std::vector<Alarm> alarms;
    RunHooks hooks;
    hooks.sink.on_alarm = [&](const Alarm& alarm) { alarms.push_back(alarm); };
    const auto result = run(settings, std::make_shared<Bowl>(), std::move(hooks));
    REQUIRE(result);
    CHECK_FALSE(result->outcome.failure);
    REQUIRE(alarms.size() == (leaks ? 1u : 0u));
    if (!leaks) continue;
    CHECK(alarms[0].what == Alarm::What::conserved_sum);
    CHECK_THAT(alarms[0].line(), Contains("the sum that leaky conserves has moved by 200"));
  }
}

TEST_CASE("a graph from outside is made by its spec, and its complaints are sentences") {
  const TopologyKind kind{.name = "path",
                          .arguments = "[:WORD]",
                          .most_arguments = 1,
                          .sentence = "a chain from the other end",
                          .make = path};
  REQUIRE(register_topology(kind));
  CHECK_THAT(refusal(register_topology(kind)), Contains("topology path is there already"));
  TopologyKind other = kind;
  other.name = "ring";
  CHECK_THAT(refusal(register_topology(other)), Contains("ring is there already"));
  other.name = "a/b";
  CHECK_THAT(refusal(register_topology(other)), Contains("small letters"));
  refusal(register_topology({.name = "empty", .make = {}}));

  const auto made = make_topology("path", 5, 1), chain = make_topology("chain", 5, 1);
  REQUIRE(made);
  REQUIRE(chain);
  REQUIRE(made->edges().size() == chain->edges().size());
  for (size_t e = 0; e < made->edges().size(); ++e) {
    CHECK(made->edges()[e].i == chain->edges()[e].i);
    CHECK(made->edges()[e].rate == chain->edges()[e].rate);
  }
  CHECK_THAT(make_topology("path:throw", 5, 1).error().message, Contains("no way"));
  CHECK_THAT(make_topology("path:refuse", 5, 1).error().message, Contains("not today"));
  CHECK_THAT(make_topology("path:a:b", 5, 1).error().message, Contains("too many arguments"));
  CHECK_THAT(make_topology("paths", 5, 1).error().message, Contains("path"));
  CHECK_THAT(topology_specs(), Contains("a chain from the other end"));
  CHECK(make_topology("spanning:path", 5, 1));

  Settings settings = short_run(Clock::simulated);
  settings.topology = "path";
  CHECK(run(settings));
}

TEST_CASE("a compressor from outside carries the messages of the methods that compress") {
  const auto make =
      [](const std::string& value) -> Result<std::shared_ptr<const TensorCompressor>> {
    if (!value.empty()) return user_error("first-half takes no value");
    return std::shared_ptr<const TensorCompressor>(std::make_shared<FirstHalf>());
  };
  REQUIRE(register_compressor("first-half", make));
  CHECK_THAT(refusal(register_compressor("first-half", make)), Contains("is there already"));
  CHECK_THAT(refusal(register_compressor("sign", make)), Contains("is there already"));
  CHECK_THAT(refusal(register_compressor("First", make)), Contains("small letters"));
  refusal(register_compressor("nothing", {}));

  ParameterLayout layout(DType::f64);
  layout.add("a", {3}, true);
  layout.add("b", {2, 2}, true);
  CHECK_THAT(Compressor::make("first-half:3", layout).error().message, Contains("no value"));
  CHECK_THAT(Compressor::make("last-half", layout).error().message, Contains("first-half"));
  const auto compressor = Compressor::make("first-half", layout);
  REQUIRE(compressor);
  REQUIRE(compressor->bytes() == 4 * sizeof(double));
  const double v[7] = {1, 2, 3, 4, 5, 6, 7};
  double y[7] = {};
  std::vector<std::byte> bytes(compressor->bytes());
  compressor->encode({}, {v, 7, DType::f64}, 0, 0, bytes.data());
  compressor->decode({}, bytes.data(), 0, 0, 2, {y, 7, DType::f64});
  const double wanted[7] = {2, 4, 0, 8, 10, 0, 0};
  for (int k = 0; k < 7; ++k)
    CHECK(y[k] == wanted[k]);

  Settings settings = short_run(Clock::simulated);
  settings.method = "choco";
  settings.rule.compress = "first-half";
  settings.rule.gamma = 0.3;
  const auto result = run(settings, std::make_shared<Bowl>());
  REQUIRE(result);
  CHECK(result->outcome.bytes > 0);

  settings.clock = Clock::wall;
  settings.device = "cuda";
  const auto there = run(settings, std::make_shared<Bowl>());
  REQUIRE_FALSE(there);
  CHECK_THAT(there.error().message, Contains("first-half, which runs on the CPU alone"));
}

TEST_CASE("a data set from outside is read by its name, and what it lacks is told") {
  REQUIRE(register_data_set("squares",
                            [](const std::string&) -> Result<DataSet> { return squares(); }));
  const auto again = [](const std::string&) -> Result<DataSet> { return squares(); };
  CHECK_THAT(refusal(register_data_set("squares", again)), Contains("is there already"));
  CHECK_THAT(refusal(register_data_set("mnist", again)), Contains("is there already"));
  CHECK_THAT(refusal(register_data_set("wikitext-2", again)), Contains("is there already"));
  CHECK_THAT(refusal(register_data_set("my set", again)), Contains("small letters"));
  refusal(register_data_set("nothing", {}));
  const auto read = read_data_set("squares", "");
  REQUIRE(read);
  CHECK(read->name == "squares");
  REQUIRE(read->mean.size() == 1u);
  CHECK(read->mean[0] == 105);
  CHECK_THAT(data_set_names(), Contains("squares"));

  int wrong = 0;
  const auto complaint = [&](std::function<void(DataSet&)> spoil) {
    const std::string name = "wrong-" + std::to_string(++wrong);
    REQUIRE(register_data_set(name, [spoil](const std::string&) -> Result<DataSet> {
      DataSet set = squares();
      spoil(set);
      return set;
    }));
    const auto set = read_data_set(name, "");
    REQUIRE_FALSE(set);
    return set.error().message;
  };
  CHECK_THAT(complaint([](DataSet& s) { s.train.labels[3] = 2; }), Contains("label 2 of 2"));
  CHECK_THAT(complaint([](DataSet& s) { s.test.pixels.pop_back(); }), Contains("319 numbers"));
  CHECK_THAT(complaint([](DataSet& s) { s.test = {}; }), Contains("there are none"));
  CHECK_THAT(complaint([](DataSet& s) { s.classes = 65537; }), Contains("classes"));
  CHECK_THAT(complaint([](DataSet& s) { s.test.shape = {16, 1, 1, true}; }), Contains("shape"));
  CHECK_THAT(complaint([](DataSet&) { throw std::runtime_error("the shelf is empty"); }),
             Contains("the shelf is empty"));
}
