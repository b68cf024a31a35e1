// grapevine simulate.
#include <sstream>

#include "tests/app/tools.hpp"
#include "tests/catch.hpp"

using namespace grapevine::test;

TEST_CASE("simulate prints one object with every promised name") {
  const auto run = json_of("simulate --ranks 8 --until 20 --seed 3");
  for (const char* name : {"seed", "exchanges", "gradients", "virtual_seconds", "events",
                           "events_per_second", "event_log_hash", "parameter_hash",
                           "consensus_distance", "conserved_sum_error", "idle_fraction"})
    CHECK(run.contains(name));
  CHECK(run["seed"] == 3);
  CHECK(run["idle_fraction"].size() == 8);
  CHECK(run["exchanges"] > 0);
  CHECK(run["virtual_seconds"].get<double>() <= 20);
  CHECK(run["conserved_sum_error"].get<double>() < 1e-11);
  CHECK(run["event_log_hash"].is_string());
}

TEST_CASE("one seed, two runs: the same event log and parameters; another seed: others") {
  for (const std::string job : {"simulate --ranks 8 --until 20 --latency 0.1 --jitter 0.5 ",
                                "simulate --objective quadratic --noise 1 --ranks 8 --until 20 "}) {
    const auto a = json_of(job + "--seed 5"), b = json_of(job + "--seed 5"),
               c = json_of(job + "--seed 6");
    CHECK(a["event_log_hash"] == b["event_log_hash"]);
    CHECK(a["parameter_hash"] == b["parameter_hash"]);
    CHECK(a["event_log_hash"] != c["event_log_hash"]);
    CHECK(a["parameter_hash"] != c["parameter_hash"]);
  }
}

TEST_CASE("a target ends the run once |pi x| has shrunk, and seeds give mean and deviation") {
  const auto run = json_of("simulate --ranks 8 --target 1e-2 --seeds 4");
  CHECK(run["reached_target"] == true);
  CHECK(run["pi_x_end"].get<double>() < 1e-2 * run["pi_x_start"].get<double>());
  const std::vector<double> each = run["exchanges_by_seed"];
  REQUIRE(each.size() == 4);
  CHECK(each[0] == run["exchanges"].get<double>());
  CHECK(each[0] != each[1]);
  double mean = 0, squares = 0;
  for (const double x : each)
    mean += x / 4;
  for (const double x : each)
    squares += (x - mean) * (x - mean);
  CHECK(run["exchanges_mean"].get<double>() == Approx(mean));
  CHECK(run["exchanges_sd"].get<double>() == Approx(std::sqrt(squares / 3)));
  CHECK(json_of("simulate --ranks 8 --target 1e-2 --seed 2")["exchanges"].get<double>() == each[1]);
}

TEST_CASE("a plan's reconfigurations are epochs with their constants") {
  const Scratch scratch;
  const std::string plan = scratch.file("plan.toml", std::string(R"(
[[fault]]
kind = "reconfigure"
at = 10
topology = "exponential"
[[fault]]
kind = "reconfigure"
at = 20
topology = "ring"
)"));
  const auto run = json_of("simulate --until 30 --plan " + plan);
  REQUIRE(run["epochs"].size() == 3);
  CHECK(run["epochs"][0]["topology"] == "ring");
  CHECK(run["epochs"][1]["topology"] == "exponential");
  CHECK(run["epochs"][1]["at"].get<double>() == Approx(10).margin(0.1));
  CHECK(run["epochs"][0]["chi1"] == run["epochs"][2]["chi1"]);
  CHECK(run["epochs"][1]["eta"].get<double>() > run["epochs"][0]["eta"].get<double>());
  CHECK(run["conserved_sum_error"].get<double>() < 1e-11);
}

TEST_CASE("with --out a simulation is written down: every line of its metrics is an object") {
  const Scratch scratch;
  const auto run =
      json_of("simulate --ranks 4 --until 10 --sample-seconds 1 --out " + scratch.path("run"));
  std::istringstream metrics(text_of(scratch.path("run/metrics.jsonl")));
  size_t samples = 0;
  for (std::string line; std::getline(metrics, line);)
    samples += nlohmann::json::parse(line).contains("learning_rate");
  CHECK(samples >= 10);
  CHECK(samples == run["samples"].size());
  const auto paper = nlohmann::json::parse(text_of(scratch.path("run/run.json")));
  CHECK(paper["state"] == "finished");
  CHECK(paper["result"]["event_log_hash"] == run["event_log_hash"]);
  CHECK(paper["options"]["ranks"] == 4);
  CHECK(paper["options"]["sample-seconds"] == 1);
}

TEST_CASE(
    "a run whose ranks drift apart is an alarm, with what to do, and ends by it with status 1") {
  const std::string job = "simulate --topology ring --ranks 30 --latency 0.4 --until 200 --quiet";
  const Ran ran = run_grapevine(job + " --json");
  INFO(ran.err);
  CHECK(ran.status == 1);
  CHECK(nlohmann::json::parse(ran.out)["diverged"] == true);
  CHECK_THAT(ran.err, Catch::Contains("exchanges overlap") && Catch::Contains("--pairing free"));
  const std::string last = ran.err.substr(ran.err.find('\n') + 1);
  CHECK_THAT(ran.err, Catch::Contains(" ALARM: " + last.substr(sizeof "grapevine: " - 1)));
  CHECK(std::count(last.begin(), last.end(), '\n') == 1);
  CHECK(json_of(job + " --pairing free")["diverged"] == false);
}
