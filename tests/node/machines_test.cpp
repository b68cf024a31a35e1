// Machines with a cable between them that can be pulled: network namespaces that the test makes.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>

#include "tests/app/tools.hpp"
#include "tests/catch.hpp"
#include "tests/node/tools.hpp"
#include "tests/skipped.hpp"

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

using Views = std::vector<Json>;

/// A node of two ranks on each of them, and what their consoles say there.
class Nodes {
 public:
  Nodes(const Machines& machines, std::string key) : machines_(machines), key_(std::move(key)) {
    for (int k = 0; k < 4; ++k) {
      const std::string number = std::to_string(k);
      std::vector<std::string> words = {"node",          "--objective=quadratic",
                                        "--gradients=0", "--until=600",
                                        "--ranks=2",     "--total-ranks=8",
                                        "--threads=1",   "--patience=60",
                                        "--quiet",       "--json",
                                        "--key=" + key_, "--node-name=n" + number};
      words.push_back("--first-rank=" + std::to_string(2 * k));
      // The others listen where the first one reaches them.
      words.push_back(k == 0 ? "--listen=10.78.0.1:0" : "--join=" + addresses_[0]);
      processes.push_back(std::make_unique<Process>(
          words, std::vector<std::string>{"ip", "netns", "exec", machines.name(k)}));
      addresses_.push_back(processes.back()->address());
    }
  }

  Ran ctl(int k, const std::string& words) const {
    return run_grapevine(
        "ctl " + addresses_[static_cast<size_t>(k)] + " " + words + " --key " + key_,
        "ip netns exec " + machines_.name(k));
  }

  /// Asks all until it holds, for at most a minute.
  Views wait_for(const std::function<bool(const Views&)>& holds) const {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    for (;;) {
      Views views;
      for (int k = 0; k < 4; ++k)
        views.push_back(Json::parse(ctl(k, "status --json").out, nullptr, false));
      const bool all =
          std::all_of(views.begin(), views.end(), [](const Json& v) { return v.is_object(); });
      if (all && holds(views)) return views;
      INFO(views[0].dump() << "\n" << views[3].dump());
      REQUIRE(std::chrono::steady_clock::now() < deadline);
    }
  }

  std::vector<std::unique_ptr<Process>> processes;

 private:
  const Machines& machines_;
  const std::string key_;
  std::vector<std::string> addresses_;
};

std::function<bool(const Views&)> of_ranks(int ranks) {
  return [ranks](const Views& views) {
    return std::all_of(views.begin(), views.end(),
                       [&](const Json& v) { return v["graph_ranks"] == ranks; });
  };
}

bool are_one(const Views& views) {
  for (const Json& v : views)
    if (v["graph_ranks"] != 8 || v["epoch"] != views[0]["epoch"] ||
        v["topology"] != views[0]["topology"])
      return false;
  return true;
}

}  // namespace

TEST_CASE("two machines and two, parted and joined again: both halves train on, then all are one") {
  Machines machines;
  if (!machines.real()) {
    return skipped("no network namespaces here, which need root");
  }
  const Scratch scratch;
  const std::string key = scratch.path("run.key");
  REQUIRE(run_grapevine("keygen " + key).status == 0);
  Nodes nodes(machines, key);
  const Views whole = nodes.wait_for(of_ranks(8));
  for (const Json& link : whole[0]["links"])
    CHECK((link["bulk"] == "tls" || link["bulk"] == "none"));
  machines.cable(false);
  const Views halves = nodes.wait_for(of_ranks(4));
  CHECK(state_of(halves[0], "n3") == "dead");
  CHECK(state_of(halves[3], "n0") == "dead");
  nodes.wait_for([&](const Views& views) {
    for (size_t k = 0; k < 4; ++k)
      if (sum_of(views[k]["gradients"]) < sum_of(halves[k]["gradients"]) + 200 ||
          sum_of(views[k]["exchanges"]) < sum_of(halves[k]["exchanges"]) + 20)
        return false;
    return true;
  });
  machines.cable(true);
  nodes.wait_for(are_one);
  REQUIRE(nodes.ctl(2, "stop").status == 0);
  for (auto& node : nodes.processes) {
    REQUIRE(node->end() == 0);
    const Json result = node->result();
    CHECK(result["ranks"] == 8);
    CHECK(result["mean_hash"] == nodes.processes[0]->result()["mean_hash"]);
    CHECK(result["protocol_errors"] == 0);
  }
}
