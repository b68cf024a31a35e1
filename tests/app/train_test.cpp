// grapevine train: what it prints, what it leaves behind, and how it stops.
#include <csignal>
#include <filesystem>
#include <sstream>

#include "messages/codec.hpp"
#include "tests/app/tools.hpp"
#include "tests/catch.hpp"

using namespace grapevine::test;

namespace {

const std::string kQuadratic = "train --objective quadratic --ranks 4 --gradients 400 --out ";

}  // namespace

TEST_CASE("train prints one object with every promised name, and where its run is") {
  const Scratch scratch;
  const auto run = json_of(kQuadratic + scratch.path("run") + " --gradients 20000");
  for (const char* name :
       {"accuracy", "worst_rank_accuracy", "seconds", "gradients", "gradients_per_second",
        "exchanges", "payload_bytes", "consensus_distance", "idle_fraction", "run_dir"})
    CHECK(run.contains(name));
  CHECK(run["gradients"] == 20000);
  CHECK(run["accuracy"].is_null());
  CHECK(run["idle_fraction"].size() == 4);
  CHECK(run["run_dir"] == scratch.path("run"));
  CHECK(run["payload_bytes"].get<double>() > 0);
  CHECK(run["payload_bytes"].get<double>() ==
        run["bytes"].get<double>() - grapevine::kHeaderBytes * run["messages"].get<double>());
}

TEST_CASE("a training that diverges says why and what to do, and so do its JSON and its record") {
  const Scratch scratch;
  const std::string slow = scratch.file("slow.toml", "[[fault]]\nkind = \"slow\"\nfactor = 1000\n");
  const std::string drifts =
      "--method choco --compress random-k:0.05 --dim 200 --zeta2 1 --lr 0.001 --ranks 8 "
      "--sample-seconds 0.02 --plan " +
      slow;
  struct Way {
    std::string name, options, reason, advice;
  };
  const Way ways[] = {
      {"drift", drifts, "drift apart without end; gamma is 1", "a smaller --gamma"},
      {"loss", "--ranks 2 --lr 1e9", "steps are too large", "a smaller --lr may help"}};
  for (const auto& [name, options, reason, advice] : ways) {
    const std::string out = scratch.path(name);
    const Ran ran = run_grapevine("train --objective quadratic --gradients 0 --until 500 --quiet " +
                                  options + " --json --out " + out);
    INFO(ran.err);
    CHECK(ran.status == 1);
    std::istringstream lines(ran.err);
    int alarms = 0;
    for (std::string line; std::getline(lines, line);) {
      const bool is_of_a_rank = line.find("the others pull it") != line.npos;
      if (line.find(" ALARM: at ") == line.npos || is_of_a_rank) continue;
      ++alarms;
      CHECK_THAT(line, Catch::Contains(reason) && Catch::Contains(advice));
    }
    CHECK(alarms == 1);
    const auto told = nlohmann::json::parse(ran.out, nullptr, false);
    REQUIRE(told.is_object());
    CHECK(told["diverged"] == true);
    const auto record = nlohmann::json::parse(text_of(out + "/run.json"));
    CHECK(record["state"] == "failed");
    CHECK(record["failure"]["by"] == "divergence");
    CHECK(record["result"]["diverged"] == true);
    CHECK_FALSE(exists(out + "/model.safetensors"));
  }
}

TEST_CASE("a run directory holds the options, the metrics, the curves and the averaged model") {
  const Scratch scratch;
  REQUIRE(run_grapevine(kQuadratic + scratch.path("run") + " --seed 7 --lr 0.5").status == 0);
  const auto paper = nlohmann::json::parse(text_of(scratch.path("run/run.json")));
  CHECK(paper["state"] == "finished");
  CHECK(paper["seed"] == 7);
  CHECK(paper["options"]["lr"] == 0.5);
  CHECK(paper["options"]["method"] == "a2cid2");
  CHECK(paper["versions"]["caf"].get<std::string>().size() > 0);
  CHECK(paper["result"]["gradients"] == 400);
  CHECK_THAT(text_of(scratch.path("run/curves.svg")), Catch::StartsWith("<svg"));
  CHECK(text_of(scratch.path("run/model.safetensors")).size() > 16 * 8);
  std::istringstream metrics(text_of(scratch.path("run/metrics.jsonl")));
  for (std::string line; std::getline(metrics, line);)
    CHECK_FALSE(nlohmann::json::parse(line, nullptr, false).is_discarded());
  for (const auto& entry : std::filesystem::directory_iterator(scratch.path("run")))
    CHECK(entry.path().extension() != ".part");
}

TEST_CASE("without --out a run goes to runs/, named by time, method, graph and seed") {
  const Scratch scratch;
  const Ran ran = run_grapevine(
      "train --objective quadratic --topology torus:2x2 --ranks 4 "
      "--seed 9 --gradients 40 --quiet --json",
      "cd " + scratch.path() + ";");
  REQUIRE(ran.status == 0);
  CHECK(ran.err == "");
  const std::string folder = nlohmann::json::parse(ran.out)["run_dir"];
  CHECK_THAT(folder, Catch::Matches("runs/[0-9]{8}T[0-9]{6}Z-a2cid2-torus-2x2-9"));
  CHECK(exists(scratch.path(folder + "/run.json")));
}

TEST_CASE("the table is for standard output, progress and events for standard error, in lines") {
  const Scratch scratch;
  const Ran ran = run_grapevine(kQuadratic + scratch.path("run") + " --gradients 20000");
  CHECK(ran.status == 0);
  for (const char* word : {"consensus distance", "gradients", "exchanges", "per edge", "bytes",
                           "idle time per rank", "run directory"})
    CHECK_THAT(ran.out, Catch::Contains(word));
  CHECK_THAT(ran.err, Catch::Contains("epoch 1: ring of 4, chi1"));
  CHECK_THAT(ran.err, !Catch::Contains("\r"));
}

TEST_CASE("consensus has no gradients and ends by time") {
  const Scratch scratch;
  const auto run = json_of("train --objective consensus --until 0.2 --out " + scratch.path("run"));
  CHECK(run["gradients"] == 0);
  CHECK(run["accuracy"].is_null());
}

TEST_CASE("Ctrl+C once drains and saves") {
  const Scratch scratch;
  for (const int signal : {SIGINT, SIGTERM}) {
    const std::string run = scratch.path(std::to_string(signal));
    Running job("train --objective quadratic --gradients 0 --until 1000 --out " + run);
    REQUIRE(job.wait_for("epoch 1"));
    job.signal(signal);
    CHECK(job.wait_for("stopping"));
    CHECK(job.end() == 0);
    CHECK(nlohmann::json::parse(text_of(run + "/run.json"))["state"] == "interrupted");
    CHECK(exists(run + "/model.safetensors"));
  }
}

TEST_CASE("Ctrl+C twice stops at once, and what is left does not look whole") {
  const Scratch scratch;
  const std::string run = scratch.path("run");
  Running job("train --objective quadratic --gradients 0 --until 1000 --out " + run);
  REQUIRE(job.wait_for("epoch 1"));
  job.signal(SIGSTOP);  // so that both arrive together
  job.signal(SIGINT);
  job.signal(SIGTERM);
  job.signal(SIGCONT);
  CHECK(job.end() == 130);
  const auto record = nlohmann::json::parse(text_of(run + "/run.json"));
  // Usually the lower number comes first; in two threads either may.
  CHECK((record["state"] == "interrupted" || record["state"] == "running"));
  CHECK_FALSE(record.contains("result"));
  CHECK_FALSE(exists(run + "/model.safetensors"));
  CHECK_FALSE(exists(run + "/metrics.jsonl"));
}

#ifdef GRAPEVINE_HAS_NETWORKS
TEST_CASE("a network learns from a small data set, on both clocks, and is saved for Python") {
  const Scratch scratch;
  write_optdigits(scratch, 320, 200);
  const std::string job =
      " --objective network --model mlp --dataset optdigits --ranks 4 "
      "--lr 0.05 --gradients 800 --data " +
      scratch.path() + " --out ";
  for (const std::string command : {"train", "simulate"}) {
    const auto run = json_of(command + job + scratch.path(command));
    CHECK(run["gradients"].get<int>() >= 800);
    CHECK(run["accuracy"].get<double>() > 0.8);
    CHECK(run["worst_rank_accuracy"].get<double>() > 0.8);
    CHECK(run["worst_rank_accuracy"] <= run["accuracy"].get<double>() + 0.05);
    CHECK(exists(scratch.path(command + "/model.safetensors")));
    CHECK(exists(scratch.path(command + "/model.pt")));
  }
}

TEST_CASE("the averaged model of a text writes on with the sample, on both clocks") {
  const Scratch scratch;
  std::string text;
  for (int k = 0; k < 200; ++k)
    text += "to be or not to be\n";
  const std::string job =
      " --objective network --model gpt:1x2x16,ctx=16 --optimizer adamw --beta2 0.99 --lr 0.01 "
      "--ranks 2 --topology chain --gradients 40 --batch 4 --dataset text:" +
      scratch.file("t.txt", text) + " --out ";
  for (const std::string command : {"train", "simulate"}) {
    INFO(command);
    const auto asked = [&](const char* out) {
      return command + job + scratch.path(command + out) + " --sample 'not to'";
    };
    const std::string written = json_of(asked("1"))["sample"];
    CHECK(written.size() == 6u + 300);
    CHECK(written.starts_with("not to"));
    CHECK_FALSE(json_of(command + job + scratch.path(command + "2")).contains("sample"));
    const Ran table = run_grapevine(asked("3"));
    CHECK_THAT(table.out, Catch::Contains("a sample of the averaged model\n  | not to"));
  }
  check_refused("train" + job + scratch.path("x") + " --sample NOT", 2,
                {"sample is \"NOT\"", "\"N\" does not occur in", "accepted: its characters"});
  CHECK_FALSE(exists(scratch.path("x")));
  check_refused("simulate --sample abc", 2, {"sample is \"abc\"", "no language model", "gpt-char"});
  check_refused("train" + job + scratch.path("x") + " --beta2 1", 2,
                {"beta2 is 1", "accepted: a number from 0 to 0.999999"});
}

TEST_CASE("an epoch is once through the data, on both clocks, whatever the gradients were") {
  const Scratch scratch;
  write_optdigits(scratch, 320, 200);
  for (const std::string command : {"train", "simulate"}) {
    INFO(command);
    const auto twice = json_of(command +
                               " --objective network --model mlp --dataset optdigits --ranks 4 "
                               "--batch 16 --gradients 800 --epochs 2 --data " +
                               scratch.path() + " --out " + scratch.path(command));
    CHECK(twice["gradients"].get<int>() >= 2 * 320 / 16);
    CHECK(twice["gradients"].get<int>() < 3 * 320 / 16);
  }
}

TEST_CASE("epochs are for objectives with data") {
  check_refused("simulate --objective quadratic --epochs 2", 2, {"epochs is 2", "no data"});
}
#endif
