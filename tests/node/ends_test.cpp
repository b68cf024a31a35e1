// The end of runs of several processes: the report that a process writes, and the use of its time.
#include <csignal>

#include "tests/app/tools.hpp"
#include "tests/catch.hpp"
#include "tests/node/tools.hpp"

using namespace grapevine;
using namespace grapevine::test;

namespace {

Json record_in(const std::string& folder) {
  return Json::parse(text_of(folder + "/run.json"), nullptr, false);
}

std::vector<std::string> words(const Scratch& scratch, const char* share, uint64_t gradients) {
  return {std::string("--share=") + share, "--gradients=" + std::to_string(gradients), "--lr=1e-3",
          "--out=" + scratch.path("@")};
}

void wait_for_both(std::vector<std::unique_ptr<Process>>& nodes) {
  for (auto& node : nodes)
    node->wait_for(
        [](const Json& s) { return s["graph_ranks"] == 2 && sum_of(s["gradients"]) > 100; });
}

double sum_of_parts(const Json& cost) {
  double sum = 0;
  for (const auto& [part, seconds] : cost["parts"].items())
    sum += seconds.get<double>();
  return sum;
}

}  // namespace

TEST_CASE(
    "what a drained node has left of the pool the others do, and the last one stops the run") {
  constexpr uint64_t kWork = 1000000;
  const Scratch scratch;
  auto nodes = start_nodes(2, 1, words(scratch, "pool", kWork));
  wait_for_both(nodes);
  REQUIRE(run_grapevine("ctl " + nodes[1]->address() + " drain").status == 0);
  CHECK(nodes[1]->end() == 0);
  CHECK(record_in(scratch.path("b"))["state"] == "drained");
  const Json cost = nodes[1]->result()["cost"];
  REQUIRE(cost["lost"].size() == 1);
  CHECK(cost["lost"][0]["what"] == "drain");
  nodes[0]->wait_for([](const Json& s) { return s["graph_ranks"] == 1; });
  REQUIRE(run_grapevine("ctl " + nodes[0]->address() + " drain").status == 0);
  CHECK(nodes[0]->end() == 0);
  const Json stopped = record_in(scratch.path("a"));
  CHECK(stopped["state"] == "stopped");
  const uint64_t taken = stopped["result"]["gradients"];
  CHECK(taken < kWork);

  auto again = words(scratch, "pool", kWork);
  again.back() = "--out=" + scratch.path("a");
  again.insert(again.end(),
               {"--json", "--quiet", "--threads=1", "--node-name=a", "--ranks=1", "--first-rank=0",
                "--total-ranks=2", "--patience=1", "--objective=quadratic"});
  again.insert(again.begin(), "node");
  Process back(again);
  CHECK(back.end() == 0);
  CHECK(back.result()["resumed_at"] > 0);
  CHECK(back.result()["resumed_at"] <= taken);  // what it took while it left comes again
  CHECK(back.result()["gradients"].get<uint64_t>() >= kWork);
  CHECK(record_in(scratch.path("a"))["state"] == "finished");
}

TEST_CASE("with equal shares a run is incomplete whose ranks have died, and says so") {
  const Scratch scratch;
  auto nodes = start_nodes(2, 1, words(scratch, "equal", 2000000));
  wait_for_both(nodes);
  nodes[1]->signal(SIGKILL);
  CHECK(nodes[0]->end() == 1);
  CHECK_THAT(nodes[0]->err(), Catch::Contains("the run is incomplete: b and its ranks are gone"));
  const Json record = record_in(scratch.path("a"));
  CHECK(record["state"] == "incomplete");
  CHECK(record["result"]["split"] == true);
  CHECK(record["result"]["incomplete"] == "b and its ranks are gone");
}

TEST_CASE("with equal shares a run is incomplete whose other ranks have never come, and says so") {
  const Scratch scratch;
  auto alone = words(scratch, "equal", 1000);
  alone.insert(alone.end(), {"--json", "--quiet", "--threads=1", "--node-name=a", "--ranks=1",
                             "--total-ranks=2", "--patience=0.2", "--objective=quadratic"});
  alone.insert(alone.begin(), "node");
  Process a(alone);
  CHECK(a.end() == 1);
  CHECK_THAT(a.err(), Catch::Contains("the run is incomplete: 1 of 2 ranks took part"));
  CHECK(a.result()["gradients"] == 500);
}

TEST_CASE(
    "what a process that was killed has left of the pool the others do, and the run ends well") {
  const Scratch scratch;
  auto nodes = start_nodes(2, 1, words(scratch, "pool", 1000000));
  wait_for_both(nodes);
  nodes[1]->signal(SIGKILL);
  CHECK(nodes[0]->end() == 0);
  CHECK(record_in(scratch.path("a"))["state"] == "finished");
  CHECK(nodes[0]->result()["incomplete"].is_null());
}

TEST_CASE("a process that stood still says for how long, and does not take it for its speed") {
  auto nodes = start_nodes(2, 1, {"--gradients=0", "--until=600"});
  wait_for_both(nodes);
  nodes[1]->signal(SIGSTOP);
  nodes[0]->wait_for([](const Json& s) { return state_of(s, "b") == "dead"; });
  nodes[1]->signal(SIGCONT);
  const auto stood_still = [](const Json& s) {
    return s["cost"].is_object() && !s["cost"]["lost"].empty();
  };
  const Json cost = nodes[1]->wait_for(stood_still)["cost"];
  const Json& lost = cost["lost"][0];
  CHECK(lost["what"] == "silence");
  CHECK(lost["rank"] == 1);
  CHECK(lost["seconds"].get<double>() > 1);
  CHECK(lost["seconds"].get<double>() <= lost["until"].get<double>() - lost["at"].get<double>());
  CHECK(sum_of_parts(cost) == Approx(cost["seconds"].get<double>()));
  const Ran page = run_grapevine("ctl " + nodes[1]->address() + " metrics");
  for (const char* series : {"grapevine_efficiency_ratio ", "grapevine_cost_seconds{part=\"work\"}",
                             "grapevine_cost_seconds{part=\"faults\"}"})
    CHECK_THAT(page.out, Catch::Contains(series));
}

TEST_CASE("launch adds up what the time of its nodes went to, and so does cost of its folder") {
  const Scratch scratch;
  const std::string run = scratch.path("run");
  const Json told = json_of(
      "launch --nodes 2 --ranks 2 --objective quadratic --gradients 0 "
      "--until 1 --json --out " +
      run);
  const Json& cost = told["cost"];
  CHECK(cost["nodes"] == 2);
  CHECK(sum_of_parts(cost) == Approx(cost["seconds"].get<double>()));
  CHECK(cost["efficiency"].get<double>() > 0);
  CHECK(cost["efficiency"].get<double>() <= 1);
  CHECK(cost["steps"] == told["gradients"]);
  const Json folder = json_of("cost " + run + " --json");
  for (const char* figure : {"efficiency", "seconds", "steps", "steps_per_second"})
    CHECK(folder[figure].get<double>() == Approx(cost[figure].get<double>()));
  const Json one = json_of("cost " + run + "/node-1 --json");
  CHECK(one["steps"].get<double>() < cost["steps"].get<double>());
  CHECK_THAT(run_grapevine("cost " + run).out,
             Catch::Contains("efficiency") && Catch::Contains("of work in"));
}
