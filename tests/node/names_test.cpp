// Two processes with one name, and starters that give none twice.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "tests/app/tools.hpp"
#include "tests/catch.hpp"
#include "tests/eventually.hpp"
#include "tests/node/tools.hpp"

using namespace grapevine;
using namespace grapevine::test;

namespace {

const std::vector<std::string> kEndless = {"--until=600", "--gradients=0"};

std::unique_ptr<Process> another(const std::string& name, const std::string& join) {
  return std::make_unique<Process>(std::vector<std::string>{
      "node", "--objective=quadratic", "--ranks=1", "--until=600", "--gradients=0", "--threads=1",
      "--json", "--quiet", "--patience=4", "--node-name=" + name, "--join=" + join});
}

// "NAME listens on ADDRESS": the names that a launch tells, once it has told so many.
std::map<std::string, std::string> nodes_told_by(Process& launch, size_t count) {
  std::map<std::string, std::string> nodes;
  const auto all_told = [&] {
    ChildProcess::wait_any({&launch.child()}, 100);
    std::istringstream lines(launch.err());
    const std::regex told("(\\S+) listens on (\\S+)$");
    std::smatch parts;
    for (std::string line; std::getline(lines, line);)
      if (std::regex_search(line, parts, told)) nodes[parts[1]] = parts[2];
    return nodes.size() >= count || launch.ended();
  };
  eventually(all_told, kBusyMachine);
  INFO(launch.err());
  CHECK_FALSE(launch.ended());
  return nodes;
}

int incarnation_of(const Json& status, const std::string& node) {
  for (const Json& m : status["members"])
    if (m["node"] == node) return m["incarnation"].get<int>();
  return 0;
}

}  // namespace

TEST_CASE(
    "a second process of a name is refused while the first answers, with a line at both ends") {
  auto nodes = start_nodes(3, 1, kEndless);
  for (auto& node : nodes)
    wait_for_status(node->address(), [](const Json& s) { return s["graph_ranks"] == 3; });
  const Json before = status_when_there(nodes[0]->address());
  const std::string taken = "another process of this name is in the run and answers";
  for (const std::string name : {"b", "c"}) {
    auto second = another(name, nodes[0]->address());
    CHECK(second->end() == 1);
    CHECK_THAT(second->err(), Catch::Contains("refused by ") && Catch::Contains(taken));
  }
  const Json after = wait_for_status(nodes[0]->address(), [&](const Json& s) {
    return sum_of(s["gradients"]) > sum_of(before["gradients"]) && all_alive(s);
  });
  CHECK_THAT(after["events"].dump(), Catch::Contains(taken));
  for (const char* name : {"b", "c"}) {
    CHECK(state_of(after, name) == "alive");
    CHECK(incarnation_of(after, name) == incarnation_of(before, name));
  }
}

TEST_CASE("two launches on a machine, one in a job of others, have four names that all answer") {
  const Scratch scratch;
  const std::string folder = "XDG_RUNTIME_DIR=" + scratch.path();  // where nodes have their names
  std::vector<std::string> endless = {"launch", "--nodes=2", "--ranks=1", "--objective=quadratic"};
  endless.insert(endless.end(), kEndless.begin(), kEndless.end());
  Process first(endless, {folder});
  Process second(endless, {folder, "RANK=0", "WORLD_SIZE=2", "MASTER_ADDR=192.0.2.1",
                           "MASTER_PORT=29500", "SLURM_PROCID=0", "SLURM_NTASKS=2",
                           "SLURM_JOB_ID=7", "SLURM_STEP_NODELIST=192.0.2.1"});
  std::set<std::string> names;
  for (Process* all : {&first, &second}) {
    const auto told = nodes_told_by(*all, 2);
    REQUIRE(told.size() == 2);
    for (const auto& [name, address] : told) {
      CHECK(names.insert(name).second);
      wait_for_status(address, [](const Json& s) { return s["graph_ranks"] == 2; });
      const Ran asked = run_grapevine("ctl " + name + " status --json", "export " + folder + ";");
      INFO(name << "\n" << asked.err);
      REQUIRE(asked.status == 0);
      const Json status = Json::parse(asked.out);
      CHECK(status["node"] == name);
      CHECK(std::ranges::any_of(status["members"], [&](const Json& m) {
        return m["node"] == name && m["address"] == address;
      }));
    }
  }
}

TEST_CASE("a second process takes the place of one that stands still, which ends when it goes on") {
  auto nodes = start_nodes(3, 1, kEndless);
  for (auto& node : nodes)
    wait_for_status(node->address(), [](const Json& s) { return s["graph_ranks"] == 3; });
  const int before = incarnation_of(status_when_there(nodes[0]->address()), "b");
  nodes[1]->signal(SIGSTOP);
  auto second = another("b", nodes[0]->address());
  const Json status = wait_for_status(nodes[2]->address(), [&](const Json& s) {
    return state_of(s, "b") == "alive" && incarnation_of(s, "b") > before && s["graph_ranks"] == 3;
  });
  nodes[1]->signal(SIGCONT);
  CHECK(nodes[1]->end() == 1);
  CHECK_THAT(nodes[1]->err(), Catch::Contains("another process has taken the name b"));
  const Json later = wait_for_status(nodes[2]->address(), [&](const Json& s) {
    return sum_of(s["gradients"]) > sum_of(status["gradients"]) && s["graph_ranks"] == 3;
  });
  CHECK(incarnation_of(later, "b") <= incarnation_of(status, "b") + 2);
}
