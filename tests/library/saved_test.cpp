// Runs of the library's users that are saved and go on, through <grapevine/checkpoint.hpp>.
#include <grapevine/checkpoint.hpp>

#include <cmath>
#include <filesystem>
#include <stdexcept>

#include "tests/catch.hpp"
#include "tests/library/bowl.hpp"
#include "tests/models/tools.hpp"

using namespace grapevine;
using Catch::Contains;
using test::Bowl;
using test::Scratch;
using test::short_run;

namespace {

template <class T>
std::string refusal(const Result<T>& result, int status = 2) {
  REQUIRE_FALSE(result);
  CHECK(result.error().exit_status() == status);
  CHECK(result.error().message.find('\n') == std::string::npos);
  return result.error().message;
}

/// One rank, whose steps nobody else's change.
Settings run_alone() {
  Settings settings = short_run(Clock::simulated);
  settings.ranks = 1;
  settings.topology = "complete";
  return settings;
}

const auto bowl = [] { return std::make_shared<Bowl>(); };

/// Leaves in `out` the files of a run that was stopped after `gradients`.
void leave(const Settings& settings, const std::string& out, uint64_t gradients) {
  std::atomic<int> interrupts{0};
  RunHooks hooks;
  hooks.interrupts = &interrupts;
  hooks.sink.on_sample = [&](const RunSample& sample) {
    if (sample.gradients >= gradients) interrupts = 1;
  };
  REQUIRE(run_saved(settings, bowl(), {.out = out, .checkpoint_every = "20steps"}, hooks));
  REQUIRE(has_checkpoint(out));
}

}  // namespace

TEST_CASE("a rank that was stopped goes on from its run's folder, and ends as if it had not been") {
  const Scratch scratch;
  const std::string out = scratch.path("runs/long");
  CHECK_FALSE(has_checkpoint(out));
  const Settings settings = run_alone();
  leave(settings, out, 100);
  std::vector<std::string> told;
  RunHooks hooks;
  hooks.sink.on_event = [&](const std::string& line) { told.push_back(line); };
  const auto went_on = run_saved(settings, bowl(), {.resume = out}, hooks);
  REQUIRE(went_on);
  CHECK(went_on->outcome.gradients == 200u);
  REQUIRE_FALSE(told.empty());
  CHECK_THAT(told.front(), Contains("resumes from " + out + "/checkpoints/"));
  CHECK_THAT(told.front(), Contains("after 100 gradients"));
  const auto straight = run(settings, bowl());
  REQUIRE(straight);
  CHECK(parameter_hash(went_on->outcome) == parameter_hash(straight->outcome));
}

TEST_CASE("one checkpoint of a run is gone on from, in a folder of its own") {
  const Scratch scratch;
  Settings settings = short_run(Clock::simulated);
  std::vector<std::string> paths;
  Saving saving{.out = scratch.path("a"), .checkpoint_every = "20steps"};
  saving.on_checkpoint = [&](const std::string& path) { paths.push_back(path); };
  REQUIRE(run_saved(settings, bowl(), saving));
  REQUIRE(paths.size() >= 2);
  CHECK(std::filesystem::exists(paths.back() + "/manifest.json"));
  CHECK(std::filesystem::path(paths.back()).parent_path() == scratch.path("a/checkpoints"));
  saving.out = scratch.path("b");
  saving.resume = paths.back();
  const auto objective = bowl();
  const auto result = run_saved(settings, objective, saving);
  REQUIRE(result);
  CHECK(result->objective == objective);
  CHECK(result->outcome.gradients == 200u);
}

TEST_CASE("a checkpoint is written while the run goes on, once somebody asks for one") {
  const Scratch scratch;
  std::atomic<int> requests{0}, interrupts{0};
  Saving saving{.out = scratch.path("run"), .checkpoint_every = "0"};
  saving.checkpoint_requests = &requests;
  std::string path;
  saving.on_checkpoint = [&](const std::string& whole) {
    path = whole;
    interrupts = 1;  // else it has no end
  };
  RunHooks hooks;
  hooks.interrupts = &interrupts;
  hooks.sink.on_sample = [&](const RunSample& sample) {
    if (sample.gradients >= 20) requests = 1;
  };
  Settings settings = short_run(Clock::wall);
  settings.gradients = 0;
  REQUIRE(run_saved(settings, bowl(), saving, hooks));
  REQUIRE(std::filesystem::exists(path + "/manifest.json"));

  hooks.interrupts = nullptr;
  std::atomic<bool> enough{false};
  hooks.is_enough = &enough;
  uint64_t first = 0;
  hooks.sink.on_sample = [&](const RunSample& sample) {
    if (first == 0) first = sample.gradients;
    enough = true;
  };
  const auto went_on = run_saved(settings, bowl(), {.resume = path}, hooks);
  REQUIRE(went_on);
  CHECK(first >= 20u);
}

TEST_CASE("a node is saved, and goes on with the ranks that it had") {
  const Scratch scratch;
  const std::string out = scratch.path("node");
  std::atomic<int> requests{0};
  Settings settings = short_run(Clock::wall);
  settings.gradients = 0;
  std::atomic<int> interrupts{0};
  Saving saving{.out = out};
  saving.checkpoint_requests = &requests;
  saving.on_checkpoint = [&](const std::string&) { interrupts = 1; };
  NodeHooks hooks;
  hooks.run.interrupts = &interrupts;
  hooks.run.sink.on_sample = [&](const RunSample&) { requests = 1; };
  REQUIRE(run_node_saved(settings, {}, bowl(), saving, hooks));
  REQUIRE(has_checkpoint(out));
  std::atomic<int> again{0};
  hooks.run.interrupts = &again;
  std::string told;
  hooks.run.sink.on_event = [&](const std::string& line) { told += line + "\n"; };
  hooks.run.sink.on_sample = [&](const RunSample&) { again = 1; };
  const auto went_on = run_node_saved(settings, {}, bowl(), {.resume = out}, hooks);
  INFO((went_on ? std::string() : went_on.error().message));
  REQUIRE(went_on);
  CHECK_THAT(told, Contains("resumes from"));
}

TEST_CASE("what cannot be gone on from, or saved, is refused in a sentence") {
  const Scratch scratch;
  const std::string out = scratch.path("run"), other = scratch.path("other");
  const Settings settings = run_alone();
  leave(settings, out, 100);
  const auto refused = [&](const Saving& saving, Settings s) {
    return refusal(run_saved(s, bowl(), saving));
  };
  CHECK_THAT(refused({.out = other, .checkpoint_every = "often"}, settings),
             Contains("checkpoint_every is \"often\""));
  CHECK_FALSE(std::filesystem::exists(other));
  CHECK_THAT(refused({.out = out}, settings), Contains("holds the checkpoints of a run"));
  CHECK_THAT(refused({.out = other, .resume = other}, settings), Contains("no checkpoint"));
  Settings changed = settings;
  changed.method = "ad_psgd";
  CHECK_THAT(refused({.resume = out}, changed), Contains("a checkpoint of a2cid2"));
  changed = settings;
  changed.gradients = 20;
  CHECK_THAT(refused({.resume = out}, changed), Contains("no gradients left to take"));
  changed.method = "telepathy";
  CHECK_THAT(refused({.resume = out}, changed), Contains("telepathy"));
  CHECK_THAT(refused({.init = other + "/none.safetensors"}, settings),
             Contains("none.safetensors"));
  CHECK_THAT(refusal(run_saved(settings, nullptr, {.out = other})), Contains("no objective"));
  const auto wider = bowl();
  wider->shape = ParameterLayout::flat(5, DType::f64);
  CHECK_THAT(refusal(run_saved(settings, wider, {.resume = out})), Contains("of 4 parameters"));
}

TEST_CASE("two runs are not saved in one folder") {
  const Scratch scratch;
  const Saving saving{.out = scratch.path("run")};
  std::string said;
  RunHooks hooks;
  hooks.sink.on_sample = [&](const RunSample&) {
    if (said.empty()) said = refusal(run_saved(run_alone(), bowl(), saving));
  };
  REQUIRE(run_saved(run_alone(), bowl(), saving, hooks));
  CHECK_THAT(said, Contains("another process has a run"));
}

TEST_CASE("what functions of the user's throw while a run is saved ends it, with its text") {
  const Scratch scratch;
  Saving saving{.out = scratch.path("a"), .checkpoint_every = "5steps"};
  saving.on_checkpoint = [](const std::string&) { throw std::runtime_error("not that one"); };
  Settings settings = short_run(Clock::simulated);
  settings.gradients = 0;  // it has no other end
  CHECK(refusal(run_saved(settings, bowl(), saving), 1) == "on_checkpoint failed: not that one");

  leave(short_run(Clock::simulated), scratch.path("b"), 100);
  RunHooks hooks;
  hooks.sink.on_event = [](const std::string&) { throw std::runtime_error("no news"); };
  CHECK(refusal(run_saved(settings, bowl(), {.resume = scratch.path("b")}, hooks), 1) ==
        "the sink's on_event failed: no news");

  class Shapeless final : public Bowl {
    const ParameterLayout& layout() const override { throw std::logic_error("no shape yet"); }
  };
  CHECK_THAT(
      refusal(run_saved(settings, std::make_shared<Shapeless>(), {.out = scratch.path("c")}), 1),
      Contains("failed: no shape yet"));
}

TEST_CASE("all ranks begin at the mean of a run that was saved") {
  const Scratch scratch;
  const std::string out = scratch.path("run");
  leave(short_run(Clock::simulated), out, 100);
  const auto warm = warm_start(out, 4, bowl());
  REQUIRE(warm);
  Buffer start(4, DType::f64), anew(4, DType::f64);
  (*warm)->initial_point(2, start);
  bowl()->initial_point(2, anew);
  for (size_t k = 0; k < 4; ++k) {
    CHECK(std::abs(start.vec().as<double>()[k]) < 0.9 * anew.vec().as<double>()[k]);
    CHECK(start.vec().as<double>()[k] != 0);
  }
  Settings settings = short_run(Clock::simulated);
  std::vector<double> first;
  RunHooks hooks;
  hooks.sink.on_sample = [&](const RunSample& sample) {
    if (first.empty()) first = *sample.mean;
  };
  REQUIRE(run_saved(settings, bowl(), {.init = out}, hooks));
  REQUIRE(first.size() == 4u);
  for (size_t k = 0; k < 4; ++k)
    CHECK(std::abs(first[k]) <= std::abs(start.vec().as<double>()[k]) * (1 + 1e-9));
}
