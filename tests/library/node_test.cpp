// Nodes of the library's users: settings that cannot be are sentences, and so is what their code
// throws; a process with a name of nobody's choice runs alone.
#include <atomic>
#include <stdexcept>

#include "tests/catch.hpp"
#include "tests/library/bowl.hpp"

using namespace grapevine;
using Catch::Contains;
using test::Bowl;
using test::short_run;

namespace {

Result<NodeResult> node(const Settings& settings, const NodeSettings& peers,
                        std::shared_ptr<Objective> objective = std::make_shared<Bowl>()) {
  return run_node(settings, peers, std::move(objective));
}

std::string refusal(const Result<NodeResult>& result, int status = 2) {
  REQUIRE_FALSE(result);
  CHECK(result.error().exit_status() == status);
  CHECK(result.error().message.find('\n') == std::string::npos);
  return result.error().message;
}

}  // namespace

TEST_CASE("a node with nothing but settings is a run of its own") {
  const auto result = node(short_run(Clock::wall), {});
  REQUIRE(result);
  CHECK(result->ranks == 4);
  CHECK(result->nodes == 1);
  REQUIRE(result->mean);
  CHECK(result->outcome.gradients == 200u);
}

TEST_CASE("settings that no node can have are refused in a sentence") {
  const Settings settings = short_run(Clock::wall);
  CHECK_THAT(refusal(node(short_run(Clock::simulated), {})), Contains("clock"));
  CHECK_THAT(refusal(node(settings, {}, nullptr)), Contains("no objective"));
  const auto refused_settings = [&](auto change) {
    Settings changed = settings;
    change(changed);
    return refusal(node(changed, {}));
  };
  CHECK_THAT(refused_settings([](Settings& s) { s.method = "telepathy"; }), Contains("telepathy"));
  CHECK_THAT(refused_settings([](Settings& s) { s.local_ranks = 5; }),
             Contains("local_ranks is 5"));
  CHECK_THAT(refused_settings([](Settings& s) { s.ranks = 1000; }), Contains("for one node"));
  const auto refused = [&](auto change) {
    NodeSettings peers;
    change(peers);
    return refusal(node(settings, peers));
  };
  CHECK_THAT(refused([](NodeSettings& n) { n.first_rank = -2; }), Contains("first_rank is -2"));
  CHECK_THAT(refused([](NodeSettings& n) { n.first_rank = 1 << 30; }), Contains("first_rank is"));
  CHECK_THAT(refused([](NodeSettings& n) { n.total_ranks = 3; }), Contains("total_ranks is 3"));
  CHECK_THAT(refused([](NodeSettings& n) { n.patience_s = 0; }), Contains("patience_s is 0"));
  CHECK_THAT(refused([](NodeSettings& n) { n.name = "a\nb"; }), Contains("name has 3 bytes"));
  CHECK_THAT(refused([](NodeSettings& n) { n.name = std::string(64, 'n'); }),
             Contains("at most 63"));
  CHECK_THAT(refused([](NodeSettings& n) { n.run = std::string(64, 'r'); }),
             Contains("at most 63"));
  CHECK_THAT(refused([](NodeSettings& n) { n.join = {std::string(300, 'j')}; }),
             Contains("at most 255"));
}

TEST_CASE("a node that is interrupted saves its ranks, though another's stop ends them first") {
  Settings settings = short_run(Clock::wall);
  settings.gradients = 0;
  std::atomic<int> interrupts{0}, ranks{0}, whole{0};
  std::atomic<bool> is_enough{false};
  NodeHooks hooks;
  hooks.run.interrupts = &interrupts;
  hooks.run.is_enough = &is_enough;  // stops the run, as another node's request does
  hooks.run.sink.on_sample = [&](const RunSample&) { is_enough = true; };
  hooks.run.sink.on_event = [&](const std::string& line) {
    if (line == "the run is to stop") interrupts = 1;
  };
  hooks.run.checkpoints.write = [&](const CheckpointPart& part,
                                    const CheckpointOrders::Done& done) {
    ++(part.rank == nullptr ? whole : ranks);
    done(true, "");
  };
  const auto result = run_node(settings, {}, std::make_shared<Bowl>(), hooks);
  REQUIRE(result);
  CHECK(interrupts == 1);
  CHECK(ranks == 4);
  CHECK(whole == 1);
}

TEST_CASE("what a node's gradient or hook throws is an error with its text") {
  Settings settings = short_run(Clock::wall);
  settings.gradients = 0;  // it has no other end
  const auto bowl = std::make_shared<Bowl>();
  bowl->on_gradient = [](int, uint64_t index) {
    if (index == 7) throw std::runtime_error("out of eggs");
  };
  CHECK_THAT(refusal(node(settings, {}, bowl), 1), Contains("failed: out of eggs"));
  NodeHooks hooks;
  hooks.run.sink.on_sample = [](const RunSample&) { throw std::runtime_error("the disk is full"); };
  CHECK(refusal(run_node(settings, {}, std::make_shared<Bowl>(), hooks), 1) ==
        "the sink's on_sample failed: the disk is full");
  hooks = {};
  hooks.on_listening = [](const std::string&) { throw std::runtime_error("nobody may know"); };
  CHECK(refusal(run_node(settings, {}, std::make_shared<Bowl>(), hooks), 1) ==
        "the hook on_listening failed: nobody may know");
}
