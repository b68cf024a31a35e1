// grapevine compare: cells from one file, each a run of simulate, kept as it ends.
#include <fcntl.h>
#include <pty.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <filesystem>
#include <map>
#include <sstream>

#include "tests/app/tools.hpp"
#include "tests/catch.hpp"

using namespace grapevine::test;
using nlohmann::json;

namespace {

namespace fs = std::filesystem;

const char kQuadratics[] =
    "objective = \"quadratic\"\n"
    "ranks = 8\n"
    "dim = 6\n"
    "zeta2 = 1\n"
    "noise = 0.1\n"
    "lr = 0.05\n"
    "until = 120\n"
    "target_suboptimality = 0.1\n";

const char kMethods[] =
    "[[method]]\n"
    "name = \"d_psgd\"\n"
    "[[method]]\n"
    "name = \"relaysgd\"\n"
    "topology = \"chain\"\n"
    "label = \"relays <&> chains\"\n";

const char kShort[] = "[[method]]\nname = \"d_psgd\"\n";
// A method that goes on until what stands behind it.
const char kEndless[] = "[[method]]\nname = \"d2\"\nweights = \"lazy\"\nuntil = ";

// The text of each finished run, by file.
std::map<std::string, std::string> records(const std::string& folder) {
  std::map<std::string, std::string> found;
  if (!exists(folder)) return found;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const fs::path path = entry.path();
    if (path.extension() == ".json" && path.filename() != "compare.json")
      found[path.filename().string()] = text_of(path.string());
  }
  return found;
}

const json& cell_of(const json& compared, const std::string& group, int seed) {
  for (const json& cell : compared["cells"])
    if (cell["group"] == group && cell["seed"] == seed) return cell;
  FAIL(group << " with seed " << seed << " is not there");
  throw 0;
}

// The program's output on a terminal with this number of columns.
std::string printed_on_terminal(const std::string& arguments, unsigned short columns) {
  const winsize size{24, columns, 0, 0};
  int terminal = -1;
  const pid_t child = forkpty(&terminal, nullptr, nullptr, &size);
  if (child == 0) {
    const std::string command = "exec " GRAPEVINE_BINARY_DIR "/grapevine " + arguments;
    execl("/bin/sh", "sh", "-c", command.c_str(), static_cast<char*>(nullptr));
    _exit(127);
  }
  REQUIRE(child > 0);
  std::string said;
  char block[4096];
  for (ssize_t n = 1; n > 0;) {
    wait_for_bytes(terminal);
    n = read(terminal, block, sizeof block);  // EIO: the program has ended
    if (n > 0) said.append(block, static_cast<size_t>(n));
  }
  int status = 0;
  waitpid(child, &status, 0);
  close(terminal);
  CHECK(status == 0);
  return said;
}

size_t count(const std::string& text, const std::string& word) {
  size_t n = 0;
  for (size_t at = text.find(word); at != text.npos; at = text.find(word, at + 1))
    ++n;
  return n;
}

}  // namespace

TEST_CASE("a cell of compare is the run that simulate makes of the same options") {
  const Scratch scratch;
  const std::string lists = "seeds = [3, 5]\ntopology = [\"ring\", \"torus:2x4\"]\n";
  const std::string job = scratch.file("job.toml", lists + kQuadratics + kMethods);
  const json compared = json_of("compare " + job);
  CHECK(compared["runs"] == 6);  // the chain takes the place of both graphs
  CHECK(compared["finished"] == 6);
  CHECK(compared["measure"] == "suboptimality");
  for (const std::string graph : {"ring", "torus:2x4"}) {
    const json& cell = cell_of(compared, "d_psgd, topology " + graph, 5);
    const json alone = json_of(
        "simulate --objective quadratic --ranks 8 --dim 6 --zeta2 1 --noise 0.1 --lr 0.05 "
        "--until 120 --method d_psgd --seed 5 --sample-seconds 1.2 --topology " +
        graph);
    for (const char* name : {"parameter_hash", "suboptimality", "consensus_distance", "bytes",
                             "messages", "virtual_seconds"})
      CHECK(cell[name] == alone[name]);
    double first = -1;
    for (const json& sample : alone["samples"])
      if (first < 0 && sample["suboptimality"].is_number() && sample["suboptimality"] <= 0.1)
        first = sample["at"];
    REQUIRE(first > 0);
    CHECK(cell["seconds_to_target"] == first);
  }
}

TEST_CASE("an aggregate is the mean and the sample deviation over the seeds of its group") {
  const Scratch scratch;
  const std::string job =
      scratch.file("job.toml", std::string("seed = 7\nseeds = 3\n") + kQuadratics + kMethods);
  const json compared = json_of("compare " + job);
  REQUIRE(compared["aggregates"].size() == 2);
  const json& group = compared["aggregates"][1];
  CHECK(group["group"] == "relays <&> chains");
  CHECK(group["runs"] == 3);
  CHECK(group["reached_target"] == 3);
  CHECK(group["settings"]["topology"] == "chain");
  CHECK(group["accuracy"]["mean"].is_null());
  double sum = 0, squares = 0;
  for (int seed = 7; seed < 10; ++seed) {
    const double x = cell_of(compared, "relays <&> chains", seed)["suboptimality"];
    sum += x;
    squares += x * x;
  }
  CHECK(group["suboptimality"]["mean"].get<double>() == Approx(sum / 3));
  const double deviation = std::sqrt((squares - sum * sum / 3) / 2);
  CHECK(group["suboptimality"]["sd"].get<double>() == Approx(deviation).epsilon(1e-6));
}

TEST_CASE("the table has a row for each group, the picture a curve in each panel") {
  const Scratch scratch;
  const std::string job = scratch.file("job.toml", std::string(kQuadratics) + kMethods);
  const Ran ran = run_grapevine("compare " + job + " --out " + scratch.path("kept"));
  CHECK(ran.status == 0);
  for (const char* word : {"2 of 2 runs", "suboptimality of at most 0.1", "\n  d_psgd  ",
                           "\n  relays <&> chains  ", "consensus", "messages", "time to it"})
    CHECK_THAT(ran.out, Catch::Contains(word));
  CHECK_THAT(ran.out, !Catch::Contains("accuracy"));
  CHECK_THAT(ran.err, Catch::Contains("2/2 "));
  const std::string svg = text_of(scratch.path("kept/compare.svg"));
  CHECK(count(svg, "<polyline") == 6);
  for (const char* axis : {">gradients<", ">bytes sent (log)<", ">virtual seconds<"})
    CHECK(count(svg, axis) == 1);
  CHECK(count(svg, ">job<") == 1);  // the title
  CHECK(count(svg, "relays &lt;&amp;&gt; chains") == 1);
  CHECK(json::parse(text_of(scratch.path("kept/compare.json")))["finished"] == 2);
  CHECK(records(scratch.path("kept")).size() == 2);
}

TEST_CASE("on a narrow terminal the columns that do not fit follow below, and none is left out") {
  const Scratch scratch;
  const std::string job = scratch.file("job.toml", std::string(kQuadratics) + kMethods);
  const std::string again = "compare " + job + " --quiet --out " + scratch.path("kept");
  const std::string plain = run_grapevine(again).out;
  const auto table = [](const std::string& text) {  // its rows, without the sentences around it
    std::vector<std::string> rows;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);)
      for (const char* first : {"  run  ", "  d_psgd  ", "  relays <&> chains  "})
        if (line.starts_with(first))
          rows.push_back(line.substr(0, line.find_last_not_of("\r") + 1));
    return rows;
  };
  REQUIRE(table(plain).size() == 3);
  constexpr unsigned short kColumns = 60;
  REQUIRE(table(plain)[0].size() > kColumns);
  const std::string narrow = printed_on_terminal(again, kColumns);
  const auto rows = table(narrow);
  CHECK(rows.size() > 3);
  CHECK(rows.size() % 3 == 0);
  for (const std::string& row : rows)
    CHECK(row.size() < kColumns);
  std::istringstream words(plain.substr(plain.find("  run  ") + 5));
  for (std::string word; words >> word && word != "d_psgd";)
    CHECK_THAT(narrow, Catch::Contains(word));
  CHECK(table(printed_on_terminal(again, 400)) == table(plain));
}

TEST_CASE("each rank has a curve of its own, and together they are the mean's distance") {
  const Scratch scratch;
  const std::string job = scratch.file("job.toml", std::string(kQuadratics) + kMethods);
  json_of("compare " + job + " --out " + scratch.path("kept"));
  size_t lines = 1, points = 1;
  for (const auto& [file, text] : records(scratch.path("kept"))) {
    const json result = json::parse(text)["result"];
    const json& samples = result["samples"];
    const json& ranks = result["rank_samples"];
    points += samples.size();
    REQUIRE(ranks.size() + 1 == samples.size());  // the last is the end, after the drain
    for (size_t k = 0; k < ranks.size(); ++k) {
      CHECK(ranks[k]["at"] == samples[k]["at"]);
      double distance = 0, off = 0;
      for (size_t rank = 0; rank < 8; ++rank) {
        distance += ranks[k]["distance"][rank].get<double>() / 8;
        off += ranks[k]["suboptimality"][rank].get<double>() / 8;
      }
      CHECK(distance == Approx(samples[k]["consensus_distance"].get<double>()).margin(1e-12));
      CHECK(off >= samples[k]["suboptimality"].get<double>() - 1e-12);  // the loss is convex
    }
    lines += 8 * ranks.size();
  }
  const std::string csv = text_of(scratch.path("kept/ranks.csv"));
  CHECK_THAT(csv, Catch::StartsWith("group,seed,rank,at,distance,suboptimality\nd_psgd,1,0,1.2"));
  CHECK(count(csv, "\n") == lines);
  const std::string curves = text_of(scratch.path("kept/curves.csv"));
  CHECK_THAT(curves, Catch::StartsWith("group,seed,at,gradients,bytes,suboptimality\nd_psgd,1,"));
  CHECK(count(curves, "\n") == points);
  const std::string svg = text_of(scratch.path("kept/ranks.svg"));
  CHECK(count(svg, "<polyline") == 2 * 8);
  CHECK(count(svg, "relays &lt;&amp;&gt; chains: suboptimality") == 1);
}

TEST_CASE("the best step size of each method is named, and whether a better one may lie beyond") {
  const Scratch scratch;
  const std::string job =
      scratch.file("job.toml",
                   "objective = \"quadratic\"\ndim = 10\nzeta2 = 1\nranks = 4\n"
                   "until = 200\nlrs = [1e-4, 0.05, 5e-4]\n"
                   "[[method]]\nname = \"d_psgd\"\n"
                   "[[method]]\nname = \"a2cid2\"\nlabel = \"pairs, \\\"ours\\\"\"\n");
  const json compared = json_of("compare " + job + " --out " + scratch.path("kept"));
  REQUIRE(compared["best_step_sizes"].size() == 2);
  for (const json& best : compared["best_step_sizes"]) {
    CHECK(best["lr"] == 0.05);
    CHECK(best["at_end"] == true);
  }
  const Ran ran = run_grapevine("compare " + job + " --quiet --out " + scratch.path("kept"));
  CHECK_THAT(ran.out,
             Catch::Contains("best step size of d_psgd, lr 0.05: 0.05, at the end of those"));
  CHECK_THAT(ran.out, Catch::Contains("pacing") && Catch::Contains("greedy"));
  const std::string csv = text_of(scratch.path("kept/compare.csv"));
  CHECK_THAT(csv, Catch::StartsWith("label,group,method,topology,ranks,partition,pacing,lr,seed,"));
  CHECK_THAT(csv, Catch::Contains("\n\"pairs, \"\"ours\"\"\","));
  CHECK(count(csv, "\n") == 7);
}

TEST_CASE("a rate that a method corrects by itself is told of that method, and of no other") {
  const Scratch scratch;
  const std::string job = scratch.file("job.toml", std::string(kQuadratics) + kMethods);
  const std::string out = " --out " + scratch.path("kept");
  const json compared = json_of("compare " + job + out);
  CHECK(cell_of(compared, "d_psgd", 1)["pacing"] == "greedy");
  CHECK(cell_of(compared, "relays <&> chains", 1)["pacing"] == "greedy, relay-lr");
  CHECK(compared["aggregates"][0]["pacing"] == "greedy");
  CHECK(compared["aggregates"][1]["pacing"] == "greedy, relay-lr");
  const Ran ran = run_grapevine("compare " + job + " --quiet" + out);
  CHECK_THAT(ran.out, Catch::Contains(" pacing ") && Catch::Contains(" greedy, relay-lr "));
  CHECK(count(ran.out, "relay-lr") == 1);
  CHECK_THAT(
      text_of(scratch.path("kept/compare.csv")),
      Catch::Contains(",greedy,0.05,1,") && Catch::Contains(",\"greedy, relay-lr\",0.05,1,"));
}

TEST_CASE("a run without the plan that others of its list have is called so") {
  const Scratch scratch;
  const std::string plan =
      scratch.file("slow.toml", "[[fault]]\nkind = \"slow\"\nranks = [0]\nfactor = 2\n");
  const std::string job = scratch.file("job.toml", std::string(kQuadratics) + "plan = [\"\", \"" +
                                                       plan + "\"]\nmethod = \"d_psgd\"\n");
  const json compared = json_of("compare " + job);
  CHECK(compared["cells"][0]["group"] == "d_psgd, no plan");
  CHECK(compared["cells"][1]["group"] == "d_psgd, plan " + plan);
}

TEST_CASE("two at once on one job are refused in a sentence") {
  const Scratch scratch;
  const std::string job = scratch.file("job.toml", std::string(kQuadratics) + kMethods);
  const int folder = open(scratch.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  REQUIRE(flock(folder, LOCK_EX) == 0);
  check_refused("compare " + job + " --out " + scratch.path(), 2, {"another compare runs"});
  close(folder);
  CHECK(run_grapevine("compare " + job + " --out " + scratch.path()).status == 0);
}

TEST_CASE("the example's job finds D2 and RelaySGD at the optimum, and D-PSGD beside it") {
  const Scratch scratch;
  const json compared =
      json_of("compare " GRAPEVINE_SOURCE_DIR "/examples/compare.toml --out " + scratch.path("x"));
  REQUIRE(compared["aggregates"].size() == 4);
  for (const json& group : compared["aggregates"]) {
    const bool stays_off = group["label"] == "d_psgd";
    CHECK(group["reached_target"] == (stays_off ? 0 : 3));
    CHECK((group["suboptimality"]["mean"].get<double>() > 1e-4) == stays_off);
    CHECK(group["seconds_to_target"]["mean"].is_null() == stays_off);
  }
}

TEST_CASE(
    "one rank three times slower: all-reduce needs three times as long, gossip as long as ever") {
  const Scratch scratch;
  const std::string examples = GRAPEVINE_SOURCE_DIR "/examples/";
  std::string job = text_of(examples + "stragglers.toml");
  const std::string plan = "examples/slow.toml";
  job.replace(job.find(plan, job.find("plan = ")), plan.size(), examples + "slow.toml");
  const json compared =
      json_of("compare " + scratch.file("job.toml", job) + " --out " + scratch.path("x"));
  REQUIRE(compared["aggregates"].size() == 4);
  const auto seconds = [&](size_t k) {
    return compared["aggregates"][k]["seconds_to_target"]["mean"].get<double>();
  };
  CHECK(seconds(1) < 1.15 * seconds(0));
  CHECK(seconds(3) == Approx(3 * seconds(2)).epsilon(0.1));
}

TEST_CASE("results do not depend on how many runs go on at once") {
  const Scratch scratch;
  const std::string job =
      scratch.file("job.toml", std::string("seeds = 2\n") + kQuadratics + kMethods);
  const json one = json_of("compare " + job + " --threads 1 --out " + scratch.path("one"));
  const json four = json_of("compare " + job + " --threads 4 --out " + scratch.path("four"));
  for (size_t k = 0; k < 4; ++k) {
    CHECK(one["cells"][k]["event_log_hash"] == four["cells"][k]["event_log_hash"]);
    CHECK(one["cells"][k]["file"] == four["cells"][k]["file"]);
  }
}

TEST_CASE("a second start runs nothing; what changed, and what is not whole, runs again") {
  const Scratch scratch;
  const std::string job = scratch.file("job.toml", std::string(kQuadratics) + kMethods);
  const std::string folder = scratch.path("job.results");
  json_of("compare " + job);
  const auto first = records(folder);
  CHECK(json_of("compare " + job)["reused"] == 2);
  CHECK(records(folder) == first);
  scratch.file("job.toml", std::string(kQuadratics) + kMethods + "lr = 0.06\n");
  const json changed = json_of("compare " + job);
  CHECK(cell_of(changed, "d_psgd", 1)["reused"] == true);
  CHECK(cell_of(changed, "relays <&> chains", 1)["reused"] == false);
  const std::string file = cell_of(changed, "d_psgd", 1)["file"];
  scratch.file("job.results/" + file, first.at(file).substr(0, 100));
  CHECK(json_of("compare " + job)["reused"] == 1);
}

TEST_CASE("killed in the middle and started again, it runs only what was not finished") {
  const Scratch scratch;
  const std::string three = std::string("seeds = 3\n") + kQuadratics + kShort;
  const std::string job = scratch.file("job.toml", three + kEndless + "1e9\n");
  const std::string folder = scratch.path("job.results");
  Running running("compare " + job + " --threads 2");
  REQUIRE(running.wait_for("3/6 "));  // the others never end
  running.signal(SIGKILL);
  CHECK(running.end() == 128 + SIGKILL);
  const auto kept = records(folder);
  REQUIRE(kept.size() == 3);
  scratch.file("job.toml", three + kEndless + "10\n");
  const json compared = json_of("compare " + job);
  CHECK(compared["finished"] == 6);
  CHECK(compared["reused"] == 3);
  const auto all = records(folder);
  CHECK(all.size() == 6);
  for (const auto& [file, text] : kept)
    CHECK(all.at(file) == text);
}

TEST_CASE("Ctrl+C ends it with what is finished") {
  const Scratch scratch;
  const std::string job =
      scratch.file("job.toml", std::string(kQuadratics) + kShort + kEndless + "1e9\n");
  Running running("compare " + job + " --threads 1");
  REQUIRE(running.wait_for("1/2 "));
  running.signal(SIGINT);
  CHECK(running.end() == 0);
  const json said = json::parse(text_of(scratch.path("job.results/compare.json")));
  CHECK(said["interrupted"] == true);
  CHECK(said["finished"] == 1);
  CHECK(records(scratch.path("job.results")).size() == 1);
  CHECK(said["aggregates"][0]["runs"] == 1);
}

TEST_CASE("a run that dies is told and runs again next time, the others stand") {
  const Scratch scratch;
  const std::string endless = std::string(kQuadratics) + kEndless;
  const std::string job = scratch.file("job.toml", endless + "1e9\n" + kMethods);
  const Ran ran = run_grapevine("compare --json " + job, "ulimit -c 0; ulimit -t 1;");
  CHECK(ran.status == 1);
  const json compared = json::parse(ran.out);
  CHECK(compared["failed"] == 1);
  CHECK(compared["finished"] == 2);
  CHECK_THAT(cell_of(compared, "d2", 1)["failure"].get<std::string>(),
             Catch::Contains("d2, seed 1: ended with status"));
  CHECK(cell_of(compared, "d2", 1)["suboptimality"].is_null());
  CHECK(compared["aggregates"].size() == 2);
  scratch.file("job.toml", endless + "10\n" + kMethods);
  CHECK(json_of("compare " + job)["reused"] == 2);
}

TEST_CASE("a run that diverges is told, the others stand; when none ends, the job is refused") {
  const Scratch scratch;
  const std::string sweep = "[[method]]\nname = \"qgm\"\nlr = [1e3, 0.05]\n";
  const std::string job = scratch.file("job.toml", kQuadratics + sweep);
  const Ran ran = run_grapevine("compare --json --threads 1 " + job);
  CHECK(ran.status == 1);
  const json compared = json::parse(ran.out);
  CHECK(compared["failed"] == 1);
  CHECK(compared["finished"] == 1);
  CHECK_THAT(cell_of(compared, "qgm, lr 1000", 1)["failure"].get<std::string>(),
             Catch::Contains("a smaller --lr may help"));
  scratch.file("job.toml", std::string(kQuadratics) + "[[method]]\nname = \"qgm\"\nlr = 1e3\n");
  check_refused("compare --quiet " + job, 2, {"no run finished", "a smaller --lr may help"});
}

TEST_CASE("a folder or a file that cannot be written is the world's error") {
  const Scratch scratch;
  const std::string job = scratch.file("job.toml", std::string(kQuadratics) + kMethods);
  const std::string file = scratch.file("file", std::string("x"));
  check_refused("compare " + job + " --quiet --out " + file + "/below", 1, {"out", "below"});
  check_refused("compare " + job + " --quiet", 1, {"job.results"}, "ulimit -f 1;");
}

#ifdef GRAPEVINE_HAS_NETWORKS
TEST_CASE("networks are compared by accuracy, over partitions, and by the way to a target") {
  const Scratch scratch;
  write_optdigits(scratch, 320, 200);
  const std::string job = scratch.file(
      "job.toml", "objective = \"network\"\nmodel = \"mlp\"\ndataset = \"optdigits\"\ndata = \"" +
                      scratch.path() +
                      "\"\nranks = 4\nlr = 0.05\ngradients = 400\n"
                      "partitions = [\"iid\", \"label\"]\ntarget_accuracy = 0.5\n"
                      "method = [\"a2cid2\", \"d_psgd\"]\n");
  const json compared = json_of("compare " + job);
  CHECK(compared["measure"] == "accuracy");
  REQUIRE(compared["finished"] == 4);
  for (const json& cell : compared["cells"]) {
    CHECK(cell["accuracy"].get<double>() > 0.5);
    CHECK(cell["worst_rank_accuracy"].is_number());
    CHECK(cell["seconds_to_target"].get<double>() < cell["virtual_seconds"].get<double>());
    CHECK(cell["bytes_to_target"].get<double>() < cell["bytes"].get<double>());
  }
  CHECK(compared["cells"][1]["group"] == "a2cid2, partition label");
}

TEST_CASE("language models are compared by their loss, at equal bytes too") {
  const Scratch scratch;
  std::string words;
  for (int k = 0; k < 400; ++k)
    words += "to be or not to be\n";
  const std::string text = scratch.file("book.txt", words);
  const std::string job = scratch.file(
      "job.toml",
      "objective = \"network\"\nmodel = \"gpt:1x1x16,ctx=8\"\ndataset = \"text:" + text +
          "\"\nranks = 2\nbatch = 4\nlr = 0.1\ngradients = 200\n"
          "topology = \"chain\"\ntarget_test_loss = 2.5\nmethod = \"a2cid2\"\n");
  const json compared = json_of("compare " + job);
  CHECK(compared["measure"] == "test_loss");
  const json& cell = compared["cells"][0];
  CHECK(cell["test_loss"].get<double>() < 2.5);
  CHECK(cell["bytes_to_target"].get<double>() > 0);
  CHECK(cell["bytes_to_target"].get<double>() < cell["bytes"].get<double>());
  const Ran ran = run_grapevine("compare " + job + " --quiet");
  CHECK_THAT(ran.out,
             Catch::Contains("target: test loss of at most 2.5") && Catch::Contains("  loss  "));
  CHECK_THAT(text_of(scratch.path("job.results/compare.svg")), Catch::Contains("test loss"));
}
#endif
