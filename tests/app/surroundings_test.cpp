// The program on machines that are not as ours: names that are no text, file systems that lack
// something, terminals that are closed, readers that are gone, limits.
#include <fmt/core.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "tests/app/tools.hpp"
#include "tests/catch.hpp"
#include "tests/skipped.hpp"

using namespace grapevine;
using namespace grapevine::test;

namespace {

namespace fs = std::filesystem;

const std::string kRun = "--objective quadratic --ranks 4 --seed 3 ";
const std::string kLatin = "caf\xe9";  // a name as an old disk has it

nlohmann::json record_of(const std::string& run) {
  return nlohmann::json::parse(text_of(run + "/run.json"));
}

std::string quoted(const std::string& path) { return "'" + path + "'"; }

}  // namespace

TEST_CASE("a path may have bytes that are no text, wherever it stands, and is found again") {
  const Scratch scratch;
  const std::string folder = scratch.path(kLatin);
  fs::create_directory(folder);
  scratch.file(kLatin + "/graph.txt", std::string("0 1\n1 2\n2 3\n3 0\n"));
  const std::string graph = "--topology " + quoted(folder + "/graph.txt");
  const std::string run = folder + "/run";
  const Ran first =
      run_grapevine("train " + kRun + graph + " --gradients 400 --json --out " + quoted(run));
  INFO(first.err);
  REQUIRE(first.status == 0);
  CHECK(nlohmann::json::parse(first.out)["run_dir"].is_string());
  CHECK(record_of(run)["state"] == "finished");
  CHECK(record_of(run)["options"]["topology"]["bytes"].is_string());
  CHECK(run_grapevine("topology " + quoted(folder + "/graph.txt") + " --json").status == 0);
  CHECK(run_grapevine("simulate " + kRun + graph + " --gradients 400 --json").status == 0);
  for (const std::string format : {"text", "json"}) {
    const Ran refused = run_grapevine("train " + kRun + "--log-format " + format + " --topology " +
                                      quoted(folder + "/none.txt"));
    CHECK(refused.status == 2);
    CHECK(refused.err.find('\xe9') == std::string::npos);
  }

  // The graph's file is found by the record of a run that is left.
  const std::string left = folder + "/left";
  {
    Running running("train " + kRun + graph + " --gradients 0 --until 600 --out " + quoted(left));
    REQUIRE(running.wait_for("epoch"));
    running.signal(SIGTERM);
    CHECK(running.end() == 0);
  }
  const Ran resumed = run_grapevine("train --until 0.2 --resume " + quoted(left));
  INFO(resumed.err);
  CHECK(resumed.status == 0);
  CHECK(record_of(left)["options"]["topology"]["bytes"].is_string());
}

TEST_CASE("a name with control characters steers no terminal, and spoils no drawing") {
  const Scratch scratch;
  const std::string folder = scratch.path("red\x1b[31m\nline"), svg = scratch.path("graph.svg");
  fs::create_directory(folder);
  const std::string graph = folder + "/graph.txt", job = folder + "/job.toml";
  std::ofstream(graph) << "0 1\n1 2\n2 3\n3 0\n";
  std::ofstream(job) << "objective = \"quadratic\"\nranks = 4\nuntil = 2\n"
                        "[[method]]\nname = \"a2cid2\"\n";
  for (const std::string& command :
       {"train " + kRun + "--gradients 400 --topology " + quoted(graph) + " --out " +
            quoted(folder + "/run"),
        "topology --ranks 4 --svg " + svg + " --topology " + quoted(graph),
        "compare " + quoted(job), "keygen " + quoted(folder + "/run.key"),
        "doctor --join " + quoted(folder)}) {
    const Ran ran = run_grapevine(command);
    INFO(command << "\n" << ran.out << ran.err);
    CHECK((ran.status == 0 || command.starts_with("doctor")));
    CHECK((ran.out + ran.err).find('\x1b') == std::string::npos);
    CHECK_THAT(ran.out + ran.err, Catch::Contains("red"));
  }
  CHECK(text_of(svg).find('\x1b') == std::string::npos);
  CHECK_THAT(text_of(svg), Catch::Contains("red"));
}

TEST_CASE("a closed terminal saves and ends a run, which goes on by itself; nohup outlives it") {
  const Scratch scratch;
  const std::string run = scratch.path("run");
  const std::string command = "train " + kRun + "--gradients 0 --until 600 --out " + run;
  {
    Running running(command);
    REQUIRE(running.wait_for("epoch"));
    running.signal(SIGHUP);
    CHECK(running.wait_for("stopping"));
    running.signal(SIGHUP);  // a shell sends it once more
    CHECK(running.end() == 0);
  }
  CHECK(record_of(run)["state"] == "interrupted");
  CHECK(record_of(run)["preempted"] == true);
  const Ran again = run_grapevine("train " + kRun + "--gradients 0 --until 0.2 --out " + run);
  INFO(again.err);
  CHECK(again.status == 0);
  CHECK_THAT(again.err, Catch::Contains("resumes from"));

  const Ran unhung = run_command("trap '' HUP; " GRAPEVINE_BINARY_DIR "/grapevine train " + kRun +
                                 "--gradients 2000 --no-save --json & p=$!; kill -HUP $p; wait $p");
  INFO(unhung.err);
  CHECK(unhung.status == 0);
  CHECK(nlohmann::json::parse(unhung.out)["interrupted"] == false);
}

TEST_CASE("a run goes on where the reader of its output is gone") {
  const Scratch scratch;
  const std::string run = scratch.path("run");
  for (const std::string command : {"train ", "launch --nodes 2 "}) {
    const Ran read = run_command("sh -c '" GRAPEVINE_BINARY_DIR "/grapevine " + command + kRun +
                                 "--gradients 40000 --out " + run + " 2>&1 >/dev/null; echo $? >" +
                                 scratch.path("status") + "' | head -n 1");
    CHECK(std::count(read.out.begin(), read.out.end(), '\n') == 1);
    CHECK(text_of(scratch.path("status")) == "0\n");
    const bool alone = command == "train ";
    CHECK(record_of(alone ? run : run + "/node-0")["state"] == "finished");
    fs::remove_all(run);
  }
}

TEST_CASE("a result that cannot be printed is an error; that nobody wants to read it is none") {
  for (const char* command : {"train --quiet --no-save --gradients 400 ", "simulate --json ",
                              "topology ring ", "methods --json ", "--help "}) {
    INFO(command);
    const std::string words = command;
    const bool runs = words.starts_with("train") || words.starts_with("simulate");
    const std::string program = GRAPEVINE_BINARY_DIR "/grapevine " + words + (runs ? kRun : "");
    const Ran full = run_command(program + " >/dev/full");
    CHECK(full.status == 1);
    CHECK_THAT(full.err, Catch::Contains("standard output cannot be written"));
    CHECK(run_command(program + " >&-").status == 0);
    CHECK(run_command(program + " | true").status == 0);
  }
}

TEST_CASE("lines go into no file of a run where standard streams are closed") {
  const Scratch scratch;
  const std::string run = scratch.path("run");
  const Ran ran = run_command(GRAPEVINE_BINARY_DIR "/grapevine train " + kRun +
                              "--gradients 400 --out " + run + " <&- >&- 2>&-");
  CHECK(ran.status == 0);
  for (const auto& file : fs::recursive_directory_iterator(run))
    if (file.is_regular_file() && file.path().extension() != ".safetensors")
      CHECK_THAT(text_of(file.path()), !Catch::Contains("idle time per rank"));
}

TEST_CASE("files are written, and runs go on, where files cannot be locked or named anew") {
#ifdef __SANITIZE_ADDRESS__
  return skipped("an old file system: the sanitizer wants to be loaded first");
#endif
  const Scratch scratch;
  const std::string shim = "LD_PRELOAD=" GRAPEVINE_BINARY_DIR "/bin/libold_file_system.so";
  const Ran key = run_grapevine("keygen " + scratch.path("run.key"), shim);
  INFO(key.err);
  CHECK(key.status == 0);
  CHECK(exists(scratch.path("run.key")));
  check_refused("keygen " + scratch.path("run.key"), 2, {"it exists"}, shim);
  CHECK(std::distance(fs::directory_iterator(scratch.path()), {}) == 1);
  const std::string run = scratch.path("run");
  const Ran ran = run_grapevine("train " + kRun + "--gradients 400 --out " + run, shim);
  INFO(ran.err);
  CHECK(ran.status == 0);
  CHECK_THAT(ran.err, Catch::Contains("ALARM: " + run + " cannot be locked"));
  CHECK(record_of(run)["state"] == "finished");
}

TEST_CASE("how a run has ended is recorded on a full disk, and where it cannot be is told") {
  const Scratch scratch;
  const std::string disk = scratch.path("disk");
  fs::create_directory(disk);
  const std::string mounted = "unshare -rm sh -c 'mount -t tmpfs -o size=400k none " + disk;
  if (run_command(mounted + "'").status != 0)
    return skipped("a full disk: no file system can be mounted here");
  const std::string run = disk + "/run";
  const auto ends_after = [&](const std::string& event) {
    return run_command(mounted + "; " GRAPEVINE_BINARY_DIR "/grapevine train --quiet " + kRun +
                       "--gradients 0 --until 600 --out " + run + " & until grep -q epoch " + run +
                       "/metrics.jsonl.part; do :; done 2>/dev/null; kill -USR1 $!; until ls " +
                       run + "/checkpoints/*/manifest.json; do :; done >/dev/null 2>&1; " + event +
                       "; kill -TERM $!; wait $!; status=$?; cat " + run + "/run.json; ls " + run +
                       "/checkpoints; exit $status'");
  };
  const Ran full = ends_after("cat /dev/zero >" + disk + "/rest 2>/dev/null");
  INFO(full.out << full.err);
  CHECK(full.status == 1);
  CHECK_THAT(full.err, Catch::Contains("ALARM: ") && Catch::Contains("no checkpoint: ") &&
                           Catch::Contains("grapevine: cannot write " + run));
  CHECK_THAT(full.out, Catch::Contains("\"state\": \"failed\"") && Catch::Contains("000"));
  const Ran fixed = ends_after("mount --bind -o ro " + disk + " " + disk);
  INFO(fixed.out << fixed.err);
  CHECK(fixed.status == 1);
  CHECK_THAT(fixed.err, Catch::Contains("run.json: Read-only file system, so it still says that"));
  CHECK_THAT(fixed.out, Catch::Contains("\"state\": \"running\"") && Catch::Contains("000"));
  const Ran unsaved = ends_after("mount -t tmpfs -o ro none " + run + "/checkpoints");
  INFO(unsaved.out << unsaved.err);
  CHECK(unsaved.status == 1);
  CHECK_THAT(unsaved.err, Catch::Contains("grapevine: no checkpoint: cannot write "));
  CHECK_THAT(unsaved.out, Catch::Contains("\"state\": \"interrupted\""));
}

TEST_CASE("runs that begin in one second have a folder each") {
  const Scratch scratch;
  const std::string one =
      GRAPEVINE_BINARY_DIR "/grapevine train " + kRun + "--gradients 100 >/dev/null 2>&1 & ";
  const Ran ran = run_command("cd " + scratch.path() + "; " + one + one + one + "wait; ls runs");
  CHECK(std::count(ran.out.begin(), ran.out.end(), '\n') == 3);
  for (const auto& folder : fs::directory_iterator(scratch.path("runs")))
    CHECK(record_of(folder.path())["state"] == "finished");
}

TEST_CASE("a command that has nothing to save ends at once, at any signal") {
  const Scratch scratch;
  const std::string path = scratch.path("silent");
  const int door = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{AF_UNIX, {}};
  REQUIRE(path.size() < sizeof address.sun_path);
  path.copy(address.sun_path, path.size());
  REQUIRE(bind(door, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  REQUIRE(listen(door, 1) == 0);
  for (const std::string& command : {"ctl unix:" + path + " status", "doctor --join unix:" + path})
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR2}) {
      INFO(command << ", signal " << signal);
      Running running(command);
      const int its = accept(door, nullptr, nullptr);  // it is there, and gets no answer
      running.signal(signal);
      CHECK(running.end() == 128 + signal);
      close(its);
    }
  close(door);
}

TEST_CASE("a quiet launch that fails says why, in one line") {
  const Scratch scratch;
  const Ran full = run_grapevine("launch --nodes 1 --quiet --checkpoint-every 0 --dim 100000 " +
                                     kRun + "--gradients 100 --out " + scratch.path("run"),
                                 "ulimit -f 200;");
  CHECK(full.status == 1);
  CHECK(std::count(full.err.begin(), full.err.end(), '\n') == 1);
  CHECK_THAT(full.err, Catch::StartsWith("grapevine: ") && Catch::Contains("model.safetensors"));
}

TEST_CASE("a file of the user's is never taken for a socket") {
  const Scratch scratch;
  const std::string file = scratch.file("thesis.txt", std::string("precious"));
  const std::string node = "node --gradients 0 --until 1 --no-save --node-name n ";
  check_refused(node + "--objective consensus --ranks 1 --listen unix:" + file, 2,
                {"thesis.txt", "a file that is no socket"});
  check_refused(node + "--guests 1 --door " + file, 2, {"thesis.txt", "a file that is no socket"});
  CHECK(text_of(file) == "precious");
}

TEST_CASE("without a runtime folder, or with one whose path is too long, nodes meet in /tmp") {
  const Scratch scratch;
  const std::string deep = scratch.path(std::string(90, 'x'));
  fs::create_directory(deep);
  ::chmod(deep.c_str(), 0700);
  const std::string run = kRun + "--gradients 400";
  for (const std::string& folder : {std::string("/run/user/99999999"), deep}) {
    const std::string set = "XDG_RUNTIME_DIR=" + folder;
    INFO(folder);
    CHECK(run_grapevine("node " + run, set).status == 0);
    const Ran two =
        run_grapevine("launch --nodes 2 --ranks 2 --objective quadratic --gradients 400", set);
    INFO(two.err);
    CHECK(two.status == 0);
  }
  ::chmod(scratch.path().c_str(), 0700);
  const std::string long_name(60, 'n');
  const Ran named = run_grapevine("node " + run + " --node-name " + long_name,
                                  "XDG_RUNTIME_DIR=" + scratch.path());
  INFO(named.err);
  CHECK(named.status == 0);
}

TEST_CASE("too little memory is a line, and no abort") {
#ifdef __SANITIZE_ADDRESS__
  return skipped("a limit of the address space: the address sanitizer needs terabytes");
#endif
  const Ran ran = run_grapevine(
      "train --objective quadratic --dim 500 --mu 0.5 --zeta2 1 --ranks 500 --gradients 500 "
      "--no-save",
      "ulimit -v 1000000;");
  INFO(ran.err);
  CHECK(ran.status == 1);
  CHECK_THAT(ran.err, Catch::Contains("grapevine: memory has run out, or a limit"));
}

namespace {

std::string few_threads(int few) {
  return "FEW_THREADS=" + std::to_string(few) +
         " LD_PRELOAD=" GRAPEVINE_BINARY_DIR "/bin/libfew_threads.so";
}

// Ended well, or said what it lacks and left nothing that seems to go on.
void check_lack_of_threads(const Ran& ran, const std::string& run) {
  INFO(ran.err);
  if (ran.status == 0) return;
  CHECK(ran.status == 1);
  CHECK_THAT(ran.err, Catch::Contains("cannot start a thread: ") &&
                          Catch::Contains("accepted: a larger limit of processes"));
  if (exists(run + "/run.json")) CHECK(record_of(run)["state"] == "failed");
}

}  // namespace

TEST_CASE("a thread that the system does not start is a line and status 1, whichever one it is") {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return skipped("threads that the system does not start: sanitizers start them themselves");
#endif
  const Scratch scratch;
  const std::string run = scratch.path("run");
  for (const std::string command :
       {"train --checkpoint-every 1s --test-every 1s ", "node --metrics 0 ", "launch --nodes 2 "}) {
    const std::string words = command + kRun + "--gradients 400 --threads 2 --quiet --out " + run;
    int needed = 0;
    for (bool enough = false; !enough; needed += enough ? 0 : 1) {
      INFO(command << "with " << needed << " threads");
      REQUIRE(needed < 32);
      const Ran ran = run_grapevine(words, few_threads(needed));
      check_lack_of_threads(ran, run);
      fs::remove_all(run);
      enough = ran.status == 0;
    }
    for (int lacks = 1; lacks <= needed; ++lacks) {
      INFO(command << "without thread " << lacks);
      check_lack_of_threads(run_grapevine(words, few_threads(-lacks)), run);
      fs::remove_all(run);
    }
  }
  check_refused("node --guests 1 --quiet --no-save", 1, {"cannot start a thread: "},
                few_threads(0));
  const std::string name = "asked-" + std::to_string(getpid());
  Running node("node --gradients 0 --until 600 --no-save --node-name " + name + " " + kRun);
  REQUIRE(node.wait_for("epoch"));
  check_refused("ctl " + name + " status", 1, {"cannot start a thread: "}, few_threads(0));
  node.signal(SIGTERM);
  CHECK(node.end() == 0);
  const Ran simulated = run_grapevine("simulate --gradients 400 " + kRun, few_threads(0));
  CHECK(simulated.status == 0);
}

TEST_CASE("an event loop whose own descriptor fails goes on, or ends with one line and status 1") {
#ifdef __SANITIZE_ADDRESS__
  return skipped("broken wakes: the sanitizer wants to be loaded first");
#endif
  const std::string shim = " LD_PRELOAD=" GRAPEVINE_BINARY_DIR "/bin/libbroken_wakes.so";
  const std::string node = "node --gradients 400 --quiet --no-save " + kRun;
  for (const std::string every : {"1", "2", "7"}) {
    const Ran ran = run_grapevine(node, "FAILS_EVERY=" + every + shim);
    INFO(ran.err);
    CHECK(ran.status == 0);
  }
  const Ran ran =
      run_grapevine("node --gradients 0 --until 600 --no-save " + kRun, "NO_EVENTS=1" + shim);
  INFO(ran.err);
  CHECK(ran.status == 1);
  CHECK_THAT(ran.err, Catch::Contains("grapevine: the event loop of the links fails: Bad file"));
}

namespace {

// Not of the shell, which needs some to send the output into files.
std::string few_files(int files) { return fmt::format("prlimit --nofile={0}:{0}", files); }

}  // namespace

TEST_CASE("fewer open files than a run needs are a line and status 1") {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return skipped("a limit of open files: sanitizers need some themselves");
#endif
  const std::string usual = kRun + "--gradients 400 --threads 2 --quiet --no-save ";
  for (const std::string command : {"train ", "node --metrics 0 ", "launch --nodes 2 "}) {
    for (int files = 4; files <= 20; ++files) {
      INFO(command << "with " << files << " open files");
      const Ran ran = run_grapevine(command + usual, few_files(files));
      INFO(ran.err);
      if (ran.status == 0) continue;
      CHECK(ran.status == 1);
      CHECK_THAT(ran.err, Catch::Contains("oo many open files") ||
                              Catch::Contains("oo many files are open"));
    }
  }
  check_refused("node --guests 1 --quiet --no-save", 1, {"oo many files are open"}, few_files(4));
}
