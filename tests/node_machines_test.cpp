// Machines with a cable between them that can be pulled: network namespaces that the test makes.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>

#include "tests/app_tools.hpp"
#include "tests/catch.hpp"
#include "tests/node_tools.hpp"

using namespace grapevine;
using namespace grapevine::test;

namespace {

/// Four machines, two on either side of a cable. They go with the object.
class Machines {
 public:
  Machines() : hub_("gvt" + std::to_string(getpid())) {
    real_ = geteuid() == 0 && ip("netns add " + hub_);
    if (!real_) return;
    const std::string in_hub = "-n " + hub_ + " ";
    for (const char* bridge : {"left", "right"})
      REQUIRE((ip(in_hub + "link add " + bridge + " type bridge") &&
               ip(in_hub + "link set " + bridge + " up")));
    REQUIRE(ip(in_hub + "link add cable type veth peer name plug"));
    REQUIRE(ip(in_hub + "link set cable master left up"));
    REQUIRE(ip(in_hub + "link set plug master right up"));
    for (int k = 0; k < 4; ++k) {
      const std::string machine = name(k), port = "p" + std::to_string(k);
      REQUIRE(ip("netns add " + machine));
      REQUIRE(ip(in_hub + "link add " + port + " type veth peer name eth0 netns " + machine));
      REQUIRE(ip(in_hub + "link set " + port + " master " + (k < 2 ? "left" : "right") + " up"));
      REQUIRE(ip("-n " + machine + " addr add 10.78.0." + std::to_string(k + 1) + "/24 dev eth0"));
      REQUIRE(ip("-n " + machine + " link set eth0 up"));
      REQUIRE(ip("-n " + machine + " link set lo up"));
    }
  }
  ~Machines() {
    for (int k = 0; k < 4; ++k)
      ip("netns del " + name(k));
    ip("netns del " + hub_);
  }

  bool real() const { return real_; }
  std::string name(int k) const { return hub_ + "-" + std::to_string(k); }
  void cable(bool in) { REQUIRE(ip("-n " + hub_ + " link set cable " + (in ? "up" : "down"))); }

 private:
  static bool ip(const std::string& words) {
    return std::system(("ip " + words + " >/dev/null 2>&1").c_str()) == 0;
  }

  std::string hub_;
  bool real_ = false;
};

/// What `grapevine ctl` says inside a machine; null where it gets no answer.
Json status_in(const Machines& machines, int k, const std::string& address,
               const std::string& key) {
  const Ran ran = run_grapevine("ctl " + address + " status --json --key " + key,
                                "ip netns exec " + machines.name(k));
  return Json::parse(ran.out, nullptr, false);
}

}  // namespace

TEST_CASE("two machines and two, parted and joined again: both halves train on, then all are one") {
  Machines machines;
  if (!machines.real()) {
    WARN("no network namespaces here (needs root): not shown");
    return;
  }
  const Scratch scratch;
  const std::string key = scratch.path("run.key");
  REQUIRE(run_grapevine("keygen " + key).status == 0);
  std::vector<std::unique_ptr<Process>> nodes;
  std::vector<std::string> addresses;
  for (int k = 0; k < 4; ++k) {
    const std::string name(1, static_cast<char>('a' + k));
    std::vector<std::string> words = {"node",
                                      "--objective=quadratic",
                                      "--gradients=0",
                                      "--until=600",
                                      "--ranks=2",
                                      "--key=" + key,
                                      "--threads=1",
                                      "--total-ranks=8",
                                      "--first-rank=" + std::to_string(2 * k),
                                      "--quiet",
                                      "--json",
                                      "--patience=60",
                                      "--node-name=" + name,
                                      "--listen=10.78.0." + std::to_string(k + 1) + ":0"};
    if (k > 0) words.push_back("--join=" + addresses[0]);
    nodes.push_back(std::make_unique<Process>(
        words, std::vector<std::string>{"ip", "netns", "exec", machines.name(k)}));
    addresses.push_back(nodes.back()->address());
  }
  using Views = std::vector<Json>;
  const auto wait_for_views = [&](const std::function<bool(const Views&)>& holds) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    for (;;) {
      Views views;
      for (int k = 0; k < 4; ++k)
        views.push_back(status_in(machines, k, addresses[static_cast<size_t>(k)], key));
      const bool all =
          std::all_of(views.begin(), views.end(), [](auto& v) { return v.is_object(); });
      if (all && holds(views)) return views;
      INFO(views[0].dump() << "\n" << views[3].dump());
      REQUIRE(std::chrono::steady_clock::now() < deadline);
    }
  };
  const auto of_ranks = [](int ranks) {
    return [ranks](const Views& views) {
      return std::all_of(views.begin(), views.end(),
                         [&](const Json& v) { return v["graph_ranks"] == ranks; });
    };
  };
  const Views whole = wait_for_views(of_ranks(8));
  for (const Json& link : whole[0]["links"])
    CHECK((link["bulk"] == "tls" || link["bulk"] == "none"));
  machines.cable(false);
  const Views halves = wait_for_views(of_ranks(4));
  CHECK(state_of(halves[0], "d") == "dead");
  CHECK(state_of(halves[3], "a") == "dead");
  wait_for_views([&](const Views& views) {
    for (size_t k = 0; k < 4; ++k)
      if (sum_of(views[k]["gradients"]) < sum_of(halves[k]["gradients"]) + 200 ||
          sum_of(views[k]["exchanges"]) < sum_of(halves[k]["exchanges"]) + 20)
        return false;
    return true;
  });
  machines.cable(true);
  wait_for_views([&](const Views& views) {
    for (const Json& v : views)
      if (v["graph_ranks"] != 8 || v["epoch"] != views[0]["epoch"] ||
          v["topology"] != views[0]["topology"])
        return false;
    return true;
  });
  REQUIRE(run_grapevine("ctl " + addresses[2] + " stop --key " + key,
                        "ip netns exec " + machines.name(2))
              .status == 0);
  for (auto& node : nodes) {
    REQUIRE(node->end() == 0);
    CHECK(node->result()["ranks"] == 8);
    CHECK(node->result()["mean_hash"] == nodes[0]->result()["mean_hash"]);
    CHECK(node->result()["protocol_errors"] == 0);
  }
}
