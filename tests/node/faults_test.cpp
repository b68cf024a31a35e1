// Processes that die, stand still, come back or come late: the others train on.
#include <algorithm>
#include <cmath>
#include <csignal>

#include "app/options/config_file.hpp"
#include "app/run/execute.hpp"
#include "tests/app/tools.hpp"
#include "tests/catch.hpp"
#include "tests/node/tools.hpp"

using namespace grapevine;
using namespace grapevine::test;

namespace {

const std::vector<std::string> kEndless = {"--until=600", "--gradients=0"};

void wait_for_more(const std::string& address, uint64_t more) {
  const uint64_t before = sum_of(status_when_there(address)["gradients"]);
  wait_for_status(address, [&](const Json& s) { return sum_of(s["gradients"]) > before + more; });
}

/// A node of this program which tells nobody what its learning rate is: 50.
Error end_of_wild_node(const char* method, const std::string& join) {
  auto options = resolve_options(kNode, {{"objective", "quadratic", ""},
                                         {"method", method, ""},
                                         {"topology", "chain", ""},
                                         {"until", "600", ""},
                                         {"gradients", "0", ""},
                                         {"ranks", "1", ""},
                                         {"threads", "1", ""},
                                         {"mu", "0.5", ""},
                                         {"r0", "10", ""},
                                         {"lr", "50", ""},
                                         {"total-ranks", "2", ""},
                                         {"node-name", "wild", ""},
                                         {"join", join, ""}});
  REQUIRE(options);
  auto objective = make_objective_of(options->settings);
  REQUIRE(objective);
  const auto told = execute_node(options->settings, options->peers, {}, *objective, nullptr, {},
                                 [](const std::string&) {});
  if (!told) return told.error();
  REQUIRE(told->failure);
  return *told->failure;
}

}  // namespace

TEST_CASE("the first process is killed: the survivors see it dead, train on and agree at the end") {
  auto nodes = start_nodes(4, 2, kEndless);
  for (auto& node : nodes)
    wait_for_status(node->address(), [](const Json& s) { return s["graph_ranks"] == 8; });
  nodes[0]->signal(SIGKILL);
  for (size_t k = 1; k < 4; ++k) {
    wait_for_status(nodes[k]->address(), [](const Json& s) {
      return state_of(s, "a") == "dead" && s["graph_ranks"] == 6;
    });
    wait_for_more(nodes[k]->address(), 100);
  }
  REQUIRE(run_grapevine("ctl " + nodes[3]->address() + " stop").status == 0);
  for (size_t k = 1; k < 4; ++k) {
    REQUIRE(nodes[k]->end() == 0);
    const Json result = nodes[k]->result();
    CHECK(result["ranks"] == 6);
    CHECK(result["mean_hash"] == nodes[1]->result()["mean_hash"]);
    CHECK(result["protocol_errors"] == 0);
    CHECK(result["quiet"] == true);
  }
}

TEST_CASE("a process that stands still is suspected, and is back when it goes on") {
  auto nodes = start_nodes(3, 1, kEndless);
  for (auto& node : nodes)
    wait_for_status(node->address(), [](const Json& s) { return s["graph_ranks"] == 3; });
  nodes[1]->signal(SIGSTOP);
  wait_for_status(nodes[2]->address(), [](const Json& s) { return state_of(s, "b") == "suspect"; });
  wait_for_more(nodes[2]->address(), 100);
  nodes[1]->signal(SIGCONT);
  wait_for_status(nodes[2]->address(), [](const Json& s) { return state_of(s, "b") == "alive"; });
  wait_for_more(nodes[1]->address(), 100);
}

TEST_CASE(
    "a process that stood still until it was dead goes on in a new incarnation, in step with all") {
  auto nodes = start_nodes(2, 2, kEndless);
  for (auto& node : nodes)
    wait_for_status(node->address(), [](const Json& s) { return s["graph_ranks"] == 4; });
  nodes[1]->signal(SIGSTOP);
  wait_for_status(nodes[0]->address(), [](const Json& s) { return state_of(s, "b") == "dead"; });
  nodes[1]->signal(SIGCONT);
  for (auto& node : nodes)
    wait_for_status(node->address(), [](const Json& s) {
      return state_of(s, "b") == "alive" && s["graph_ranks"] == 4;
    });
  const auto across = [](const Json& s) {  // exchanges between the two
    uint64_t sum = 0;
    for (const Json& e : s["edges"])
      if ((e["ranks"][0] < 2) != (e["ranks"][1] < 2)) sum += e["exchanges"].get<uint64_t>();
    return sum;
  };
  const uint64_t before = across(status_when_there(nodes[0]->address()));
  wait_for_status(nodes[0]->address(), [&](const Json& s) { return across(s) > before + 50; });
  REQUIRE(run_grapevine("ctl " + nodes[0]->address() + " stop").status == 0);
  for (auto& node : nodes) {
    CHECK(node->end() == 0);
    CHECK(node->result()["protocol_errors"] == 0);
    CHECK(node->result()["quiet"] == true);
  }
}

TEST_CASE("a late joiner takes free ranks and trains with the others") {
  auto nodes = start_nodes(2, 2, kEndless);
  wait_for_status(nodes[0]->address(), [](const Json& s) { return s["graph_ranks"] == 4; });
  Process late({"node", "--objective=quadratic", "--ranks=2", "--total-ranks=4", "--until=600",
                "--gradients=0", "--node-name=late", "--join=" + nodes[1]->address(), "--json",
                "--quiet", "--threads=1"});
  for (Process* node : {&late, nodes[0].get()})
    node->wait_for([](const Json& s) { return s["graph_ranks"] == 6; });
  const Json status =
      wait_for_status(late.address(), [](const Json& s) { return sum_of(s["exchanges"]) > 20; });
  for (const Json& m : status["members"])
    if (m["node"] == "late") CHECK(m["ranks"] == Json({4, 5}));
}

TEST_CASE("a node whose steps diverge ends alone, and the others train on to the optimum") {
  for (const char* method : {"a2cid2", "d_psgd", "relaysum_grad"}) {
    INFO(method);
    std::vector<std::string> words = kEndless;
    words.insert(words.end(), {"--topology=chain", "--mu=0.5", "--r0=10", "--sample-seconds=0.2",
                               std::string("--method=") + method});
    auto nodes = start_nodes(2, 1, words);
    for (auto& node : nodes)
      wait_for_status(node->address(), [](const Json& s) { return s["graph_ranks"] == 2; });
    const Error why = end_of_wild_node(method, nodes[0]->address());
    CHECK(why.exit_status() == 1);
    CHECK_THAT(why.message, Catch::Contains("loss is") && Catch::Contains("a smaller --lr"));
    for (auto& node : nodes) {
      wait_for_status(node->address(), [](const Json& now) {
        return state_of(now, "wild") != "alive" && now["graph_ranks"] == 2;
      });
      wait_for_more(node->address(), 500);
    }
    const bool relays = std::string(method) == "relaysum_grad";
    REQUIRE(run_grapevine("ctl " + nodes[1]->address() + " stop").status == 0);
    for (auto& node : nodes) {
      CHECK(node->end() == 0);
      // From 50. Ranks that relay steps never agree again on what one of them took before it knew.
      CHECK(node->result()["suboptimality"].get<double>() < (relays ? 50 : 1e-9));
    }
  }
}

TEST_CASE("a process that comes back knows how far the run is") {
  const std::vector<std::string> words = {"--gradients=2000000000", "--until=0"};
  auto nodes = start_nodes(2, 2, words);
  const Json before = wait_for_status(nodes[0]->address(), [](const Json& s) {
    return s["graph_ranks"] == 4 && sum_of(s["gradients"]) > 50000;
  });
  nodes[1]->signal(SIGKILL);
  wait_for_status(nodes[0]->address(), [](const Json& s) { return state_of(s, "b") == "dead"; });
  Process again({"node", "--ranks=2", "--node-name=b", "--threads=1", "--json", "--quiet",
                 "--join=" + nodes[0]->address()});
  const Json status =
      wait_for_status(again.address(), [](const Json& s) { return sum_of(s["gradients"]) > 0; });
  CHECK(status["progress"].get<double>() > 0.8 * before["progress"].get<double>());
  CHECK(std::is_sorted(status["ranks_here"].begin(), status["ranks_here"].end()));
}

TEST_CASE("a killed process that is started again comes back in a new incarnation") {
  auto nodes = start_nodes(2, 2, kEndless);
  wait_for_status(nodes[0]->address(), [](const Json& s) { return s["graph_ranks"] == 4; });
  nodes[1]->signal(SIGKILL);
  wait_for_status(nodes[0]->address(), [](const Json& s) { return state_of(s, "b") == "dead"; });
  Process again({"node", "--objective=quadratic", "--ranks=2", "--first-rank=2", "--total-ranks=4",
                 "--until=600", "--gradients=0", "--node-name=b", "--threads=1", "--json",
                 "--quiet", "--join=" + nodes[0]->address()});
  const Json status = wait_for_status(nodes[0]->address(), [](const Json& s) {
    return state_of(s, "b") == "alive" && s["graph_ranks"] == 4;
  });
  for (const Json& m : status["members"])
    if (m["node"] == "b") CHECK(m["incarnation"].get<int>() > 1);
}

TEST_CASE("launch kills and restarts processes by the plan, and the run ends well") {
  // However few gradients a busy machine computes in that time: with a rate of 0.1 and --mu 0.5 a
  // step of every rank takes a tenth off what is left of 50. Half of that is asked for.
  const auto bound_after = [](double gradients) {
    return std::max(1e-12, 50 * std::exp(-0.05 * gradients / 6));
  };
  const Scratch scratch;
  const std::string plan =
      scratch.file("plan.toml",
                   "[[fault]]\nkind = \"kill\"\nranks = [2]\nat = 0.5\n"
                   "[[fault]]\nkind = \"restart\"\nranks = [2]\nat = 1\n"
                   "[[fault]]\nkind = \"reconfigure\"\ntopology = \"complete\"\nat = 1.5\n");
  const Ran ran = run_grapevine(
      "launch --nodes 3 --ranks 2 --objective quadratic --mu 0.5 --gradients 0 "
      "--until 5 --json --plan " +
      plan + " --out " + scratch.path("run"));
  INFO(ran.err);
  CHECK(ran.status == 0);
  for (const char* node : {"node-0", "node-1", "node-2"})
    CHECK(exists(scratch.path("run/") + node + "/model.safetensors"));
  const Json told = Json::parse(ran.out, nullptr, false);
  REQUIRE(told.is_object());
  CHECK(told["suboptimality"].get<double>() < bound_after(told["gradients"]));
  CHECK_THAT(ran.err, Catch::Contains(".1 is started again"));
}

TEST_CASE("launch does not wait for faults of the plan that come after the end of the run") {
  const Scratch scratch;
  const std::string plan =
      scratch.file("plan.toml",
                   "[[fault]]\nkind = \"kill\"\nranks = [2]\nat = 100000\n"
                   "[[fault]]\nkind = \"restart\"\nranks = [2]\nat = 100001\n");
  const Ran ran = run_grapevine(
      "launch --nodes 2 --ranks 2 --objective quadratic --share equal --gradients 400 --json "
      "--plan " +
      plan);
  INFO(ran.err);
  CHECK(ran.status == 0);
  const Json told = Json::parse(ran.out, nullptr, false);
  REQUIRE(told.is_object());
  CHECK(told["gradients"] == 400);
  CHECK(told["incomplete"].is_null());
}

TEST_CASE("with equal shares launch says how many gradients were not taken, with status 1") {
  const Scratch scratch;
  const std::string plan =
      scratch.file("plan.toml", "[[fault]]\nkind = \"kill\"\nranks = [2]\nat = 0.5\n");
  const Ran ran = run_grapevine(
      "launch --nodes 2 --ranks 2 --objective quadratic --share equal --gradients 400000 --json "
      "--plan " +
      plan);
  INFO(ran.err);
  CHECK(ran.status == 1);
  const Json told = Json::parse(ran.out, nullptr, false);
  REQUIRE(told.is_object());
  CHECK_THAT(told["incomplete"].get<std::string>(),
             Catch::Contains(" of 400,000 gradients were taken"));
  CHECK_THAT(ran.err, Catch::Contains("the run is incomplete: "));
}

TEST_CASE("faults of links that are injected into running nodes are real, and lose no sum") {
  const Scratch scratch;
  const std::string plan = scratch.file("plan.toml",
                                        "[[fault]]\nkind = \"loss\"\n"
                                        "probability = 0.2\n");
  auto nodes = start_nodes(2, 2, kEndless);
  for (auto& node : nodes) {
    wait_for_status(node->address(), [](const Json& s) { return s["graph_ranks"] == 4; });
    REQUIRE(run_grapevine("ctl " + node->address() + " inject " + plan).status == 0);
  }
  const Json lossy = wait_for_status(nodes[0]->address(), [](const Json& s) {
    return s["frames_lost"]["by_plan"].get<uint64_t>() > 100;
  });
  const uint64_t exchanges = sum_of(lossy["exchanges"]);
  wait_for_status(nodes[0]->address(),
                  [&](const Json& s) { return sum_of(s["exchanges"]) > exchanges + 20; });
  check_refused("ctl " + nodes[0]->address() + " inject " +
                    scratch.file("bad.toml", "[[fault]]\nkind = \"flood\"\n"),
                2, {"flood", "accepted"});
  REQUIRE(run_grapevine("ctl " + nodes[0]->address() + " stop").status == 0);
  for (auto& node : nodes) {
    CHECK(node->end() == 0);
    CHECK(node->result()["protocol_errors"] == 0);
  }
}

TEST_CASE("processes come and go, three times: all that are left agree at the end") {
  auto nodes = start_nodes(3, 1, kEndless);
  for (auto& node : nodes)
    node->wait_for([](const Json& s) { return s["graph_ranks"] == 3; });
  for (size_t k = 0; k < 3; ++k) {  // the oldest goes, a new one comes
    nodes[k]->signal(SIGKILL);
    const std::string address = nodes[k + 1]->address(), name = "late" + std::to_string(k);
    nodes.push_back(std::make_unique<Process>(std::vector<std::string>{
        "node", "--objective=quadratic", "--ranks=1", "--until=600", "--gradients=0", "--threads=1",
        "--node-name=" + name, "--join=" + address, "--json", "--quiet"}));
    for (size_t n = k + 1; n < nodes.size(); ++n)
      nodes[n]->wait_for(
          [&](const Json& s) { return s["graph_ranks"] == 3 && state_of(s, name) == "alive"; });
    wait_for_more(nodes.back()->address(), 100);
  }
  REQUIRE(run_grapevine("ctl " + nodes.back()->address() + " stop").status == 0);
  for (size_t n = 3; n < nodes.size(); ++n) {
    CHECK(nodes[n]->end() == 0);
    CHECK(nodes[n]->result()["ranks"] == 3);
    CHECK(nodes[n]->result()["mean_hash"] == nodes[3]->result()["mean_hash"]);
    CHECK(nodes[n]->result()["protocol_errors"] == 0);
  }
}
