// Two processes with one name.
#include <csignal>

#include "tests/catch.hpp"
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
  const Json before = status_of(nodes[0]->address());
  const std::string taken = "another process of this name is there and answers";
  for (const std::string name : {"b", "c"}) {
    auto second = another(name, nodes[0]->address());
    CHECK(second->end() == 1);
    CHECK_THAT(second->err(), Catch::Contains(taken));
  }
  const Json after = wait_for_status(nodes[0]->address(), [&](const Json& s) {
    return sum_of(s["gradients"]) > sum_of(before["gradients"]);
  });
  CHECK_THAT(after["events"].dump(), Catch::Contains(taken));
  for (const char* name : {"b", "c"}) {
    CHECK(state_of(after, name) == "alive");
    CHECK(incarnation_of(after, name) == incarnation_of(before, name));
  }
}

TEST_CASE("a second process takes the place of one that stands still, which ends when it goes on") {
  auto nodes = start_nodes(3, 1, kEndless);
  for (auto& node : nodes)
    wait_for_status(node->address(), [](const Json& s) { return s["graph_ranks"] == 3; });
  const int before = incarnation_of(status_of(nodes[0]->address()), "b");
  nodes[1]->signal(SIGSTOP);
  auto second = another("b", nodes[0]->address());
  const Json status = wait_for_status(nodes[2]->address(), [&](const Json& s) {
    return state_of(s, "b") == "alive" && incarnation_of(s, "b") > before && s["graph_ranks"] == 3;
  });
  nodes[1]->signal(SIGCONT);
  CHECK(nodes[1]->end() == 1);
  CHECK_THAT(nodes[1]->err(), Catch::Contains("another process has the name b by now"));
  const Json later = wait_for_status(nodes[2]->address(), [&](const Json& s) {
    return sum_of(s["gradients"]) > sum_of(status["gradients"]) && s["graph_ranks"] == 3;
  });
  CHECK(incarnation_of(later, "b") <= incarnation_of(status, "b") + 2);
}
