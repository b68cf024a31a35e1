// Links that are cut, and that turn bits over, in the middle of exchanges: what the ranks hold
// together stays.
#include <fmt/core.h>
#include <unistd.h>

#include <map>
#include <set>

#include "tests/app/tools.hpp"
#include "tests/catch.hpp"
#include "tests/node/tools.hpp"
#include "tests/skipped.hpp"
#include "tests/transport/stranger.hpp"

using namespace grapevine;
using namespace grapevine::test;

namespace {

// Nothing but gossip moves the models; plain averaging of a rank keeps the sum of x itself.
const std::vector<std::string> kGossip = {
    "--objective=consensus", "--method=ad_psgd", "--topology=chain", "--dim=20000", "--rate=50",
    "--gradients=0",         "--until=600"};

const std::vector<std::string> kEndlessRing = {"--topology=ring", "--rate=20", "--gradients=0",
                                               "--until=600"};

/// The mean of all ranks before anything has happened.
std::vector<double> mean_at_the_start(const Scratch& scratch, int ranks) {
  REQUIRE(run_grapevine("simulate --objective consensus --method ad_psgd --topology chain --dim "
                        "20000 --until 1e-9 --quiet --ranks " +
                        std::to_string(ranks) + " --out " + scratch.path("start"))
              .status == 0);
  return numbers_of(scratch.path("start/model.safetensors"));
}

/// Of edges whose two ends are at different nodes.
void check_both_ends_agree(const std::vector<std::unique_ptr<Process>>& nodes) {
  std::map<std::pair<int, int>, uint64_t> seen;
  for (const auto& node : nodes) {
    const Json result = node->result();
    for (const Json& e : result["exchanges_by_edge"]) {
      const std::pair ends(e[0].get<int>(), e[1].get<int>());
      const auto [at, first] = seen.emplace(ends, e[2].get<uint64_t>());
      INFO(ends.first << " " << ends.second);
      CHECK(at->second == e[2].get<uint64_t>());
    }
  }
}

/// Ends the run; what all ranks hold together is what they began with.
void check_end(std::vector<std::unique_ptr<Process>>& nodes, const std::vector<double>& start,
               const Scratch& scratch) {
  REQUIRE(run_grapevine("ctl " + nodes[0]->address() + " stop").status == 0);
  for (auto& node : nodes) {
    CHECK(node->end() == 0);
    const Json result = node->result();
    INFO(result.dump() << "\n" << node->err());
    CHECK(result["protocol_errors"] == 0);
    CHECK(result["broken_exchanges"] == 0);
    CHECK(result["quiet"] == true);
  }
  check_both_ends_agree(nodes);
  const std::vector<double> end = numbers_of(scratch.path("a/model.safetensors"));
  CHECK(farthest(start, end) < 1e-12);  // coordinates are of order 1
}

/// Two nodes of four ranks each, a chain, that gossip through what a plan does.
std::vector<std::unique_ptr<Process>> start_gossip(const Scratch& scratch,
                                                   const std::string& plan) {
  std::vector<std::string> words = kGossip;
  words.push_back("--plan=" + scratch.file("plan.toml", plan));
  words.push_back("--out=" + scratch.path("@"));
  return start_nodes(2, 4, words);
}

uint64_t exchanges_over_the_link(const Json& status) { return exchanges_of(status, 3, 4); }

}  // namespace

TEST_CASE("a link cut 200 times in mid-exchange: both ends apply an exchange, or neither does") {
  const Scratch scratch;
  const std::vector<double> start = mean_at_the_start(scratch, 8);
  std::string plan;
  for (int k = 0; k < 200; ++k)
    plan += "[[fault]]\nkind = \"cut\"\nlinks = [[3, 4]]\nat = " + std::to_string(0.02 * k) +
            "\nuntil = " + std::to_string(0.02 * k + 0.01) + "\n";
  auto nodes = start_gossip(scratch, plan);
  uint64_t lost = 0;
  for (auto& node : nodes) {
    const Json status = wait_for_status(node->address(), [](const Json& s) {
      return s["uptime_seconds"] > 4 && exchanges_over_the_link(s) > 20;
    });
    lost += status["frames_lost"]["by_plan"].get<uint64_t>();
  }
  CHECK(lost > 0);
  check_end(nodes, start, scratch);
}

TEST_CASE("bits turned over on the way are noticed: such frames are dropped, and the sum stays") {
  const Scratch scratch;
  const std::vector<double> start = mean_at_the_start(scratch, 8);
  auto nodes = start_gossip(scratch, "[[fault]]\nkind = \"corrupt\"\nprobability = 0.3\n");
  for (auto& node : nodes)
    wait_for_status(node->address(), [](const Json& s) {
      return s["links"].size() == 1 && s["links"][0]["corrupt"] > 5 &&
             exchanges_over_the_link(s) > 20 && s["frames_lost"]["corrupted_by_plan"] > 20;
    });
  check_end(nodes, start, scratch);
}

TEST_CASE("a node that trains with strangers connected trains on and admits an honest one") {
  auto nodes =
      start_nodes(2, 1, {"--until=600", "--gradients=0", "--listen=127.0.0.1:0", "--no-key"});
  wait_for_status(nodes[0]->address(), [](const Json& s) { return s["graph_ranks"] == 2; });
  const std::string address = nodes[0]->address();
  std::vector<Stranger> crowd;
  for (int k = 0; k < 300; ++k) {
    crowd.emplace_back(address);
    REQUIRE(crowd.back().open());
    const uint32_t words[] = {0, 0x1d000000, 0, 0};  // one segment of 3.9 GB
    if (k % 3 == 0) crowd.back().say(words, sizeof words);
    if (k % 3 == 1) crowd.back().say("GET / HTTP/1.1\r\n\r\n", 18);
  }
  Process late({"node", "--objective=quadratic", "--ranks=1", "--total-ranks=2", "--until=600",
                "--gradients=0", "--node-name=late", "--join=" + address, "--no-key", "--quiet",
                "--threads=1"});
  const Json there = nodes[0]->wait_for([](const Json& s) { return s["graph_ranks"] == 3; });
  const uint64_t before = sum_of(there["gradients"]);
  nodes[0]->wait_for([&](const Json& s) { return sum_of(s["gradients"]) > before + 1000; });
  for (size_t k = 0; k < crowd.size(); k += 3)
    CHECK(crowd[k].is_closed());  // at once: what it announces is never stored
}

TEST_CASE("a name that has the addresses of all hosts, the node's own first, leads to the others") {
#ifdef __SANITIZE_ADDRESS__
  return skipped("a name with several addresses: the sanitizer wants to be loaded first");
#endif
  const Scratch scratch;
  const auto host = [](int k) {  // of this machine, and of no other test
    return fmt::format("127.{}.{}.{}", 1 + getpid() % 250, getpid() / 250 % 250, k);
  };
  const std::string names = scratch.file(
      "hosts", fmt::format("{} peers\n{} peers\n{} peers\n", host(1), host(2), host(3)));
  const std::vector<std::string> told = {"LD_PRELOAD=libnss_wrapper.so",
                                         "NSS_WRAPPER_HOSTS=" + names};
  if (run_command(told[0] + " " + told[1] + " getent ahosts peers").out.find(host(3)) ==
      std::string::npos)
    return skipped("a name with several addresses: no libnss_wrapper.so here (libnss-wrapper)");
  const auto start = [&](const std::string& name, std::vector<std::string> more) {
    std::vector<std::string> words = {
        "node",        "--objective=quadratic", "--ranks=1",     "--threads=1",
        "--until=600", "--gradients=0",         "--patience=60", "--no-key",
        "--json",      "--node-name=" + name};
    words.insert(words.end(), more.begin(), more.end());
    return std::make_unique<Process>(words, told);
  };
  const auto there = start("b", {"--listen=" + host(3) + ":0"});  // at the second nobody listens
  const std::string port = there->address().substr(there->address().rfind(':'));
  const auto late = start("a", {"--listen=" + host(1) + port, "--join=peers" + port});
  for (Process* node : {there.get(), late.get()})
    node->wait_for([](const Json& s) { return s["graph_ranks"] == 2; });
  REQUIRE(run_grapevine("ctl " + late->address() + " stop").status == 0);
  CHECK(late->end() == 0);
  CHECK(there->end() == 0);
  CHECK(late->result()["ranks"] == 2);
  CHECK_THAT(late->err(), !Catch::Contains("refused"));  // it is nobody whom it turns away
}

TEST_CASE("a ring of sixteen processes holds few links each, and they end with one mean") {
  auto nodes = start_nodes(16, 1, kEndlessRing);
  for (auto& node : nodes)
    node->wait_for([](const Json& s) { return s["graph_ranks"] == 16; });
  size_t most = 0;
  for (auto& node : nodes) {  // what was needed to find the others is closed by and by
    const Json status = node->wait_for([](const Json& s) { return s["links"].size() <= 10; });
    most = std::max(most, status["links"].size());
  }
  WARN("sixteen processes on a ring: " << most << " links at most");
  REQUIRE(run_grapevine("ctl " + nodes[3]->address() + " stop").status == 0);
  std::set<std::string> hashes;
  for (auto& node : nodes) {
    const int status = node->end();
    INFO(node->err());
    CHECK(status == 0);
    const Json result = node->result();
    CHECK(result["protocol_errors"] == 0);
    hashes.insert(result["mean_hash"].dump());
  }
  CHECK(hashes.size() == 1u);
}
