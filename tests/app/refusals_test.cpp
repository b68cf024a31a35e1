// A user's mistakes and the world's failures: one line that names the key, the value and the
// accepted values; status 2 for the user's, 1 for the world's.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <map>
#include <sstream>

#include "tests/app/tools.hpp"
#include "tests/catch.hpp"
#include "tests/eventually.hpp"
#include "tests/skipped.hpp"

using namespace grapevine::test;

TEST_CASE(
    "what is said as JSON is an object a line, with its time; at level warning only alarms are") {
  const Scratch scratch;
  const std::string plan =
      scratch.file("p.toml", "[[fault]]\nkind = \"reconfigure\"\nat = 199\ntopology = \"star\"\n");
  const std::string run =
      "simulate --topology ring --ranks 30 --latency 0.4 --until 200 --log-format json --plan " +
      plan + " ";
  const Ran all = run_grapevine(run), alarms = run_grapevine(run + "--log-level warning");
  std::istringstream lines(all.err), warnings(alarms.err);
  std::map<std::string, int> levels;
  for (std::string line; std::getline(lines, line);) {
    const auto object = nlohmann::json::parse(line, nullptr, false);
    INFO(line);
    REQUIRE(object.is_object());
    CHECK_THAT(object["time"].get<std::string>(), Catch::EndsWith("Z"));
    ++levels[object["level"]];
  }
  CHECK(levels["info"] > 0);
  CHECK(levels["warning"] == 1);
  CHECK(levels["error"] == 1);  // why the run has failed
  levels.clear();
  for (std::string line; std::getline(warnings, line);)
    ++levels[nlohmann::json::parse(line, nullptr, false)["level"]];
  CHECK(levels == std::map<std::string, int>{{"warning", 1}, {"error", 1}});
  const Ran none = run_grapevine(run + "--log-level none");
  CHECK(nlohmann::json::parse(none.err, nullptr, false)["level"] == "error");
  check_refused("simulate --log-level loud", 2, {"log-level", "info, warning, none"});
}

TEST_CASE("as text each line of the log begins with its time, alarms are told to the quiet, too") {
  const Scratch scratch;
  const std::string plan = scratch.file("p.toml",
                                        "[[fault]]\nkind = \"pause\"\nranks = [1]\nat = 5000\n"
                                        "[[fault]]\nkind = \"reconfigure\"\nat = 199\n"
                                        "topology = \"star\"\n");
  const std::string run =
      "simulate --topology ring --ranks 30 --latency 0.4 --until 200 --plan " + plan;
  for (const std::string quiet : {"", " --quiet"}) {
    const Ran ran = run_grapevine(run + quiet);
    INFO(ran.err);
    CHECK(ran.status == 1);
    std::istringstream lines(ran.err);
    int alarms = 0, warnings = 0, news = 0;
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with("grapevine: ")) continue;  // its last word
      CHECK_THAT(line, Catch::Matches("[0-9]{2}:[0-9]{2}:[0-9]{2} .*"));
      alarms += line.find(" ALARM: ") != line.npos;
      warnings += line.find("p.toml:1: without effect") != line.npos;
      news += line.find(" epoch 2: ") != line.npos;
    }
    CHECK(alarms == 1);
    CHECK(warnings == 1);
    CHECK(news == (quiet.empty() ? 1 : 0));
  }
}

TEST_CASE("whoever asks for JSON is refused in JSON, whatever is wrong") {
  const Scratch scratch;
  for (const std::string wrong : {"simulate --rnaks 4", "simulate --ranks many",
                                  "train --out /proc/run --gradients 8 --objective quadratic"})
    for (const std::string asks : {" --log-format json", " --log-format=json"}) {
      const Ran ran = run_grapevine(wrong + asks);
      const auto object = nlohmann::json::parse(ran.err, nullptr, false);
      INFO(ran.err);
      REQUIRE(object.is_object());
      CHECK(object["level"] == "error");
      CHECK_THAT(object["event"].get<std::string>(), Catch::Contains("accepted: "));
    }
}

TEST_CASE("a run that is asked to stop says so with its time, as the rest of its log") {
  const Scratch scratch;
  for (const std::string format : {"text", "json"}) {
    const std::string log = scratch.path(format);
    Running run("train --objective quadratic --gradients 0 --until 600 --no-save --json 2>" + log +
                " --log-format " + format);
    REQUIRE(grapevine::eventually([&] { return text_of(log).find("epoch 1") != std::string::npos; },
                                  grapevine::kBusyMachine));
    run.signal(SIGTERM);
    CHECK(run.end() == 0);
    std::istringstream lines(text_of(log));
    int stops = 0;
    for (std::string line; std::getline(lines, line);) {
      INFO(line);
      stops += line.find("stopping: finishes") != line.npos;
      if (format == "text")
        CHECK_THAT(line, Catch::Matches("[0-9]{2}:[0-9]{2}:[0-9]{2} .*"));
      else
        CHECK_THAT(nlohmann::json::parse(line, nullptr, false).value("time", ""),
                   Catch::Matches("[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}\\.[0-9]{3}Z"));
    }
    CHECK(stops == 1);
  }
}

TEST_CASE("an unknown option is refused with the three nearest, or with whose it is") {
  check_refused("simulate --rnaks 4", 2,
                {"--rnaks of simulate", "mean --ranks, --", "grapevine simulate --help"});
  check_refused("train --batch-size=4", 2, {"--batch-size of train", "mean --batch, --"});
  check_refused("train --latency 1", 2, {"--latency", "belongs to: simulate"});
  check_refused("topology ring --momentum 1", 2, {"--momentum", "belongs to: train"});
  const Ran ran = run_grapevine("train --xyz");
  CHECK(std::count(ran.err.begin(), ran.err.end(), ',') == 3);  // three names, and what is accepted
}

TEST_CASE("an unknown command and a stray argument are refused with what is accepted") {
  check_refused("fly", 2, {"fly", "accepted: train, simulate, topology"});
  check_refused("fly simulate --gradients 8", 2, {"fly", "accepted: train, simulate, topology"});
  check_refused("simulate ring", 2, {"\"ring\"", "accepted: options"});
  check_refused("launch --guests 2 python train.py", 2,
                {"\"python\"", "accepted: options, scripts behind --"});
  check_refused("train -- python train.py", 2,
                {"-- with train", "launch runs the command behind --"});
  check_refused("topology ring -- 3", 2, {"-- with topology", "accepted: options"});
  check_refused("ctl status a", 2, {"ctl verb is \"a\"", "for instance grapevine ctl a status"});
  check_refused("ctl a fly", 2, {"ctl verb is \"fly\"", "for instance grapevine ctl a status"});
  CHECK(run_grapevine("help").out == run_grapevine("--help").out);
}

TEST_CASE("a value that is none is refused with its text") {
  check_refused("simulate --lr", 2, {"--lr has no value, accepted: a value"});
  for (const std::string option : {"join", "advertise", "listen", "out", "resume", "method"})
    check_refused("node --" + option + " ''", 2, {option + " is empty, accepted: a value"});
  check_refused("simulate --ranks many", 2, {"ranks is \"many\"", "accepted: a whole number"});
  check_refused("simulate --ranks 99999999999", 2,
                {"accepted: a whole number, at most 2147483647"});
  check_refused("simulate --ranks 4.5", 2, {"ranks is \"4.5\"", "accepted: a whole number"});
  check_refused("simulate --rate fast", 2, {"rate is \"fast\"", "accepted: a number"});
  check_refused("simulate --seed -1", 2, {"seed is \"-1\"", "accepted: a whole number, 0 or more"});
  check_refused("simulate --pairing fre", 2, {"pairing is \"fre\"", "accepted: free, poisson"});
  check_refused("simulate --method magic", 2, {"magic", "a2cid2", "ad_psgd", "all_reduce"});
  check_refused("simulate --objective magic", 2, {"magic", "network, quadratic, consensus"});
  check_refused("simulate --ranks", 2, {"--ranks"});
}

TEST_CASE("no ranks, a negative rate, no seeds and too few gradients are refused") {
  for (const std::string command : {"train", "simulate"}) {
    check_refused(command + " --ranks 0", 2, {"ranks is 0", "accepted: 1 or more"});
    check_refused(command + " --rate -1", 2, {"rate is -1", "accepted: a number from 1e-09"});
    check_refused(command + " --rate 1e300", 2, {"rate is 1e+300", "accepted: a number from"});
    check_refused(command + " --rate 1e-300", 2, {"rate is 1e-300", "accepted: a number from"});
    check_refused(command + " --until nan", 2, {"until is nan", "accepted: 0 or a number from"});
  }
  check_refused("topology ring --ranks 0", 2, {"ring", "0 ranks", "at least 1"});
  check_refused("topology ring --rate -1", 2, {"ring", "rate -1", "positive"});
  check_refused("simulate --seeds 0", 2, {"seeds is 0", "accepted: 1 or more"});
  check_refused("train --gradients 3", 2, {"gradients is 3", "accepted: 0, or at least 16"});
}

TEST_CASE("more threads, longer vectors and other clips than there can be are one line each") {
  check_refused("train --objective quadratic --threads 4000000", 2,
                {"threads is 4000000", "accepted: 0 (all) to 1024"});
  check_refused("simulate --objective quadratic --dim 134217728 --ranks 100000", 2,
                {"dim is 134217728 with ranks 100000", "need 200000.0 GiB", "accepted: what fits"});
  for (const char* command : {"simulate", "train"})
    check_refused(command + std::string(" --objective quadratic --clip nan"), 2,
                  {"clip is nan", "accepted: a number from 0"});
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  skipped("threads that the system refuses: sanitizers need more addresses than this limit");
#else
  check_refused("train --objective quadratic --ranks 4 --quiet --no-save --threads 1000 --until 1",
                1, {"threads is 1000, of which the system gives "}, "ulimit -v 3000000;");
#endif
}

TEST_CASE("graphs that are not connected, loop, or do not exist in that size are refused") {
  const Scratch scratch;
  const std::string apart = scratch.file("apart.txt", std::string("0 1 1\n2 3 1\n"));
  const std::string looped = scratch.file("loop.txt", std::string("0 1 1\n1 1 1\n"));
  const std::string negative = scratch.file("negative.txt", std::string("0 1 -2\n"));
  for (const std::string command : {"topology --topology ", "simulate --topology "}) {
    check_refused(command + apart + " --ranks 4", 2, {"apart.txt", "connected"});
    check_refused(command + looped + " --ranks 2", 2, {"loop.txt", "1"});
    check_refused(command + negative + " --ranks 2", 2, {"negative.txt", "-2"});
    check_refused(command + "exponential --ranks 12", 2, {"exponential", "12", "power of two"});
    check_refused(command + "moebius", 2, {"moebius", "ring"});
  }
}

TEST_CASE("a data folder without data is refused with the file that is missing") {
  const Scratch scratch;
  check_refused("train --quiet --data " + scratch.path(), 2, {scratch.path(), "fashion-mnist"},
                "cd " + scratch.path() + ";");
  CHECK_FALSE(exists(scratch.path("runs")));
  check_refused("train --dataset cats", 2, {"cats", "accepted", "cifar10"});
  check_refused("train --model vgg", 2, {"vgg", "accepted", "cnn-small"});
  check_refused("train --model gpt", 2, {"gpt", "accepted", "LAYERSxHEADSxWIDTH"});
}

TEST_CASE("a target where ranks start equal would never be reached, and is refused") {
  check_refused("simulate --objective quadratic --target 0.1", 2,
                {"target is 0.1", "quadratic", "accepted: a target with objective consensus"});
}

TEST_CASE("a run directory that cannot be written is known before any work is done") {
  const Scratch scratch;
  const std::string file = scratch.file("file", std::string("x"));
  const std::string job = "train --objective quadratic --gradients 16 --out ";
  check_refused(job + file + "/run", 1, {file + "/run", "accepted: a folder"});
  check_refused(job + "/proc/run", 1, {"/proc/run", "accepted: a folder"});
}

TEST_CASE("a run directory that cannot be written is known before a script is started") {
  const Scratch scratch;
  const std::string file = scratch.file("file", std::string("x")), mark = scratch.path("mark");
  check_refused("launch --guests 1 --gradients 1 --out " + file + "/run -- /bin/touch " + mark, 1,
                {file + "/run", "Not a directory", "accepted: a folder that can be written"});
  CHECK_FALSE(std::filesystem::exists(mark));
}

TEST_CASE("a run directory that holds a run is left alone") {
  const Scratch scratch;
  const std::string job = "train --quiet --objective quadratic --gradients 16 --out ";
  REQUIRE(run_grapevine(job + scratch.path("run")).status == 0);
  const std::string before = text_of(scratch.path("run/run.json"));
  check_refused(
      job + scratch.path("run"), 2,
      {"holds a run already", "or resume \"" + scratch.path("run") + "\" to continue it"});
  CHECK(text_of(scratch.path("run/run.json")) == before);
}

TEST_CASE("a disk that is full at the end of a run is one line, and nothing half-written stays") {
  const Scratch scratch;
  const std::string run = scratch.path("run");
  const Ran ran = run_grapevine(
      "train --quiet --json --objective quadratic --dim 100000 "
      "--gradients 32 --out " +
          run,
      "ulimit -f 200;");
  INFO(ran.err);
  CHECK(ran.status == 1);
  CHECK(std::count(ran.err.begin(), ran.err.end(), '\n') == 1);
  CHECK_THAT(ran.err, Catch::Contains(run + "/model.safetensors"));
  CHECK_FALSE(exists(run + "/model.safetensors"));
  CHECK(nlohmann::json::parse(text_of(run + "/run.json"))["state"] == "failed");
  for (const auto& entry : std::filesystem::directory_iterator(run))
    CHECK(entry.path().extension() != ".part");
}

TEST_CASE("metrics that the disk has no room for raise an alarm, and the rest is saved") {
  const Scratch scratch;
  const std::string run = scratch.path("run");
  const SmallFiles small(30000);  // the lines reach that first, and long before the curves do
  Running life(
      "train --objective quadratic --ranks 4 --gradients 0 --until 600 --sample-seconds 0.01 "
      "--checkpoint-every 0 --out " +
      run);
  REQUIRE(life.wait_for("ALARM: cannot write " + run + "/metrics.jsonl.part: "));
  life.signal(SIGTERM);
  CHECK(life.wait_for("/metrics.jsonl lacks "));
  CHECK(life.end() == 1);
  CHECK(nlohmann::json::parse(text_of(run + "/run.json"))["state"] == "interrupted");
  CHECK(exists(run + "/model.safetensors"));
  std::istringstream metrics(text_of(run + "/metrics.jsonl"));
  for (std::string line; std::getline(metrics, line);)
    CHECK_FALSE(nlohmann::json::parse(line, nullptr, false).is_discarded());
}

TEST_CASE("a loss that is not finite ends the run, and no model is left") {
  const Scratch scratch;
  const std::string job = "--objective quadratic --lr 1e9 --gradients 3200 --quiet --out ";
  for (const std::string command : {"train ", "simulate "}) {
    const Ran ran =
        run_grapevine(command + job + scratch.path(command == "train " ? "wall" : "virtual"));
    INFO(ran.err);
    CHECK(ran.status == 1);
    CHECK_THAT(ran.err, Catch::Contains("ALARM: at ") && Catch::Contains(" has a loss of "));
    const std::string last = ran.err.substr(ran.err.rfind("\ngrapevine: ") + 1);
    CHECK_THAT(last, Catch::StartsWith("grapevine: loss is") &&
                         Catch::Contains("accepted: a finite one; a smaller --lr"));
    CHECK(ran.err.find(" has a loss of ") == ran.err.rfind(" has a loss of "));
  }
  for (const std::string run : {"wall", "virtual"}) {
    CHECK(nlohmann::json::parse(text_of(scratch.path(run + "/run.json")))["state"] == "failed");
    CHECK_FALSE(exists(scratch.path(run + "/model.safetensors")));
  }
}

TEST_CASE("train among processes of a launcher says that each of them is a run of its own") {
  const std::string run = "train --objective quadratic --ranks 2 --gradients 20 --no-save";
  const auto said = [&](const std::string& variables) {
    const Ran ran = run_grapevine(run, "export " + variables + ";");
    CHECK(ran.status == 0);
    return ran.err;
  };
  CHECK_THAT(said("OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=4"),
             Catch::Contains("a launcher has started 4 processes, and each of them runs train by "
                             "itself; grapevine node has them train together"));
  for (const char* alone : {"OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=1",
                            "SLURM_JOB_ID=7 SLURM_PROCID=0 SLURM_NTASKS=4", "WORLD_SIZE=4"})
    CHECK_THAT(said(alone), !Catch::Contains("a launcher"));
}

TEST_CASE(
    "a link of devices that is none is refused in a line, and one without a GPU has no effect") {
  const std::string job = "--objective quadratic --ranks 2 --gradients 4 ";
  check_refused("train " + job + "--link tcp", 2,
                {"link is \"tcp\"", "accepted: auto, host, vmm, nccl"});
  const Ran ran = run_grapevine("node --node-name one --no-save " + job + "--link nccl");
  INFO(ran.err);
  CHECK(ran.status == 0);
  CHECK_THAT(ran.err, Catch::Contains("link has no effect with device cpu"));
  check_refused("simulate --link host", 2, {"--link", "belongs to: train"});
}

TEST_CASE("a link by NCCL is refused in a line where there is no NCCL") {
  const Scratch scratch;
  scratch.file("libnccl.so.2", "no library");  // the first that is found
  check_refused(
      "node --node-name one --no-save --quiet --objective quadratic --ranks 2 --gradients 4 "
      "--link nccl --device cuda",
      2, {"link is nccl", "there is no NCCL: ", "accepted without it: auto, host, vmm"},
      "LD_LIBRARY_PATH=" + scratch.path("") + " ");
}

TEST_CASE("a device that is none, or not there, is refused, and the doctor tells what ranks need") {
  const std::string quadratic = "--objective quadratic --ranks 4 --dim 1000000 --device ";
  check_refused("train " + quadratic + "tpu", 2,
                {"device is \"tpu\"", "accepted: cpu, cuda, cuda:K, auto"});
  check_refused("train " + quadratic + "cuda:x", 2, {"device is \"cuda:x\""});
  check_refused("simulate --device cuda", 2, {"--device", "belongs to: train"});
  check_refused("train --no-save --quiet " + quadratic + "cuda:99", 2, {"no GPU 99"});
  const Ran doctor = run_grapevine("doctor " + quadratic + "cuda:99");
  CHECK(doctor.status == 1);
  CHECK_THAT(doctor.out, Catch::Contains("4 ranks of"));
  CHECK_THAT(doctor.out, Catch::Contains("on a GPU") && Catch::Contains("no GPU 99"));
}

TEST_CASE("the doctor opens the very module that networks would be made by") {
  const Scratch scratch;
  const std::string module = scratch.file("libgrapevine-network.so", std::string("no library"));
  const Ran ill = run_grapevine("doctor", "export GRAPEVINE_MODULE_PATH=" + scratch.path() + ";");
  CHECK(ill.status == 1);
  CHECK_THAT(ill.out, Catch::Contains("FAIL  LibTorch"));
  CHECK_THAT(ill.out, Catch::Contains(module));
}
