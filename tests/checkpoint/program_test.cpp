// Checkpoints and resumption as users meet them: the built program, killed for real.
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <grapevine/checkpoint.hpp>
#include <set>

#include "app/checkpoint/checkpoint_reader.hpp"
#include "app/checkpoint/go_on.hpp"
#include "app/checkpoint/real_disk.hpp"
#include "app/checkpoint/resume.hpp"
#include "app/options/options.hpp"
#include "app/run/interrupts.hpp"
#include "app/system/folder_lock.hpp"
#include "kernels/base/random.hpp"
#include "kernels/passes/ops.hpp"
#include "models/files/model_file.hpp"
#include "tests/app/tools.hpp"
#include "tests/catch.hpp"
#include "tests/eventually.hpp"
#include "tests/skipped.hpp"

using namespace grapevine::test;
using grapevine::kBusyMachine;

namespace {

namespace fs = std::filesystem;

const std::string kRun = "--objective quadratic --ranks 4 --seed 3 --noise 0.1 ";

nlohmann::json record_of(const std::string& run) {
  return nlohmann::json::parse(text_of(run + "/run.json"));
}

std::vector<std::string> checkpoints_of(const std::string& run) {
  std::vector<std::string> found;
  std::error_code none;
  for (fs::directory_iterator at(run + "/checkpoints", none), end; !none && at != end; ++at)
    if (fs::exists(at->path() / "manifest.json")) found.push_back(at->path());
  std::sort(found.begin(), found.end());
  return found;
}

// Null where there is none, or where it was tidied while it was read.
nlohmann::json newest_of(const std::string& run) {
  const auto kept = checkpoints_of(run);
  if (kept.empty()) return {};
  const std::string text = text_of(kept.back() + "/manifest.json");
  auto manifest = nlohmann::json::parse(text, nullptr, false);
  return manifest.is_discarded() ? nlohmann::json() : manifest;
}

// The nodes of a launch that was killed end a moment later, and until then they may rename files.
void await_end_in(const std::string& folder) {
  const auto gone = grapevine::FolderLock::take(folder, kBusyMachine.count());
  REQUIRE(gone);
  REQUIRE(gone->has_value());
}

// Two nodes with `ranks` ranks each, which SIGTERM ends once both have a checkpoint.
void launch_until_saved(int ranks, const std::string& run) {
  Running launch("launch --nodes 2 --ranks " + std::to_string(ranks) +
                 " --objective quadratic --gradients 0 --until 600 --checkpoint-every 0.1s --out " +
                 run);
  for (const char* node : {"/node-0", "/node-1"})
    REQUIRE(grapevine::eventually([&] { return !newest_of(run + node).is_null(); }, kBusyMachine));
  launch.signal(SIGTERM);
  CHECK(launch.end() == 0);
}

void overwrite(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

}  // namespace

TEST_CASE(
    "one rank on the virtual clock goes on from its checkpoint to the same bits, by the program") {
  const Scratch scratch;
  const std::string run = scratch.path("run"), other = scratch.path("other");
  const std::string job =
      "simulate --objective quadratic --ranks 1 --noise 0.1 --gradients 300 "
      "--momentum 0.9 --schedule cosine --lr 0.01 --seed 5 ";
  const auto whole = json_of(job + "--checkpoint-every 40s --out " + run);
  const auto kept = checkpoints_of(run);
  REQUIRE(kept.size() == 3);
  const auto resumed = json_of("simulate --resume " + kept.front() + " --out " + other);
  CHECK(resumed["parameter_hash"] == whole["parameter_hash"]);
  CHECK(resumed["gradients"] == 300);
  CHECK(resumed["resumed_at"].get<int>() > 0);
  CHECK(record_of(other)["options"]["lr"] == 0.01);
  const auto manifest = nlohmann::json::parse(text_of(kept.front() + "/manifest.json"));
  CHECK(manifest["ranks"][0]["gradients"] == resumed["resumed_at"]);
  CHECK(manifest["ranks"][0]["file"] == "rank-0.safetensors");
}

TEST_CASE("the schedule of a run by time goes on after the time that earlier lives have trained") {
  const Scratch scratch;
  const std::string run = scratch.path("run"), again = scratch.path("again");
  json_of(
      "simulate --objective quadratic --ranks 4 --gradients 0 --until 100 --schedule step "
      "--lr 0.1 --warmup 0 --sample-seconds 1 --checkpoint-every 40s --out " +
      run);
  const auto rates_of = [](const std::string& of) {
    std::set<double> rates;
    std::ifstream lines(of + "/metrics.jsonl");
    for (std::string line; std::getline(lines, line);) {
      const auto rate = nlohmann::json::parse(line).value("learning_rate", nlohmann::json());
      if (rate.is_number()) rates.insert(std::round(1e6 * rate.get<double>()) / 1e6);
    }
    return rates;
  };
  CHECK(rates_of(run) == std::set{0.1, 0.01, 0.001});
  const auto kept = checkpoints_of(run);
  REQUIRE(kept.size() == 2);
  CHECK(newest_of(run)["trained_seconds"] == 80.0);
  // 80 of 100 s, and of a run that is made longer 80 of 180 s.
  json_of("simulate --until 20 --sample-seconds 1 --checkpoint-every 4s --resume " + kept.back() +
          " --out " + again);
  CHECK(rates_of(again) == std::set{0.001});
  CHECK(newest_of(again)["trained_seconds"].get<double>() > 90);  // of both lives
  const std::string longer = scratch.path("longer");
  json_of("simulate --until 100 --sample-seconds 1 --resume " + kept.back() + " --out " + longer);
  CHECK(rates_of(longer) == std::set{0.1, 0.01, 0.001});
}

TEST_CASE("what the program has saved goes on in a program of a user's own, to the same bits") {
  const Scratch scratch;
  const std::string run = scratch.path("run");
  const auto whole = json_of(
      "simulate --objective quadratic --ranks 1 --noise 0.1 --gradients 300 --momentum 0.9 "
      "--weight-decay 0 --schedule cosine --warmup 0.05 --lr 0.01 --seed 5 --pacing greedy "
      "--checkpoint-every 40s --out " +
      run);
  grapevine::Settings settings;
  settings.clock = grapevine::Clock::simulated;
  settings.ranks = 1;
  settings.gradients = 300;
  settings.seed = 5;
  settings.lr.peak = 0.01;
  settings.rule.optimizer = {0.9, 0};
  settings.objective.objective = "quadratic";
  settings.objective.noise = 0.1;
  const auto went_on = grapevine::run_saved(
      settings, {.out = scratch.path("mine"), .resume = checkpoints_of(run)[0]});
  REQUIRE(went_on);
  CHECK(whole["parameter_hash"] ==
        fmt::format("{:016x}", grapevine::parameter_hash(went_on->outcome)));
}

TEST_CASE("a run that is killed at any moment goes on when its command is given again") {
  const char* wanted = std::getenv("GRAPEVINE_KILLS");
  const int kills = wanted != nullptr ? std::atoi(wanted) : 10;
  const Scratch scratch;
  const std::string run = scratch.path("run");
  const std::string job = "train " + kRun +
                          "--dim 4000 --gradients 0 --until 1000 "
                          "--checkpoint-every 100steps --out " +
                          run;
  grapevine::Random random(1, 0, grapevine::Purpose::test);
  uint64_t before = 0;
  for (int kill = 0; kill < kills; ++kill) {
    INFO("kill " << kill);
    Running life(job);
    REQUIRE(life.wait_for(kill == 0 ? "epoch" : before > 0 ? "resumes from" : "in this folder"));
    for (uint32_t more = 1 + random.below(4); more > 0; --more) {  // it sees a few of them
      const auto kept = checkpoints_of(run);
      REQUIRE(grapevine::eventually([&] { return checkpoints_of(run) != kept; }, kBusyMachine));
    }
    for (uint32_t k = random.below(2000000); k > 0; --k)
      std::atomic_signal_fence(std::memory_order_seq_cst);
    life.signal(SIGKILL);
    CHECK(life.end() == 128 + SIGKILL);
    const auto kept = checkpoints_of(run);
    REQUIRE_FALSE(kept.empty());
    const uint64_t now = std::stoull(fs::path(kept.back()).filename().string());
    CHECK(now >= before);
    before = now;
  }
  const auto end = json_of("train --resume " + run + " --until 0.1");
  CHECK(end["resumed_at"].get<uint64_t>() >= before);
  CHECK(record_of(run)["state"] == "finished");
  check_refused("train --resume " + run, 2, {"has finished"});
}

TEST_CASE(
    "SIGTERM saves the run, and the same command goes on; after Ctrl+C it does not by itself") {
  const Scratch scratch;
  const std::string run = scratch.path("run");
  const std::string job = "train " + kRun + "--gradients 0 --until 1000 --out " + run;
  {
    Running life(job);
    REQUIRE(life.wait_for("epoch 1"));
    life.signal(SIGTERM);
    CHECK(life.end() == 0);
    CHECK(record_of(run)["preempted"] == true);
    CHECK(checkpoints_of(run).size() == 1);
  }
  check_refused(job + " --lr 0.7", 2, {"lr is 0.7", "the run in out", "has 0.1"});
  {
    Running life(job);
    REQUIRE(life.wait_for("resumes from"));
    check_refused(job, 2, {"in which another process has its run"});
    life.signal(SIGINT);
    CHECK(life.end() == 0);
  }
  check_refused(job, 2, {"holds a run already"});
  const auto more = json_of("train --resume " + run + " --until 0.1");
  CHECK(more["resumed_at"].get<uint64_t>() > 0);
}

TEST_CASE("a run that was ended by Ctrl+C once or twice does not go on by itself") {
  const Scratch scratch;
  const std::string run = scratch.path("run");
  const std::string job = "train " + kRun + "--gradients 0 --out " + run + " --until ";
  Running life(job + "1000");
  REQUIRE(life.wait_for("epoch 1"));
  life.signal(SIGINT);
  REQUIRE(life.wait_for("stopping"));
  // From now on any moment may be the last.
  const auto record = record_of(run);
  CHECK(record["state"] == "interrupted");
  CHECK(record["options"]["until"] == 1000);
  life.signal(SIGKILL);
  life.end();
  check_refused(job + "1", 2, {"holds a run already"});
}

TEST_CASE("a second Ctrl+C ends a process at once, and its note of the first stays") {
  const Scratch scratch;
  const std::string path = scratch.file("run.json", "running");
  const pid_t child = fork();
  if (child == 0) {
    grapevine::count_interrupts({});
    const grapevine::InterruptNote note(path, "interrupted");
    raise(SIGINT);
    if (text_of(path) == "interrupted") raise(SIGINT);
    _exit(1);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WEXITSTATUS(status) == grapevine::kInterrupted);
  CHECK(text_of(path) == "interrupted");
  CHECK_FALSE(exists(path + ".interrupt"));
}

TEST_CASE("an interrupt is told, unless the log is quiet or has no events") {
  using grapevine::LogLevel;
  for (const auto& log : std::vector<grapevine::LogOptions>{
           {}, {.quiet = true}, {.level = LogLevel::warning}, {.level = LogLevel::none}}) {
    const bool is_told = !log.quiet && log.level == LogLevel::info;
    int ends[2];
    REQUIRE(pipe(ends) == 0);
    const pid_t child = fork();
    if (child == 0) {
      dup2(ends[1], STDERR_FILENO);
      grapevine::count_interrupts(log);
      raise(SIGINT);
      _exit(grapevine::interrupts() == 1 ? 0 : 1);
    }
    close(ends[1]);
    char some[256];
    CHECK((read(ends[0], some, sizeof some) > 0) == is_told);
    close(ends[0]);
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(status == 0);
  }
}

TEST_CASE("two SIGTERM or SIGUSR2, from a scheduler and from its launcher, are one request") {
  for (const int first : {SIGTERM, SIGUSR2}) {
    INFO("signal " << first);
    const pid_t child = fork();
    if (child == 0) {
      grapevine::count_interrupts({});
      raise(first);
      raise(SIGTERM);
      _exit(grapevine::interrupts() == 1 && grapevine::terminated() ? 0 : 1);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0);
  }
}

TEST_CASE("a run that the machine made fail goes on by itself, after Ctrl+C it does not") {
  const Scratch scratch;
  for (const int signal : {SIGTERM, SIGINT}) {
    const std::string run = scratch.path(std::to_string(signal));
    const std::string job = "train " + kRun + "--gradients 0 --out " + run + " --until ";
    Running life(job + "1000");
    REQUIRE(life.wait_for("epoch 1"));
    fs::create_directories(run + "/model.safetensors/in the way");
    life.signal(signal);
    CHECK(life.end() == 1);
    const auto record = record_of(run);
    CHECK(record["state"] == "failed");
    CHECK(record["failure"]["by"] == (signal == SIGTERM ? "world" : "interrupt"));
    CHECK_THAT(record["failure"]["line"].get<std::string>(), Catch::Contains("model.safetensors"));
    fs::remove_all(run + "/model.safetensors");
    if (signal == SIGINT) {
      check_refused(job + "0.1", 2, {"holds a run already"});
      continue;
    }
    const Ran again = run_grapevine(job + "0.1");
    CHECK(again.status == 0);
    CHECK_THAT(again.err, Catch::Contains("resumes from"));
    CHECK(record_of(run)["state"] == "finished");
    CHECK_FALSE(record_of(run).contains("failure"));
  }
}

TEST_CASE("a run that has diverged is refused with status 2, so that no unit starts it for ever") {
  const Scratch scratch;
  const std::string run = scratch.path("run");
  const std::string job =
      "simulate --topology ring --ranks 30 --latency 0.4 --until 200 --checkpoint-every 100s "
      "--out " +
      run;
  const Ran ran = run_grapevine(job);
  CHECK(ran.status == 1);
  CHECK(record_of(run)["failure"]["by"] == "divergence");
  REQUIRE_FALSE(checkpoints_of(run).empty());
  check_refused(job, 2, {"it failed and would fail again", "exchanges overlap", "another folder"});
}

TEST_CASE("SIGUSR1 takes a checkpoint of a run that goes on") {
  const Scratch scratch;
  const std::string run = scratch.path("run");
  Running life("train " + kRun + "--gradients 0 --until 1000 --out " + run);
  REQUIRE(life.wait_for("epoch 1"));
  life.signal(SIGUSR1);
  REQUIRE(grapevine::eventually([&] { return !checkpoints_of(run).empty(); }, kBusyMachine));
  life.signal(SIGINT);
  CHECK(life.end() == 0);
  CHECK(record_of(run)["state"] == "interrupted");
}

TEST_CASE(
    "an option that contradicts the run's record is refused by name, one that does not is taken") {
  const Scratch scratch;
  const std::string run = scratch.path("run");
  json_of("simulate " + kRun + "--gradients 400 --until 0 --checkpoint-every 20s --out " + run);
  const std::string from = checkpoints_of(run).front(), out = " --out " + scratch.path("other");
  check_refused("simulate --lr 0.3 --resume " + from + out, 2, {"lr is 0.3", "whose run has 0.1"});
  check_refused("simulate --method ad_psgd --resume " + from + out, 2, {"method", "a2cid2"});
  check_refused("simulate --resume " + from + out + " --seeds 3", 2, {"seeds is 3"});
  const auto same = json_of("simulate --lr 1e-1 --resume " + from + out);
  CHECK(same["gradients"] == 400);
  check_refused("simulate --topology complete --resume " + from + out + "2", 2, {"topology"});
  const auto more = json_of("simulate --ranks 8 --topology complete --resume " + from + out + "3");
  CHECK(more["gradients"] == 400);
  CHECK(more["gradients_by_rank"].size() == 8);
  CHECK(more["resumed_at"] > 0);
  CHECK(record_of(scratch.path("other3"))["options"]["topology"] == "complete");
}

TEST_CASE("what cannot be gone on from is told in one line, with status 2") {
  const Scratch scratch;
  const std::string run = scratch.path("run"), out = " --out " + scratch.path("other");
  check_refused("train --resume " + scratch.path("none"), 2, {"has no checkpoint"});
  json_of("simulate " + kRun + "--gradients 40 --until 0 --out " + scratch.path("short"));
  check_refused("simulate --resume " + scratch.path("short"), 2, {"has finished without"});
  json_of("simulate " + kRun + "--gradients 400 --until 0 --checkpoint-every 20s --out " + run);
  const auto kept = checkpoints_of(run);
  REQUIRE(kept.size() == 3);
  check_refused("simulate --resume " + run, 2, {"has finished"});
  // A flipped bit of the newest passes it over; of the one that is named it is an error.
  std::string rank = text_of(kept[2] + "/rank-1.safetensors");
  rank[rank.size() / 2] ^= 4;
  overwrite(kept[2] + "/rank-1.safetensors", rank);
  const Ran passed = run_grapevine("simulate --resume " + run + out);
  CHECK(passed.status == 0);
  CHECK_THAT(passed.err, Catch::Contains("skipped") && Catch::Contains("rank-1.safetensors"));
  check_refused("simulate --resume " + kept[2], 2, {"rank-1.safetensors", "hash differs"});
  // Another model's rank files under this manifest; then another model's manifest.
  std::string manifest = text_of(kept[1] + "/manifest.json");
  auto other = nlohmann::json::parse(manifest);
  other["job"] = "0123456789abcdef";
  other["job_is"] = "d_psgd of 7 parameters";
  overwrite(kept[1] + "/manifest.json", grapevine::sealed(other.dump()));
  check_refused("simulate --resume " + kept[1] + out + "2", 2,
                {"a checkpoint of d_psgd of 7 parameters"});
  other["format"] = 2;
  overwrite(kept[1] + "/manifest.json", grapevine::sealed(other.dump()));
  for (const std::string& from : {kept[1], run})
    check_refused("simulate --resume " + from + out + "3", 2,
                  {kept[1] + "/manifest.json has format 2, accepted: 1"});
  check_refused("simulate --init " + kept[1], 2, {"has format 2, accepted: 1"});
}

TEST_CASE("a disk that is full is an alarm, and the run goes on to its end") {
  const Scratch scratch;
  const std::string run = scratch.path("run");
  const Ran ran = run_grapevine("simulate " + kRun +
                                    "--dim 20000 --gradients 200 --until 0 "
                                    "--checkpoint-every 10s --out " +
                                    run,
                                "ulimit -f 500;");
  CHECK(ran.status == 0);
  CHECK(record_of(run)["state"] == "finished");
  CHECK_THAT(ran.err,
             Catch::Contains("ALARM: at ") && Catch::Contains(" s no checkpoint: cannot write"));
  CHECK_THAT(ran.err, Catch::Contains("File too large"));
  CHECK(checkpoints_of(run).empty());
}

TEST_CASE("a folder of checkpoints that cannot be written is an alarm, and the run finishes") {
  const Scratch scratch;
  const std::string run = scratch.path("run");
  const Ran ran = run_grapevine("simulate " + kRun +
                                    "--gradients 200 --until 0 --checkpoint-every "
                                    "10s --out " +
                                    run,
                                "mkdir -p " + run + "; touch " + run + "/checkpoints;");
  CHECK(ran.status == 0);
  CHECK_THAT(ran.err,
             Catch::Contains("ALARM: at ") && Catch::Contains(" s no checkpoint: cannot write"));
  CHECK(record_of(run)["state"] == "finished");
}

TEST_CASE(
    "under the wall clock, too, a disk that fails is an alarm told once, and training goes on") {
  const Scratch scratch;
  const std::string full = scratch.path("full"), closed = scratch.path("closed");
  fs::create_directories(closed);
  overwrite(closed + "/checkpoints", "no folder");
  for (const std::string& run : {full, closed}) {
    INFO(run);
    const SmallFiles small(run == full ? 50000 : RLIM_INFINITY);
    const std::string alarm = "no checkpoint: cannot";
    Running life("train " + kRun +
                 "--dim 4000 --gradients 0 --until 60 --checkpoint-every 20steps --out " + run);
    REQUIRE(life.wait_for(alarm));
    const auto samples = [&] {
      const std::string text = text_of(run + "/metrics.jsonl.part");
      return std::count(text.begin(), text.end(), '\n');
    };
    const auto before = samples();
    CHECK(grapevine::eventually([&] { return samples() > before + 1; }, kBusyMachine));
    life.signal(SIGTERM);
    CHECK_FALSE(life.wait_for("ALARM"));
    CHECK(life.end() == 1);  // nothing to resume from
    CHECK(record_of(run)["state"] == "interrupted");
    CHECK(record_of(run)["result"]["gradients"] > 80);
    CHECK(checkpoints_of(run).empty());
    CHECK(exists(run + "/model.safetensors"));
  }
}

TEST_CASE(
    "the package safetensors opens every file of a checkpoint's ranks, or its absence is said") {
  const Scratch scratch;
  const std::string run = scratch.path("run");
  json_of("simulate " + kRun +
          "--optimizer adam --gradients 200 --until 0 --checkpoint-every 20s --out " + run);
  const Ran read = run_command("PYTHONPATH=" GRAPEVINE_SOURCE_DIR
                               "/.deps/modules:$PYTHONPATH python3 " GRAPEVINE_SOURCE_DIR
                               "/tests/checkpoint/rank_files.py " +
                               checkpoints_of(run).front());
  INFO(read.out << read.err);
  if (read.status == 77 || read.status == 127)
    return skipped("no safetensors here, so it did not open the files of ranks");
  CHECK(read.status == 0);
  CHECK_THAT(read.out, Catch::Contains("safetensors opened rank-3.safetensors"));
}

TEST_CASE("a warm start begins at another run's model, a file, or the mean of a checkpoint") {
  const Scratch scratch;
  const std::string run = scratch.path("run");
  const std::string job = "simulate --objective quadratic --ranks 4 --seed 3 --zeta2 1 ";
  const auto first = json_of(job + "--gradients 800 --until 0 --checkpoint-every 50s --out " + run);
  const double off = first["suboptimality"];
  const std::string still = job + "--lr 1e-300 --gradients 8 --until 0 ";
  CHECK(json_of(still)["suboptimality"].get<double>() > 100 * off);
  for (const std::string& from : {run, run + "/model.safetensors"})
    CHECK(json_of(still + "--init " + from)["suboptimality"].get<double>() == Approx(off));
  const std::string earlier = checkpoints_of(run).front();
  const double before = json_of(still + "--init " + earlier)["suboptimality"];
  CHECK(before < 100 * off + 1);
  CHECK(before != off);
  check_refused(still + "--init " + scratch.path("none"), 2, {"none"});
  const Ran other = run_grapevine(job + "--dim 17 --init " + run);
  CHECK(other.status == 2);
  CHECK_THAT(other.err, Catch::Contains("tensor x has shape [16], accepted: [17]"));
  CHECK_THAT(other.err, Catch::Contains("of which 1 tensor does not fit the model"));
  const Ran of_checkpoint = run_grapevine(job + "--dim 17 --init " + earlier);
  CHECK(of_checkpoint.status == 2);
  CHECK_THAT(of_checkpoint.err, Catch::Contains("tensor x has shape [16], accepted: [17]"));
  CHECK_THAT(of_checkpoint.err, Catch::Contains("of which 1 tensor does not fit the model"));
  // An older program's manifest tells no shapes.
  auto manifest = nlohmann::json::parse(text_of(earlier + "/manifest.json"));
  manifest.erase("tensors");
  overwrite(earlier + "/manifest.json", grapevine::sealed(manifest.dump()));
  check_refused(job + "--dim 17 --init " + earlier, 2, {"a checkpoint of a2cid2 of 16 parameters"});
  check_refused("simulate --resume " + earlier + " --init " + run, 2, {"init", "with resume"});
  check_refused("node --guests 1 --no-save --init " + run, 2, {"init", "with guests"});
}

namespace {

struct TornEdges {
  std::vector<std::string> names;
  double moved = 0;
};

// Of the manifests of all ranks: whose ends have not had the same exchanges.
TornEdges torn_in(const std::vector<nlohmann::json>& manifests) {
  std::map<std::pair<int, int>, nlohmann::json> ends;
  for (const auto& manifest : manifests)
    for (const auto& rank : manifest["ranks"])
      for (const auto& edge : rank["edges"])
        ends[{rank["rank"], edge["peer"]}] = edge;
  TornEdges torn;
  for (const auto& [edge, end] : ends) {
    const auto other = ends.find({edge.second, edge.first});
    const bool is_known = other != ends.end();
    const uint64_t theirs = is_known ? other->second["exchanges"].get<uint64_t>() : 0;
    if (end["exchanges"] <= theirs) continue;
    torn.names.push_back(fmt::format("{}-{}", edge.first, edge.second));
    torn.moved +=
        end["moved"].get<double>() - (is_known ? other->second["moved"].get<double>() : 0.0);
  }
  return torn;
}

std::string text_of(const std::vector<std::string>& lines) {
  return fmt::format("{}\n", fmt::join(lines, "\n"));
}

// The number behind these words of a line.
double number_after(const std::string& text, const std::string& words) {
  const size_t at = text.find(words);
  REQUIRE(at != text.npos);
  return std::stod(text.substr(at + words.size()));
}

}  // namespace

TEST_CASE("a whole run that comes back prints which edges were torn, and a bound of the drift") {
  const Scratch scratch;
  const std::string run = scratch.path("run");
  json_of("simulate " + kRun +
          "--ranks 8 --topology ring --pairing free --speed-spread 0.5 --transfer 0.3 "
          "--latency 0.2 --jitter 0.9 --gradients 800 --until 0 --checkpoint-every 7.3s --out " +
          run);
  size_t torn_ones = 0, checkpoints = 0;
  for (const std::string& from : checkpoints_of(run)) {
    const TornEdges torn = torn_in({nlohmann::json::parse(text_of(from + "/manifest.json"))});
    const Ran ran = run_grapevine("simulate --resume " + from + " --out " +
                                  scratch.path("more" + std::to_string(checkpoints++)));
    INFO(ran.err);
    CHECK(ran.status == 0);
    CHECK_THAT(ran.err, !Catch::Contains("it is unknown whether"));
    if (torn.names.empty()) continue;
    ++torn_ones;
    const double told =
        number_after(ran.err, "the sum that gossip conserves has an error of at most ");
    CHECK(told >= torn.moved);
    CHECK(told <= 1.02 * torn.moved);
    for (const std::string& edge : torn.names)
      CHECK_THAT(ran.err, Catch::Contains(edge));
  }
  CHECK(torn_ones > 0);
}

TEST_CASE("of rounds it is told how far ranks were apart, and of push-sum what the weights are") {
  const Scratch scratch;
  const std::string run = scratch.path("run");
  json_of("simulate " + kRun +
          "--ranks 8 --topology ring --method sgp --speed-spread 0.5 --transfer 0.3 --latency 0.5 "
          "--jitter 0.9 --gradients 800 --until 0 --checkpoint-every 7.3s --out " +
          run);
  const std::string from = checkpoints_of(run).front();
  const Ran ran = run_grapevine("simulate --resume " + from + " --out " + scratch.path("more"));
  INFO(ran.err);
  CHECK(ran.status == 0);
  auto checkpoint = grapevine::load_checkpoint(grapevine::real_disk(), from);
  REQUIRE(checkpoint);
  uint64_t least = ~uint64_t{0}, most = 0;
  for (const auto& rank : checkpoint->ranks) {
    least = std::min(least, rank->gradients);
    most = std::max(most, rank->gradients);
  }
  REQUIRE(most - least == 1);
  CHECK_THAT(ran.err, Catch::Contains("up to 1 round ahead of the slowest rank"));
  CHECK_THAT(ran.err, !Catch::Contains("weights"));
  // As if a half of a rank's mass had been under way.
  const auto half = std::make_shared<grapevine::RankRecord>();
  half->gradients = checkpoint->ranks[0]->gradients;
  half->statistics = grapevine::Buffer(0, grapevine::DType::f32);
  half->numbers = checkpoint->ranks[0]->numbers;
  for (auto& number : half->numbers)
    if (number.name == "w") number.bits = std::bit_cast<uint64_t>(0.5);
  for (const auto& v : checkpoint->ranks[0]->vectors) {
    half->vectors.push_back({v.name, grapevine::Buffer(v.values.size(), v.values.dtype())});
    grapevine::scale({}, 1, v.values, half->vectors.back().values);
  }
  checkpoint->ranks[0] = half;
  grapevine::Options options = grapevine::default_options(grapevine::kSimulate, "quadratic");
  options.settings.method = "sgp";
  options.settings.ranks = 8;
  options.settings.gradients = 800;
  const auto objective = grapevine::make_objective(options.settings);
  const auto on = grapevine::go_on(*checkpoint, options.settings, -1, **objective);
  if (!on) FAIL(on.error().message);
  CHECK_THAT(text_of(on->told),
             Catch::Contains("push-sum's weights here add up to 7.5 for 8 ranks"));
}

TEST_CASE("ranks of nodes that have no place are left out, and a launch tells what that moves") {
  const Scratch scratch;
  const std::string out = scratch.path("out");
  for (const char* node : {"/node-0", "/node-1", "/node-2"})
    json_of("simulate --objective quadratic --ranks 2 --zeta2 1 --gradients 60 --until 0 --seed " +
            std::string(1, node[6] + 1) + " --checkpoint-every 10s --out " + out + node);
  grapevine::Options launch;
  launch.resume = out;
  launch.nodes = 2;
  std::vector<double> all(16), kept(16);
  for (int node = 0; node < 3; ++node) {
    const auto there =
        grapevine::load_checkpoint(grapevine::real_disk(), grapevine::folder_of_node(out, node));
    REQUIRE(there);
    for (const auto& rank : there->ranks)
      for (size_t k = 0; k < all.size(); ++k) {
        const double x = rank->vectors.front().values.vec().as<double>()[k];
        all[k] += x / 6;
        if (node < 2) kept[k] += x / 4;
      }
  }
  double square = 0;
  for (size_t k = 0; k < all.size(); ++k)
    square += (all[k] - kept[k]) * (all[k] - kept[k]);
  const std::string told = text_of(grapevine::told_of_nodes(launch));
  CHECK_THAT(told, Catch::Contains("node-2 is not needed any more: its 2 ranks are dropped"));
  CHECK(number_after(told, "without those ranks the mean moves by ") ==
        Approx(std::sqrt(square)).epsilon(0.01));
}

#ifdef GRAPEVINE_HAS_NETWORKS
TEST_CASE("a network goes on from its checkpoint, and another begins at its model") {
  const Scratch scratch;
  write_optdigits(scratch, 320, 200);
  const std::string run = scratch.path("run"), data = " --data " + scratch.path();
  const std::string job =
      "--objective network --model mlp --dataset optdigits --ranks 1 --lr 0.05 "
      "--gradients 400" +
      data;
  const auto whole = json_of("simulate " + job + " --checkpoint-every 150s --out " + run);
  const std::string from = checkpoints_of(run).front();
  const auto resumed = json_of("simulate --resume " + from + data + " --out " + scratch.path("on"));
  CHECK(resumed["parameter_hash"] == whole["parameter_hash"]);
  CHECK(resumed["accuracy"] == whole["accuracy"]);
  for (const std::string& model : {run, run + "/model.pt"}) {
    const auto warm = json_of("simulate " + job + " --gradients 1 --init " + model);
    CHECK(warm["accuracy"].get<double>() > whole["accuracy"].get<double>() - 0.1);
  }
}

TEST_CASE("a start of which a number is not finite is refused, with its tensor and not its steps") {
  const Scratch scratch;
  const std::string run = scratch.path("run");
  json_of("simulate --objective quadratic --dim 8 --ranks 2 --gradients 10 --out " + run);
  const std::string model = run + "/model.safetensors";
  std::string bytes = text_of(model);
  const double infinite = std::numeric_limits<double>::infinity();
  std::memcpy(bytes.data() + bytes.size() - sizeof infinite, &infinite, sizeof infinite);
  std::ofstream(model, std::ios::binary) << bytes;
  const Ran ran = run_grapevine(
      "simulate --objective quadratic --dim 8 --ranks 2 --gradients 10 --init " + model);
  CHECK(ran.status == 2);
  CHECK_THAT(ran.err, Catch::Contains("tensor x has a number that is not finite"));
}

TEST_CASE("a start is found under the names of two wrappers, and a line names its file once") {
  const Scratch scratch;
  const std::string job = "simulate --objective quadratic --dim 8 --ranks 2 --gradients 10 --init ";
  const std::string model = scratch.path("model.safetensors"), other = scratch.path("other");
  const std::vector<double> x(8, 0.5);
  const auto write = [&](const std::vector<std::string>& names, const std::string& path) {
    std::vector<grapevine::ModelTensor> tensors;
    for (const std::string& name : names)
      tensors.push_back({name, {8}, grapevine::TensorType::f64, x.data()});
    REQUIRE(grapevine::write_safetensors(path, tensors));
  };
  write({"model.module.x"}, model);  // of Lightning and DistributedDataParallel
  CHECK(run_grapevine(job + model).status == 0);
  write({"a.x", "b.x"}, other);
  check_refused(job + other, 2, {"several models of these tensors, under a. and b."});
  std::string bytes = text_of(model);
  bytes.replace(bytes.find("F64"), 3, "C64");  // of as many bytes
  scratch.file("complex", bytes);
  const Ran ran = run_grapevine(job + scratch.path("complex"));
  CHECK(ran.status == 2);
  CHECK_THAT(ran.err, Catch::Contains("complex: tensor model.module.x is of type C64"));
  CHECK_THAT(ran.err, !Catch::Contains("complex: " + scratch.path("complex")));
}

TEST_CASE("a checkpoint tells where ranks are in their data, and how it was cut before") {
  const Scratch scratch;
  write_optdigits(scratch, 320, 200);
  const std::string data = " --data " + scratch.path();
  const auto newest = [](const std::string& run) {
    return nlohmann::json::parse(text_of(checkpoints_of(run).back() + "/manifest.json"));
  };
  std::string run = scratch.path("first");
  json_of(
      "simulate --objective network --model linear --dataset optdigits --ranks 4 --gradients 4000 "
      "--until 9 --checkpoint-every 3s --out " +
      run + data);
  CHECK_FALSE(newest(run).contains("cuts"));
  for (size_t cuts = 1; cuts <= 2; ++cuts) {
    const auto before = newest(run);
    const std::string more = scratch.path("more" + std::to_string(cuts));
    json_of("simulate --resume " + run + " --ranks " + (cuts == 1 ? "6" : "3") +
            " --until 7 --checkpoint-every 3s --out " + more + data);
    const auto after = newest(more);
    REQUIRE(after["cuts"].size() == cuts);
    const auto& [taken, first] =
        std::pair(after["cuts"].back()["taken"], after["cuts"].back()["first"]);
    REQUIRE(taken.size() == before["ranks"].size());
    for (size_t rank = 0; rank < taken.size(); ++rank)
      CHECK(taken[rank] == before["ranks"][rank]["data_position"]);
    REQUIRE(first.size() == after["ranks"].size());
    for (const auto& rank : after["ranks"]) {
      const uint64_t began = first[rank["rank"].get<size_t>()];
      CHECK(rank["data_position"] == 16 * (rank["gradients"].get<uint64_t>() - began));
      CHECK(rank["gradients"] > began);
    }
    run = more;
  }
}

TEST_CASE("nodes of a launch with another number of them know where the ranks of all were") {
  const Scratch scratch;
  write_optdigits(scratch, 320, 200);
  const std::string data = " --data " + scratch.path();
  const std::string before = scratch.path("before"), after = scratch.path("after");
  const auto manifests = [](const std::string& run, int nodes) {
    std::vector<nlohmann::json> newest;
    for (int k = 0; k < nodes; ++k) {
      newest.push_back(newest_of(grapevine::folder_of_node(run, k)));
      if (newest.back().is_null()) return std::vector<nlohmann::json>();
    }
    return newest;
  };
  const auto until_saved = [&](const std::string& words, const std::string& run, int nodes) {
    Running life("launch --gradients 0 --until 1000 --checkpoint-every 20steps --out " + run +
                 " --nodes " + std::to_string(nodes) + words + data);
    REQUIRE(grapevine::eventually([&] { return !manifests(run, nodes).empty(); }, kBusyMachine));
    life.signal(SIGKILL);
    life.end();
    for (int k = 0; k < nodes; ++k)
      await_end_in(grapevine::folder_of_node(run, k));
  };
  until_saved(" --ranks 2 --objective network --model linear --dataset optdigits", before, 2);
  std::vector<nlohmann::json> taken(4);
  for (const auto& manifest : manifests(before, 2))
    for (const auto& rank : manifest["ranks"])
      taken[rank["rank"].get<size_t>()] = rank["data_position"];
  until_saved(" --ranks 2 --resume " + before, after, 3);
  for (const auto& manifest : manifests(after, 3)) {
    REQUIRE(manifest["cuts"].size() == 1);
    CHECK(manifest["cuts"][0]["taken"] == taken);
  }
}
#endif

TEST_CASE("processes that were all killed go on when their launch is given again") {
  const Scratch scratch;
  const std::string out = scratch.path("out");
  const std::string job =
      "launch --nodes 2 --ranks 2 --objective quadratic --gradients 0 "
      "--checkpoint-every 20steps --out " +
      out + " --until ";
  {
    Running life(job + "1000");
    for (const char* node : {"/node-0", "/node-1"})
      REQUIRE(
          grapevine::eventually([&] { return !checkpoints_of(out + node).empty(); }, kBusyMachine));
    life.signal(SIGKILL);
    life.end();
  }
  const Ran again = run_grapevine(job + "1");
  CHECK(again.status == 0);
  for (const char* node : {"/node-0", "/node-1"}) {
    const auto record = record_of(out + node);
    CHECK(record["state"] == "finished");
    CHECK(record["result"]["resumed_at"].get<uint64_t>() > 0);
    CHECK(record["result"]["gradients"] > record["result"]["resumed_at"]);
  }
}

TEST_CASE(
    "a node tells of torn edges as far as it sees the other nodes' folders, and where it cannot") {
  const Scratch scratch;
  const std::string out = scratch.path("out"), alone = scratch.path("alone");
  const auto has_crossed = [&](int node) {  // rank 1 is node-0's, rank 2 node-1's
    const auto manifest = newest_of(grapevine::folder_of_node(out, node));
    if (manifest.is_null()) return false;
    const auto& rank = manifest["ranks"][node == 0 ? 1 : 0];
    return std::any_of(rank["edges"].begin(), rank["edges"].end(), [&](const auto& edge) {
      return edge["peer"] == (node == 0 ? 2 : 1) && edge["exchanges"] > 0;
    });
  };
  {
    Running life(
        "launch --nodes 2 --ranks 2 --objective quadratic --topology chain --gradients 0 "
        "--until 1000 --checkpoint-every 20steps --out " +
        out);
    REQUIRE(grapevine::eventually([&] { return has_crossed(0) && has_crossed(1); }, kBusyMachine));
    life.signal(SIGKILL);
    life.end();
    for (const int node : {0, 1})
      await_end_in(grapevine::folder_of_node(out, node));
  }
  fs::copy(out + "/node-0", alone, fs::copy_options::recursive);
  const auto told_by_node = [](const std::string& run) {
    grapevine::Options options = grapevine::default_options(grapevine::kNode, "quadratic");
    options.settings.ranks = 4;
    options.settings.local_ranks = 2;
    options.settings.gradients = 0;
    options.settings.topology = "chain";
    const auto objective = grapevine::make_objective(options.settings);
    const auto checkpoint = grapevine::load_checkpoint(grapevine::real_disk(), run);
    REQUIRE(checkpoint);
    const auto on = grapevine::go_on(*checkpoint, options.settings, -1, **objective);
    if (!on) FAIL(on.error().message);
    return text_of(on->told);
  };
  const std::string unknown = "both ends recorded the same exchanges on 1 edge (1-2)";
  const TornEdges torn = torn_in({newest_of(out + "/node-0"), newest_of(out + "/node-1")});
  grapevine::Options launch;
  launch.resume = out;
  launch.nodes = 2;
  const auto told_by_launch = [&] { return text_of(grapevine::told_of_nodes(launch)); };
  for (const std::string& told : {told_by_node(out + "/node-0"), told_by_launch()}) {
    INFO(told);
    CHECK_THAT(told, !Catch::Contains("it is unknown whether"));
    for (const std::string& edge : torn.names)
      CHECK_THAT(told, Catch::Contains(edge));
  }
  CHECK_THAT(told_by_node(alone), Catch::Contains(unknown));
  // With hosts a launch sees its own machine's folders, and says what it does not see.
  launch.hosts = "hosts";
  CHECK_THAT(told_by_launch(), !Catch::Contains("it is unknown whether"));
  fs::remove_all(out + "/node-1");
  CHECK_THAT(told_by_launch(), Catch::Contains(unknown));
}

TEST_CASE("SIGUSR1 to a launch takes a checkpoint of each of its nodes") {
  const Scratch scratch;
  const std::string out = scratch.path("out");
  Running life(
      "launch --nodes 2 --ranks 2 --objective quadratic --gradients 0 --until 1000 --out " + out);
  const auto trains = [&](const std::string& node) {  // a sample tells
    return text_of(out + node + "/metrics.jsonl.part").find("exchanges") != std::string::npos;
  };
  REQUIRE(
      grapevine::eventually([&] { return trains("/node-0") && trains("/node-1"); }, kBusyMachine));
  CHECK(checkpoints_of(out + "/node-0").empty());
  life.signal(SIGUSR1);
  for (const char* node : {"/node-0", "/node-1"})
    CHECK(grapevine::eventually([&] { return !checkpoints_of(out + node).empty(); }, kBusyMachine));
  life.signal(SIGTERM);
  CHECK(life.end() == 0);
}

TEST_CASE("a launch resumes by itself after SIGTERM or SIGUSR2, after Ctrl+C if it is asked to") {
  const Scratch scratch;
  const std::string out = scratch.path("out"), nodes[] = {out + "/node-0", out + "/node-1"};
  const std::string job =
      "launch --nodes 2 --ranks 2 --objective quadratic --gradients 0 "
      "--checkpoint-every 20steps --out " +
      out + " --until ";
  for (const int signal : {SIGTERM, SIGUSR2, SIGINT}) {
    Running life(job + "1000");
    for (const std::string& node : nodes) {
      const auto kept = checkpoints_of(node);
      REQUIRE(grapevine::eventually([&] { return checkpoints_of(node) != kept; }, kBusyMachine));
    }
    life.signal(signal);
    CHECK(life.end() == 0);
    for (const std::string& node : nodes) {
      const auto record = record_of(node);
      CHECK(record["state"] == "interrupted");
      CHECK(record.contains("preempted") == (signal != SIGINT));
      CHECK(record["result"]["ranks"] == 4);  // the mean of all: none has left the other
      CHECK((record["result"]["resumed_at"] > 0) == (signal != SIGTERM));
    }
  }
  const Ran again = run_grapevine(job + "1");
  CHECK(again.status == 2);
  CHECK_THAT(again.err, Catch::Contains("holds a run already"));
  CHECK(run_grapevine(job + "1 --resume " + out).status == 0);
  for (const std::string& node : nodes)
    CHECK(record_of(node)["state"] == "finished");
  const std::string more = scratch.path("more");
  const Ran three = run_grapevine(
      "launch --nodes 3 --ranks 2 --objective quadratic --gradients 0 --until 1 --resume " + out +
      " --out " + more);
  INFO(three.err);
  CHECK(three.status == 0);
  CHECK_THAT(three.err,
             Catch::Contains(out + " has 2 nodes: additional nodes start with the x of these"));
  const auto newcomer = record_of(more + "/node-2");
  CHECK(newcomer["result"]["ranks"] == 6);
  CHECK(newcomer["result"]["resumed_at"] > 0);
}

namespace {

// The gradients of a node's rank, once there are more than so many, and so many ranks in the graph.
uint64_t gradients_above(const std::string& node, uint64_t least, int ranks) {
  uint64_t gradients = 0;
  const auto is_there = [&] {
    const Ran ran = run_grapevine("ctl " + node + " status --json");
    if (ran.status != 0) return false;
    const auto status = nlohmann::json::parse(ran.out);
    if (status["graph_ranks"] < ranks) return false;
    gradients = status["gradients"][0];
    return gradients > least;
  };
  REQUIRE(grapevine::eventually(is_there, kBusyMachine));
  return gradients;
}

// The least gradients of a rank in the newest checkpoint; 0 where it is tidied while it is read.
uint64_t gradients_in(const std::string& run) {
  const auto newest = grapevine::newest_manifest(grapevine::real_disk(), run);
  if (!newest) return 0;
  uint64_t least = ~uint64_t{0};
  for (const grapevine::RankFile& rank : newest->ranks)
    least = std::min(least, rank.gradients);
  return least;
}

}  // namespace

TEST_CASE(
    "a node that is killed and started again joins with its neighbour's state, which is fresher") {
  const char* wanted = std::getenv("GRAPEVINE_JOINS");
  const int joins = wanted != nullptr ? std::atoi(wanted) : 3;
  const Scratch scratch;
  const std::string name = "again-" + std::to_string(getpid()) + "-";
  const std::string job =
      "node --objective quadratic --ranks 1 --gradients 0 --until 1000 --checkpoint-every 20steps "
      "--node-name " +
      name;
  Running stays(job + "a --total-ranks 2 --out " + scratch.path("a"));
  REQUIRE(stays.wait_for("listening on "));
  uint64_t known = 0;
  for (int life = 0; life <= joins; ++life) {
    INFO("life " << life);
    Running node(job + "b --join " + name + "a --out " + scratch.path("b"));
    if (life > 0) REQUIRE(node.wait_for("resumes from"));
    CHECK(gradients_above(name + "b", 0, 2) >= known);
    REQUIRE(grapevine::eventually([&] { return !checkpoints_of(scratch.path("b")).empty(); },
                                  kBusyMachine));
    node.signal(SIGKILL);
    node.end();
    // Far beyond b's file.
    known = gradients_above(name + "a", gradients_above(name + "a", 0, 1) + 20000, 1);
  }
}

TEST_CASE("a node that comes back to a run that is behind its own file goes on from the file") {
  const Scratch scratch;
  const std::string name = "ahead-" + std::to_string(getpid()) + "-";
  const std::string job =
      "node --objective quadratic --ranks 1 --gradients 0 --until 1000 --node-name " + name;
  const std::string comes_back =
      job + "b --checkpoint-every 20steps --join " + name + "a --out " + scratch.path("b");
  {
    Running neighbour(job + "a --no-save");
    REQUIRE(neighbour.wait_for("listening on "));
    Running node(comes_back);
    gradients_above(name + "b", 20000, 2);
    // The next one may have begun long before that.
    REQUIRE(grapevine::eventually([&] { return gradients_in(scratch.path("b")) > 10000; },
                                  kBusyMachine));
    for (Running* each : {&node, &neighbour}) {
      each->signal(SIGKILL);
      each->end();
    }
  }
  const uint64_t in_file = gradients_in(scratch.path("b"));
  CHECK(in_file > 10000);
  // The run of this name is another one now, at its beginning, and slow.
  const std::string slow =
      scratch.file("slow.toml", "[[fault]]\nkind = \"slow\"\nranks = [0]\nfactor = 10000\n");
  Running neighbour(job + "a --no-save --plan " + slow);
  REQUIRE(neighbour.wait_for("epoch"));
  // It may well be none: a gradient that loses its core for a moment is answered a minute later.
  const uint64_t behind = json_of("ctl " + name + "a status")["gradients"][0];
  CHECK(behind < in_file);
  Running node(comes_back);
  REQUIRE(node.wait_for("resumes from"));
  CHECK(gradients_above(name + "b", 0, 2) >= in_file);
}

TEST_CASE("push-sum's weight is in the files of each node that has left, and comes back with it") {
  const Scratch scratch;
  const std::string name = "mass-" + std::to_string(getpid()) + "-";
  const auto job = [&](const char* node) {
    const std::string joins = *node == 'a' ? "" : " --join " + name + "a";
    return "node --objective quadratic --method sgp --ranks 2 --total-ranks 6 --gradients 0 "
           "--until 1000 --checkpoint-every 50steps --node-name " +
           name + node + joins + " --out " + scratch.path(node);
  };
  const char* const names[] = {"a", "b", "c"};
  std::vector<std::unique_ptr<Running>> nodes;
  for (const char* node : names) {
    nodes.push_back(std::make_unique<Running>(job(node)));
    REQUIRE(nodes.back()->wait_for("listening on "));
  }
  for (const char* node : names)
    gradients_above(name + node, 50, 6);
  for (const int leaves : {2, 1, 0}) {
    gradients_above(name + "a", 0, 2 * (leaves + 1));
    nodes[static_cast<size_t>(leaves)]->signal(SIGTERM);
    CHECK(nodes[static_cast<size_t>(leaves)]->end() == 0);
  }
  double mass = 0;
  for (const char* node : names) {
    const auto last = grapevine::load_checkpoint(grapevine::real_disk(), scratch.path(node));
    REQUIRE(last);
    for (const auto& rank : last->ranks)
      for (const auto& number : rank->numbers)
        if (number.name == "w") mass += std::bit_cast<double>(number.bits);
  }
  CHECK(std::abs(mass - 6) < 1e-5);
  // All come back, each with what it had.
  nodes.clear();
  for (const char* node : names) {
    nodes.push_back(std::make_unique<Running>(job(node)));
    REQUIRE(nodes.back()->wait_for("resumes from"));
    REQUIRE(nodes.back()->wait_for("listening on "));
  }
  for (const char* node : names)
    gradients_above(name + node, 50, 6);
  REQUIRE(run_grapevine("ctl " + name + "a stop").status == 0);
  double after = 0;
  for (const char* node : names) {
    CHECK(nodes[static_cast<size_t>(*node - 'a')]->end() == 0);
    const auto record = record_of(scratch.path(node));
    for (const auto& weight : record["result"]["push_weights"])
      after += weight.get<double>();
  }
  CHECK(std::abs(after - 6) < 1e-5);
}

TEST_CASE(
    "a run that ctl stop has ended is finished: it goes on in another folder, when asked to") {
  const Scratch scratch;
  const std::string run = scratch.path("run"), name = "stopped-" + std::to_string(getpid());
  const std::string job = "node --node-name " + name +
                          " --objective quadratic --ranks 2 --gradients 0 --until 1000 --out " +
                          run;
  Running life(job);
  REQUIRE(life.wait_for("epoch"));
  REQUIRE(run_grapevine("ctl " + name + " checkpoint").status == 0);
  REQUIRE(run_grapevine("ctl " + name + " stop").status == 0);
  CHECK(life.end() == 0);
  CHECK(record_of(run)["state"] == "finished");
  check_refused(job, 2, {"holds a run already"});
  check_refused("node --resume " + run + " --out " + run, 2,
                {"has finished", "another folder by --out"});
  const std::string more = scratch.path("more");
  CHECK(run_grapevine("node --resume " + run + " --until 0.2 --out " + more).status == 0);
  CHECK(record_of(more)["result"]["resumed_at"] > 0);
}

TEST_CASE("a run that is resumed is told from the one before, and the same command again is not") {
  const Scratch scratch;
  const std::string run = scratch.path("run"), name = "again-" + std::to_string(getpid());
  const std::string job = "node --node-name " + name + " ";
  const std::string options =
      "--objective quadratic --ranks 2 --gradients 0 --until 1000 --out " + run;
  const auto generation_after = [&](const std::string& words, bool goes_on) {
    Running life(job + words);
    if (goes_on) REQUIRE(life.wait_for("resumes from"));
    REQUIRE(life.wait_for("epoch"));  // before its ranks are there it saves none
    life.signal(SIGTERM);
    CHECK(life.end() == 0);
    return newest_of(run).value("generation", 0);
  };
  CHECK(generation_after(options, false) == 0);
  CHECK(generation_after(options, true) == 0);
  CHECK(generation_after(options + " --resume " + run, true) == 1);
  CHECK(generation_after(options, true) == 1);
}

TEST_CASE("a node that is refused late leaves the lines that its run has written") {
  const Scratch scratch;
  const std::string run = scratch.path("run"), name = "late-" + std::to_string(getpid());
  const std::string job = "node --node-name " + name +
                          " --objective quadratic --ranks 2 --gradients 0 --until 1000 --out " +
                          run;
  const auto ended = [&](const char* sign) {
    Running life(job);
    REQUIRE(life.wait_for(sign));
    life.signal(SIGTERM);
    CHECK(life.end() == 0);
    return text_of(run + "/metrics.jsonl");
  };
  const std::string lines = ended("epoch");
  REQUIRE_FALSE(lines.empty());
  const Ran refused = run_grapevine(job + " --listen 127.0.0.1:0");
  CHECK(refused.status == 2);
  CHECK_THAT(refused.err, Catch::Contains("--key"));
  const std::string more = ended("resumes from");
  CHECK(more.size() > lines.size());
  CHECK(more.substr(0, lines.size()) == lines);
}

TEST_CASE("a console asks a node for a checkpoint, and hears when it is written") {
  const Scratch scratch;
  const std::string run = scratch.path("run"), name = "saved-" + std::to_string(getpid());
  Running life("node --node-name " + name +
               " --objective quadratic --ranks 2 --gradients 0 "
               "--until 1000 --out " +
               run);
  REQUIRE(life.wait_for("epoch"));
  const Ran asked = run_grapevine("ctl " + name + " checkpoint");
  CHECK(asked.status == 0);
  CHECK_THAT(asked.out, Catch::Contains("checkpoint " + run + "/checkpoints/"));
  CHECK(checkpoints_of(run).size() == 1);
  life.signal(SIGINT);
  CHECK(life.end() == 0);
  CHECK(checkpoints_of(run).size() == 2);
}

TEST_CASE("a node of a launch that is killed from outside is started again, and its run goes on") {
  const Scratch scratch;
  const std::string run = scratch.path("run");
  Running launch(
      "launch --nodes 2 --ranks 2 --objective quadratic --gradients 0 --until 600 --quiet "
      "--log-level info --node-name again --out " +
      run);
  const auto nodes = [&] {
    std::ifstream file(fmt::format("/proc/{0}/task/{0}/children", launch.process()));
    std::vector<pid_t> children;
    for (pid_t child = 0; file >> child;)
      children.push_back(child);
    return children;
  };
  const auto listens = [&](const char* name) {
    return run_grapevine(std::string("ctl ") + name + " status").status == 0;
  };
  const auto begins = [&] { return listens("again.0") && listens("again.1"); };
  REQUIRE(grapevine::eventually(begins, kBusyMachine));
  REQUIRE(nodes().size() == 2);
  REQUIRE(::kill(nodes().back(), SIGKILL) == 0);
  REQUIRE(launch.wait_for("was killed by signal 9"));
  REQUIRE(launch.wait_for("started again (1 of 3)"));
  REQUIRE(grapevine::eventually(begins, kBusyMachine));
  launch.signal(SIGTERM);
  CHECK(launch.end() == 0);
  for (const char* node : {"/node-0", "/node-1"})
    CHECK(record_of(run + node)["state"] == "interrupted");
}

TEST_CASE("a node that is drained saves its ranks, and the same command goes on with them") {
  const Scratch scratch;
  const std::string run = scratch.path("run");
  const std::string node = "node " + kRun + "--gradients 0 --node-name drained --out " + run;
  Running running(node + " --until 600");
  REQUIRE(running.wait_for("epoch"));
  const Ran drain = run_grapevine("ctl drained drain");
  CHECK(drain.status == 0);
  CHECK_THAT(drain.out, Catch::Contains("saves its ranks"));
  CHECK(running.end() == 0);
  CHECK(record_of(run)["state"] == "stopped");  // the run's only node
  const auto saved = checkpoints_of(run);
  REQUIRE(saved.size() == 1);
  const Ran again = run_grapevine(node + " --until 0.2");
  INFO(again.err);
  CHECK(again.status == 0);
  CHECK_THAT(again.err, Catch::Contains("resumes from " + saved.front()));
  CHECK(record_of(run)["state"] == "finished");
}

TEST_CASE("a launch and a node that are resumed have as many nodes and ranks as they had") {
  const Scratch scratch;
  const std::string run = scratch.path("run");
  launch_until_saved(3, run);
  const auto ranks_of = [&](const std::string& given, const std::string& out) {
    return json_of(given + " --until 0.1 --out " + scratch.path(out))["ranks"];
  };
  const std::string again = "launch --resume " + run;
  CHECK(ranks_of(again, "same") == 6);
  CHECK(ranks_of(again + " --nodes 3", "nodes") == 9);
  CHECK(ranks_of(again + " --ranks 2", "ranks") == 4);
  CHECK(ranks_of("node --resume " + run + "/node-0", "node") == 3);
}

TEST_CASE("a launch that is resumed goes on in its own folder") {
  const Scratch scratch;
  const std::string run = scratch.path("run");
  launch_until_saved(2, run);
  const Ran again = run_grapevine("launch --nodes 2 --ranks 2 --until 0.2 --save --resume " + run,
                                  "cd " + scratch.path() + ";");
  INFO(again.err);
  CHECK(again.status == 0);
  for (const char* node : {"/node-0", "/node-1"})
    CHECK(record_of(run + node)["state"] == "finished");
  CHECK_FALSE(exists(scratch.path("runs")));
}

TEST_CASE("a run that goes on with other data than it had says so") {
#ifndef GRAPEVINE_HAS_NETWORKS
  return skipped("a run on other data: this build has no LibTorch");
#endif
  const Scratch scratch;
  const auto write = [&](int rows) {
    std::string text = "a,b,label\n";
    for (int k = 0; k < rows; ++k)
      text += fmt::format("{},{},{}\n", k % 7, k % 5, k % 3);
    return scratch.file("d.csv", text);
  };
  const std::string run = scratch.path("run");
  const std::string job =
      "train --model linear --ranks 2 --topology complete --batch 4 --gradients 0 "
      "--dataset " +
      write(900) + " --out " + run;
  {
    Running first(job + " --until 600");
    REQUIRE(first.wait_for("epoch"));
    first.signal(SIGTERM);
    CHECK(first.end() == 0);
  }
  write(400);
  const Ran other = run_grapevine(job + " --until 0.2 --quiet");
  INFO(other.err);
  CHECK(other.status == 0);
  CHECK_THAT(other.err,
             Catch::Contains("ALARM: the data have changed since") && Catch::Contains("810 + 90 "));
}

TEST_CASE("a checkpoint of impossible sizes beside a whole one is passed over") {
  const Scratch scratch;
  const std::string run = scratch.path("run");
  {
    Running running("train " + kRun + "--gradients 0 --until 600 --out " + run);
    REQUIRE(running.wait_for("epoch"));
    running.signal(SIGTERM);
    CHECK(running.end() == 0);
  }
  const std::string bad = run + "/checkpoints/999999999";
  fs::create_directory(bad);
  const std::string deep =
      "{\"xxh3\":\"0\",\"a\":" + std::string(2000000, '[') + std::string(2000000, ']') + "}";
  overwrite(bad + "/manifest.json", deep);
  CHECK(run_grapevine("train --until 0.2 --resume " + run + " --out " + scratch.path("a")).status ==
        0);
  overwrite(bad + "/manifest.json", "");
  fs::resize_file(bad + "/manifest.json", uintmax_t{900} << 30);
  CHECK(run_grapevine("train --until 0.2 --resume " + run + " --out " + scratch.path("b")).status ==
        0);
}
