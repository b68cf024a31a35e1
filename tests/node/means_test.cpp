// Means of real processes: a large snapshot disturbs nobody, and who has no mean is named.
#include <algorithm>
#include <csignal>
#include <set>

#include "app/system/ask_node.hpp"
#include "models/files/tensor_file.hpp"
#include "tests/app/tools.hpp"
#include "tests/catch.hpp"
#include "tests/models/tools.hpp"
#include "tests/node/tools.hpp"

using namespace grapevine;
using namespace grapevine::test;

// A machine with more to do than it has cores for may keep a whole process waiting, who is
// suspected then and says that it lives. That no actor waits for a pass over the model, on whatever
// threads there are, is a promise of the scheduler (tests/clocks/wall_scheduler_test.cpp).
TEST_CASE("while a large snapshot is taken nodes answer consoles, and nobody is taken for dead") {
  constexpr size_t kDim = 2'000'000;
  const Scratch scratch;
  auto nodes = start_nodes(3, 1,
                           {"--until=600", "--gradients=0", "--objective=consensus", "--rate=0.1",
                            "--dim=" + std::to_string(kDim)});
  for (const auto& node : nodes)
    node->wait_for([](const Json& s) { return s["graph_ranks"] == 3; });
  const std::string file = scratch.path("m.safetensors");
  int rounds = 0;  // of answers before the snapshot is there
  for (int tries = 0; tries < 5 && rounds < 3; ++tries) {  // it may be there before three of them
    Process taking({"ctl", nodes[1]->address(), "snapshot", file});
    for (rounds = 0; !taking.ended(); ++rounds)
      for (const auto& node : nodes)
        REQUIRE(status_of(node->address()).is_object());
    CHECK(taking.end() == 0);
  }
  CHECK(rounds >= 3);
  CHECK(numbers_of(file).size() == kDim);
  for (const auto& node : nodes) {
    const Json s = status_when_there(node->address());
    for (const Json& m : s["members"]) {
      CHECK(m["state"] != "dead");
      CHECK(m["incarnation"] == 1);
    }
    for (const Json& line : s["events"])
      CHECK_THAT(line.get<std::string>(), !Catch::Contains("dead"));
  }
}

TEST_CASE("a snapshot is fetched from any offset on, each answer with its hash") {
  constexpr size_t kDim = 300'000;
  auto nodes = start_nodes(2, 1,
                           {"--until=600", "--gradients=0", "--objective=consensus", "--rate=0.1",
                            "--dim=" + std::to_string(kDim)});
  nodes[0]->wait_for([](const Json& s) { return s["graph_ranks"] == 2; });
  const std::string address = nodes[0]->address();
  const auto whole = fetch_snapshot(address, "");
  REQUIRE(whole);
  REQUIRE(whole->bytes.size() == 8 * kDim);
  const Json told = Json::parse(whole->description);
  CHECK(told["ranks"] == 2);
  CHECK(told["bytes"] == 8 * kDim);
  const auto mean = told["mean"].get<uint64_t>();
  std::string from_within;
  const auto tail = [&](uint64_t of, uint64_t offset) {
    from_within.clear();
    return follow_node(address, "", {ConsoleVerb::snapshot, {}, of, offset},
                       [&](const ConsoleReply& part) {
                         from_within += part.bytes;
                         return part.ok;
                       });
  };
  REQUIRE(tail(mean, 8 * kDim - 1000));
  CHECK(from_within == whole->bytes.substr(8 * kDim - 1000));
  REQUIRE(tail(mean, 100));
  CHECK(from_within == whole->bytes.substr(100, kAnswerBytes));
  REQUIRE(tail(mean, 1'000'000'000));
  CHECK(from_within.empty());
  REQUIRE(tail(mean + 1, 0));
  CHECK(from_within.empty());
}

#ifdef GRAPEVINE_HAS_NETWORKS
TEST_CASE("nodes that train a network with batch norms save one model, its statistics too") {
  const Scratch scratch;
  write_optdigits(scratch, 320, 40);
  auto nodes =
      start_nodes(2, 1,
                  {"--objective=network", "--model=resnet18", "--dataset=optdigits", "--batch=4",
                   "--gradients=3", "--data=" + scratch.path(), "--out=" + scratch.path("@")});
  for (const auto& node : nodes) {
    INFO(node->err());
    REQUIRE(node->end() == 0);
  }
  const auto a = read_tensors(scratch.path("a/model.safetensors"));
  const auto b = read_tensors(scratch.path("b/model.safetensors"));
  REQUIRE(a);
  REQUIRE(b);
  REQUIRE(a->size() == b->size());
  size_t statistics = 0;
  for (size_t k = 0; k < a->size(); ++k) {
    const StoredTensor &ours = (*a)[k], &theirs = (*b)[k];
    INFO(ours.name);
    CHECK(ours.name == theirs.name);
    if (ours.name.ends_with(".num_batches_tracked")) continue;
    CHECK(ours.bytes == theirs.bytes);
    statistics += ours.name.find(".running_") != std::string::npos;
  }
  CHECK(statistics == 2 * 20);
}

TEST_CASE("the worst rank of a launch is the worst of all its nodes") {
  const Scratch scratch;
  write_optdigits(scratch, 320, 200);
  const Json told = json_of(
      "launch --nodes 4 --ranks 1 --objective network --model mlp --dataset optdigits "
      "--partition label --rate 0.001 --gradients 400 --quiet --data " +
      scratch.path() + " --out " + scratch.path("run"));
  std::vector<double> worst;
  for (int node = 0; node < 4; ++node) {
    const std::string record = scratch.path("run/node-" + std::to_string(node) + "/run.json");
    worst.push_back(Json::parse(text_of(record))["result"]["worst_rank_accuracy"]);
  }
  CHECK(told["worst_rank_accuracy"] == *std::min_element(worst.begin(), worst.end()));
}
#endif

TEST_CASE("all nodes end with one mean, whoever was told to stop") {
  auto nodes = start_nodes(5, 1, {"--until=600", "--gradients=0", "--dim=1000"});
  for (const auto& node : nodes)
    node->wait_for([](const Json& s) { return s["graph_ranks"] == 5; });
  REQUIRE(run_grapevine("ctl " + nodes[4]->address() + " stop").status == 0);
  std::set<std::string> hashes;
  for (const auto& node : nodes) {
    CHECK(node->end() == 0);
    const Json told = node->result();
    CHECK(told["ranks"] == 5);
    CHECK(told["nodes"] == 5);
    CHECK(told["missing"].empty());
    hashes.insert(told["mean_hash"].get<std::string>());
  }
  CHECK(hashes.size() == 1);
}

TEST_CASE("a node that never ends is missing by name, and the exit status says so") {
  auto nodes = start_nodes(3, 1, {"--until=600", "--gradients=0", "--patience=30"});
  for (const auto& node : nodes)
    node->wait_for([](const Json& s) { return s["graph_ranks"] == 3; });
  nodes[2]->signal(SIGSTOP);
  REQUIRE(run_grapevine("ctl " + nodes[0]->address() + " stop").status == 0);
  std::set<std::string> hashes;
  for (const size_t k : {0, 1}) {
    CHECK(nodes[k]->end() == 1);
    CHECK_THAT(nodes[k]->err(), Catch::Contains("have not confirmed the mean of this node: c"));
    const Json told = nodes[k]->result();
    CHECK(told["missing"] == Json({"c"}));
    CHECK(told["ranks"] == 2);
    hashes.insert(told["mean_hash"].get<std::string>());
  }
  CHECK(hashes.size() == 1);
  nodes[2]->signal(SIGKILL);
}
