// Tests of the model while it trains: who waits for them, what is kept, and when they end a run.
#include <atomic>
#include <csignal>
#include <fstream>
#include <limits>
#include <sstream>
#include <utility>

#include "app/options/every.hpp"
#include "app/run/execute.hpp"
#include "tests/app/tools.hpp"
#include "tests/catch.hpp"
#include "tests/eventually.hpp"

using namespace grapevine;
using namespace grapevine::test;

namespace {

using Case = std::pair<double, bool>;  // what is found, and what is said of it

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

TestPoint tested(double accuracy, double loss = 1, double validated = kNone) {
  return {1, 100, {loss, accuracy}, {kNone, validated}, false};
}

// The lines of metrics.jsonl that tell of a test.
std::vector<nlohmann::json> tests_in(const std::string& run) {
  std::vector<nlohmann::json> tests;
  std::istringstream lines(text_of(run + "/metrics.jsonl"));
  for (std::string line; std::getline(lines, line);)
    if (auto told = nlohmann::json::parse(line); told.contains("tested_at")) tests.push_back(told);
  return tests;
}

nlohmann::json best_of(const std::string& run) {
  return nlohmann::json::parse(text_of(run + "/best/best.json"));
}

/// Quadratics whose test ends only when the run has gone on meanwhile.
class Watched final : public Objective {
 public:
  explicit Watched(std::shared_ptr<Objective> of) : of_(std::move(of)) {}

  std::atomic<uint64_t> gradients{0}, samples{0}, exchanges{0};
  std::atomic<int> passed{0}, tester{-1};

  const ParameterLayout& layout() const override { return of_->layout(); }
  void initial_point(int rank, Vec x) const override { of_->initial_point(rank, x); }
  double gradient(int thread, int rank, uint64_t index, ConstVec x, Vec g) override {
    ++gradients;
    return of_->gradient(thread, rank, index, x, g);
  }
  Evaluation evaluate(int thread, int rank, ConstVec x) override {
    tester = thread;
    const uint64_t had = gradients, saw = samples, met = exchanges;
    passed += eventually(
        [&] { return gradients > had + 100 && samples > saw + 2 && exchanges > met + 10; });
    return of_->evaluate(thread, rank, x);
  }
  uint64_t gradients_per_pass(int) const override { return 0; }
  std::string description() const override { return "watched"; }
  Status save_model(const std::string&, ConstVec) override { return Done{}; }

 private:
  std::shared_ptr<Objective> of_;
};

}  // namespace

TEST_CASE("the best test is the one of most accuracy, or of least loss where there is none") {
  Judge by_accuracy(false, 0);
  for (const auto& [accuracy, is_best] :
       {Case{0.5, true}, Case{0.4, false}, Case{0.5, false}, Case{0.6, true}}) {
    TestPoint point = tested(accuracy);
    by_accuracy.see(point);
    CHECK(point.is_best == is_best);
  }
  CHECK(by_accuracy.best()->by == "test accuracy");
  CHECK(by_accuracy.best()->value == 0.6);
  Judge by_loss(false, 0);
  for (const auto& [loss, is_best] : {Case{kNone, false}, Case{2.0, true}, Case{2.5, false},
                                      Case{kNone, false}, Case{1.5, true}}) {
    TestPoint point = tested(kNone, loss);
    by_loss.see(point);
    CHECK(point.is_best == is_best);
  }
  CHECK(by_loss.best()->by == "test loss");
}

TEST_CASE("where samples are set aside they judge, and the test set is only told") {
  Judge judge(true, 0);
  TestPoint first = tested(0.5, 1, 0.7), second = tested(0.9, 1, 0.6);
  judge.see(first);
  judge.see(second);
  CHECK(first.is_best);
  CHECK_FALSE(second.is_best);
  CHECK(judge.best()->by == "validation accuracy");
  CHECK(judge.best()->value == 0.7);
}

TEST_CASE("it is enough after so many tests without a better one, counted anew after each") {
  Judge judge(false, 2);
  for (const auto& [accuracy, is_enough] :
       {Case{0.5, false}, Case{0.4, false}, Case{0.6, false}, Case{0.6, false}, Case{0.1, true}}) {
    TestPoint point = tested(accuracy);
    judge.see(point);
    CHECK(judge.is_enough() == is_enough);
  }
}

TEST_CASE("an earlier life's best counts only where it was judged by the same") {
  Judge same(false, 0, Score{"test accuracy", 0.9, true, 7});
  Judge other(true, 0, Score{"test accuracy", 0.9, true, 7});
  TestPoint point = tested(0.8, 1, 0.8);
  same.see(point);
  CHECK_FALSE(point.is_best);
  CHECK(same.best()->gradients == 7);
  other.see(point);
  CHECK(point.is_best);
  CHECK(other.best()->by == "validation accuracy");
}

TEST_CASE("how often is a time, steps, or never") {
  CHECK(every_of("x", "60s")->seconds == 60);
  CHECK(every_of("x", "1000steps")->steps == 1000);
  for (const char* never : {"", "0"})
    CHECK_FALSE(*every_of("x", never));
  for (const char* wrong : {"60", "s", "-1s", "0steps", "1e10s", "nans", "1.5steps"})
    CHECK(every_of("test-every", wrong).error().message ==
          "test-every is \"" + std::string(wrong) + "\", accepted: 60s, 1000steps or 0");
}

TEST_CASE("gradients, exchanges and samples go on while a test is under way") {
  Settings settings;
  settings.ranks = 4;
  settings.threads = 2;
  settings.gradients = 0;
  settings.sample_s = 0.01;
  settings.objective.objective = "quadratic";
  settings.objective.has_tester = true;
  auto made = make_objective_of(settings);
  REQUIRE(made);
  const auto objective = std::make_shared<Watched>(*made);
  std::atomic<int> interrupts{0};
  Watch watch;
  watch.interrupts = &interrupts;
  watch.tests.every = {1e-3, 0};
  watch.on_point = [&](const RunSample& point) {
    ++objective->samples;
    objective->exchanges = point.exchanges;
  };
  watch.tests.on_test = [&](const TestPoint&, const Score&) { interrupts += objective->passed; };
  settings.until_s = 100;
  const Summary summary = execute(settings, objective, watch);
  CHECK_FALSE(summary.failure);
  CHECK(objective->passed > 0);
  CHECK(objective->tester == 2);  // and no thread that computes
  CHECK(summary.interrupted);
  CHECK_FALSE(summary.tests.empty());
}

TEST_CASE("a run that is tested keeps the best model beside the last, and tells of each test") {
  const Scratch scratch;
  const std::string run = scratch.path("run");
  // Noise: the mean wanders about the optimum, so the last is not the best.
  const auto result = json_of(
      "simulate --objective quadratic --ranks 4 --noise 3 --lr 0.5 --until 200 --seed 5 "
      "--tensorboard --test-every 5steps --sample-seconds 5 --out " +
      run);
  const auto told = tests_in(run);
  REQUIRE(told.size() > 10);
  CHECK(told.size() == result["tests"].size());
  double least = told.front()["test_loss"];
  for (const auto& test : told) {
    const double loss = test["test_loss"];
    CHECK(test["best"] == (&test == &told.front() || loss < least));
    least = std::min(least, loss);
  }
  CHECK(result["best"]["by"] == "test loss");
  CHECK(result["best"]["value"] == least);
  CHECK(best_of(run)["value"] == least);
  CHECK(least < result["suboptimality"].get<double>());
  const auto paper = nlohmann::json::parse(text_of(run + "/run.json"));
  CHECK(paper["models"]["last"] == "model.safetensors");
  CHECK(paper["models"]["best"] == "best/model.safetensors");
  CHECK_THAT(text_of(run + "/curves.svg"), Catch::Contains("test loss"));
  // The best model is the one that was judged.
  const auto again = json_of(
      "simulate --objective quadratic --ranks 4 --lr 1e-300 --gradients 4 --until 0 --seed 5 "
      "--init " +
      run + "/best");
  CHECK(again["suboptimality"].get<double>() == Approx(least).epsilon(1e-9));
}

TEST_CASE("a run ends early where tests find nothing better, on both clocks, and says so once") {
  const Scratch scratch;
  for (const std::string command : {"train", "simulate"}) {
    const std::string run = scratch.path(command);
    const Ran ran = run_grapevine(
        command +
        " --objective quadratic --ranks 4 --lr 0 --gradients 0 --until 60 --test-every 0.05s "
        "--sample-seconds 0.05 --early-stop 2 --json --out " +
        run);
    INFO(ran.err);
    REQUIRE(ran.status == 0);
    const auto result = nlohmann::json::parse(ran.out);
    CHECK(result["stopped_early"] == true);
    CHECK(result["interrupted"] == false);
    CHECK(result[command == "train" ? "seconds" : "virtual_seconds"] < 60);
    CHECK(tests_in(run).size() >= 3);
    CHECK(nlohmann::json::parse(text_of(run + "/run.json"))["state"] == "finished");
    const std::string says = "no better result in 2 tests: the run ends; the best was test loss";
    const size_t first = ran.err.find(says);
    CHECK(first != std::string::npos);
    CHECK(ran.err.find(says, first + 1) == std::string::npos);
  }
}

TEST_CASE("the life of a run that goes on keeps what was the best before") {
  const Scratch scratch;
  const std::string run = scratch.path("run");
  const std::string job =
      "train --objective quadratic --ranks 4 --lr 0 --gradients 0 --until 1000 --test-every 0.05s "
      "--sample-seconds 0.05 --out " +
      run;
  for (int life = 0; life < 2; ++life) {
    const size_t before = text_of(run + "/metrics.jsonl").size();  // of the life before
    const auto has_tested = [&] {
      return text_of(run + "/metrics.jsonl.part").find("tested_at", before) != std::string::npos;
    };
    Running running(job);
    if (life > 0) REQUIRE(running.wait_for("resumes from"));
    REQUIRE(running.wait_for("epoch"));
    REQUIRE(eventually(has_tested, kBusyMachine));
    running.signal(SIGTERM);
    CHECK(running.end() == 0);
    if (life > 0) break;
    auto best = best_of(run);
    best["value"] = -1;  // that no model has
    std::ofstream(run + "/best/best.json") << best.dump();
  }
  CHECK(best_of(run)["value"] == -1);
  const auto record = nlohmann::json::parse(text_of(run + "/run.json"));
  CHECK(record["result"]["best"]["value"] == -1);
}

TEST_CASE("what tests cannot do is refused in a line") {
  const std::string job = "simulate --objective quadratic --ranks 4 --until 10 ";
  check_refused(job + "--test-every 10", 2, {"test-every is \"10\"", "accepted: 60s, 1000steps"});
  check_refused(job + "--early-stop 3", 2,
                {"early-stop is 3 without test-every", "accepted: 0, or both"});
  check_refused(job + "--test-every 5steps", 2, {"test-every is \"5steps\"", "sample-seconds 0"});
  check_refused(job + "--test-every 5s --early-stop 3 --seeds 2", 2, {"early-stop is 3", "seeds"});
  check_refused("simulate --test-every 5s", 2, {"test-every", "consensus", "has no loss"});
  check_refused("node --guests 1 --no-save --test-every 5s", 2, {"test-every", "scripts test"});
  check_refused(job + "--validation-split 0.1", 2, {"validation-split is 0.1", "has no data"});
  for (const char* split : {"1", "-0.1", "nan"})
    check_refused(job + "--validation-split " + split, 2,
                  {"validation-split is", "accepted: from 0 to below 1"});
}

#ifdef GRAPEVINE_HAS_NETWORKS
TEST_CASE("samples set aside judge a network, whose best model is the one that they judged") {
  const Scratch scratch;
  write_optdigits(scratch, 320, 200);
  const std::string network =
      "simulate --objective network --model mlp --dataset optdigits --ranks 4 --validation-split "
      "0.25 --data " +
      scratch.path() + " ";
  const std::string run = scratch.path("run");
  const auto result = json_of(
      network + "--gradients 400 --lr 0.05 --test-every 10steps --sample-seconds 5 --out " + run);
  CHECK(result["tests"].size() > 5);
  CHECK(result["best"]["by"] == "validation accuracy");
  for (const auto& test : result["tests"]) {
    CHECK(test["validation_accuracy"].is_number());
    CHECK(test["validation_loss"].is_number());
    CHECK(test["accuracy"].is_number());
  }
  const auto again = json_of(network + "--gradients 4 --lr 1e-300 --init " + run + "/best");
  CHECK(again["validation_accuracy"] == result["best"]["value"]);
  const std::string long_run = scratch.path("long");
  const auto trained = json_of(
      "train --objective network --model mlp --dataset optdigits --ranks 4 --gradients 4000 "
      "--sample-seconds 0.02 --test-every 0.02s --validation-split 0.25 --data " +
      scratch.path() + " --out " + long_run);
  CHECK(tests_in(long_run).size() >= 2);
  CHECK(trained["validation_accuracy"].get<double>() > 0.5);
  CHECK(exists(long_run + "/best/model.pt"));
}
#endif
