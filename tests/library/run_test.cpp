// The library as its users see it, through <grapevine/grapevine.hpp> alone: what goes wrong in a
// run is a value with a sentence, whoever's code it is.
#include <atomic>
#include <stdexcept>

#include "tests/catch.hpp"
#include "tests/library/bowl.hpp"

using namespace grapevine;
using test::Bowl;
using test::short_run;

namespace {

template <class T>
std::string refusal(const Result<T>& result, int status) {
  REQUIRE_FALSE(result);
  CHECK(result.error().exit_status() == status);
  CHECK(result.error().message.find('\n') == std::string::npos);
  return result.error().message;
}

using Catch::Contains;

constexpr Clock kClocks[] = {Clock::simulated, Clock::wall};

}  // namespace

TEST_CASE("settings alone are a run, which tells what it trained") {
  const auto result = run(short_run(Clock::simulated));
  REQUIRE(result);
  CHECK(result->outcome.gradients == 200u);
  CHECK_FALSE(result->outcome.failure);
  REQUIRE(result->objective);
  const Buffer mean = mean_parameters(result->outcome);
  CHECK(result->objective->evaluate(0, -1, mean).loss < 1);
}

TEST_CASE("an objective of the user's own is trained, under both clocks") {
  for (const Clock clock : kClocks) {
    const auto bowl = std::make_shared<Bowl>();
    Settings settings = short_run(clock);
    settings.gradients = 20000;  // on a busy machine a rank may be done before others have begun
    const auto result = run(settings, bowl);
    REQUIRE(result);
    CHECK(result->objective == bowl);
    CHECK(result->outcome.gradients == 20000u);
    for (const RankParameters& p : result->outcome.parameters)
      CHECK(std::abs(p.x->vec().as<double>()[3]) < 2);  // of 4
  }
}

TEST_CASE("names that nobody knows are refused by run itself, with what is accepted") {
  const auto refused = [](auto change) {
    Settings settings = short_run(Clock::simulated);
    change(settings);
    const std::string alone = refusal(run(settings), 2);
    if (settings.objective.objective == "quadratic")
      CHECK(refusal(run(settings, std::make_shared<Bowl>()), 2) == alone);
    CHECK_THAT(alone, Contains("accepted"));
    return alone;
  };
  CHECK_THAT(refused([](Settings& s) { s.method = "telepathy"; }), Contains("telepathy"));
  CHECK_THAT(refused([](Settings& s) { s.topology = "heap"; }), Contains("heap"));
  CHECK_THAT(refused([](Settings& s) { s.objective.objective = "fame"; }), Contains("fame"));
  CHECK_THAT(refused([](Settings& s) { s.rule.compress = "zip"; }), Contains("zip"));
  refused([](Settings& s) { s.method = "d_psgd", s.weights = "heavy"; });
  refused([](Settings& s) { s.ranks = 0; });
  refused([](Settings& s) { s.exchanges_at_once = 0; });
  refused([](Settings& s) { s.local_ranks = 2; });
  refused([](Settings& s) { s.local_ranks = -1; });
}

TEST_CASE("an objective that is none, or has nothing to train, is refused in a sentence") {
  for (const Clock clock : kClocks) {
    CHECK_THAT(refusal(run(short_run(clock), nullptr), 2), Contains("no objective"));
    const auto empty = std::make_shared<Bowl>();
    empty->shape = ParameterLayout(DType::f64);
    CHECK_THAT(refusal(run(short_run(clock), empty), 2), Contains("no parameters"));
    const auto bytes = std::make_shared<Bowl>();
    bytes->shape = ParameterLayout::flat(4, DType::bytes);
    CHECK_THAT(refusal(run(short_run(clock), bytes), 2), Contains("bytes"));
  }
}

TEST_CASE("what a gradient throws ends the run, with its text and whose gradient it was") {
  for (const Clock clock : kClocks) {
    const auto bowl = std::make_shared<Bowl>();
    bowl->on_gradient = [](int rank, uint64_t index) {
      if (rank == 2 && index == 7) throw std::runtime_error("out of eggs");
    };
    const std::string said = refusal(run(short_run(clock), bowl), 1);
    CHECK(said == "the gradient 7 of rank 2 failed: out of eggs");
    bowl->on_gradient = [](int, uint64_t) { throw 3; };
    CHECK_THAT(refusal(run(short_run(clock), bowl), 1), Contains("not a std::exception"));
  }
}

TEST_CASE("what an initial point or a layout throws is a value too") {
  class Shapeless final : public Bowl {
    const ParameterLayout& layout() const override { throw std::logic_error("no shape yet"); }
  };
  for (const Clock clock : kClocks) {
    const auto bowl = std::make_shared<Bowl>();
    bowl->on_start = [](int rank) {
      if (rank == 1) throw std::runtime_error("nowhere to begin");
    };
    CHECK(refusal(run(short_run(clock), bowl), 1) ==
          "the initial point of rank 1 failed: nowhere to begin");
    CHECK(refusal(run(short_run(clock), std::make_shared<Shapeless>()), 1) ==
          "the objective failed: no shape yet");
  }
}

TEST_CASE("what a sink throws ends the run, which never calls the sink again") {
  for (const Clock clock : kClocks) {
    RunHooks hooks;
    std::atomic<int> calls{0};
    hooks.sink.on_sample = [&](const RunSample&) {
      if (++calls == 2) throw std::runtime_error("the disk is full");
    };
    Settings settings = short_run(clock);
    settings.gradients = 0;  // it has no other end
    CHECK(refusal(run(settings, std::make_shared<Bowl>(), hooks), 1) ==
          "the sink's on_sample failed: the disk is full");
    CHECK(calls == 2);
    hooks = {};
    hooks.sink.on_epoch = [](const EpochInfo&) { throw std::runtime_error("no epochs here"); };
    CHECK_THAT(refusal(run(settings, std::make_shared<Bowl>(), hooks), 1),
               Contains("on_epoch failed: no epochs here"));
  }
}

TEST_CASE("a sink is called by one thread at a time") {
  RunHooks hooks;
  std::atomic<bool> inside{false}, twice{false};
  const auto enter = [&](const auto&) {
    if (inside.exchange(true)) twice = true;
    std::string busy;
    for (int k = 0; k < 1000; ++k)
      busy += 'x';
    inside = false;
  };
  hooks.sink.on_sample = enter;
  hooks.sink.on_epoch = enter;
  hooks.sink.on_event = enter;
  Settings settings = short_run(Clock::wall);
  settings.gradients = 4000;
  REQUIRE(run(settings, std::make_shared<Bowl>(), hooks));
  CHECK_FALSE(twice);
}

TEST_CASE("a run is stopped from outside, with what there was by then") {
  std::atomic<int> interrupts{0};
  RunHooks hooks;
  hooks.interrupts = &interrupts;
  hooks.sink.on_sample = [&](const RunSample& sample) {
    if (sample.gradients >= 20) interrupts = 1;
  };
  for (const Clock clock : kClocks) {
    interrupts = 0;
    Settings settings = short_run(clock);
    settings.gradients = 0;
    const auto result = run(settings, std::make_shared<Bowl>(), hooks);
    REQUIRE(result);
    CHECK(result->outcome.gradients >= 20u);
    CHECK(result->outcome.parameters.size() == 4u);
  }
}
