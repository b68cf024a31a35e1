// Whole nodes that have links by need: many of them find each other, lose a tenth, change their
// graph and end as one.
//
//   GRAPEVINE_NODES=1000 bin/cluster_test "many whole nodes*"    more than the usual 24
#include <sys/resource.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <sstream>

#include "tests/catch.hpp"
#include "tests/cluster/simulated_cluster.hpp"

using namespace grapevine;
using namespace grapevine::test;

namespace {

int nodes_wanted() {
  const char* many = std::getenv("GRAPEVINE_NODES");
  return many != nullptr ? std::atoi(many) : 24;
}

double processor_s() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

Settings settings_of(int nodes) {
  Settings s = endless("ad_psgd", "ring", nodes, 1);
  s.gradient_s = 0.5;
  return s;
}

class Crowd {
 public:
  explicit Crowd(int nodes) : cluster_({}, 1), nodes_(nodes) {
    for (int p = 0; p < nodes; ++p)
      cluster_.start(p, settings_of(nodes), -1, nodes,
                     p == 0 ? std::vector<int>{} : std::vector{0});
  }

  SimulatedCluster& cluster() { return cluster_; }
  int count() const { return nodes_; }

  const NodeStatus& status(int p) { return cluster_.at(p).status; }
  void ask_all() {
    for (int p = 0; p < nodes_; ++p)
      if (cluster_.running(p)) cluster_.ask(p, ConsoleVerb::status);
    cluster_.run(cluster_.now() + kLook_s);
  }
  int running() {
    int sum = 0;
    for (int p = 0; p < nodes_; ++p)
      sum += cluster_.running(p);
    return sum;
  }

  /// Until it holds of the status of each that runs; how long that took, infinite where it did not.
  double until_all(const std::function<bool(const NodeStatus&)>& holds, double limit_s) {
    const double begin_s = cluster_.now();
    const auto lacking = [&] {
      std::vector<int> some;
      for (int p = 0; p < nodes_; ++p)
        if (cluster_.running(p) && !holds(status(p))) some.push_back(p);
      return some;
    };
    while (cluster_.now() < begin_s + limit_s) {
      const std::vector<int> some = lacking();
      for (const int p : some)  // these alone: an answer names all members
        cluster_.ask(p, ConsoleVerb::status);
      cluster_.run(cluster_.now() + kLook_s);
      if (!some.empty()) continue;
      ask_all();
      if (lacking().empty()) return cluster_.now() - begin_s;
    }
    for (const int p : lacking())
      notes_ << "\n  " << view_of(status(p));
    return std::numeric_limits<double>::infinity();
  }

  /// Of one that differs from what is so: whom it takes for what.
  std::string view_of(const NodeStatus& s) {
    std::ostringstream text;
    text << s.node << ": epoch " << s.roster_epoch << ", its manager " << s.epoch.epoch << " of "
         << s.epoch.ranks << " ranks, " << s.links.size() << " links";
    for (const Member& m : s.members) {
      const int p = std::stoi(m.node.substr(1)) - 100;
      if (cluster_.running(p) == in_graph(m)) continue;
      text << "; " << m.node << " in state " << static_cast<int>(m.state) << ", incarnation "
           << m.incarnation << (m.ready ? "" : ", not ready");
    }
    return text.str();
  }

  /// Notes the work since the last note, and its cost.
  void note(const std::string& phase) {
    const double now = processor_s();
    const double took_s = cluster_.now() - noted_.at_s;
    const auto each = [&](uint64_t sum) { return static_cast<double>(sum) / nodes_; };
    const uint64_t bytes = cluster_.network().message_bytes();
    notes_ << "\n  " << phase << ": " << took_s << " s, of each node "
           << each(cluster_.fired() - noted_.fired) << " events, "
           << each(bytes - noted_.bytes) / 1e3 << " KB of messages; " << now - noted_.at
           << " s of processor time";
    noted_ = {cluster_.now(), cluster_.fired(), bytes, now};
  }
  std::string notes() const { return notes_.str(); }

  /// Of the nodes' own lines: when the last of those that run said it, from `since` on.
  double last_said(const std::string& words, double since) {
    double last = since;
    for (int p = 0; p < nodes_; ++p) {
      if (!cluster_.at(p).alive && !cluster_.at(p).ending) continue;
      double said = std::numeric_limits<double>::infinity();
      for (const std::string& line : cluster_.at(p).lines)
        if (line.find(words) != std::string::npos) said = std::min(said, std::atof(line.c_str()));
      last = std::max(last, said);
    }
    return last;
  }

 private:
  static constexpr double kLook_s = 0.25;
  struct Noted {
    double at_s = 0;
    uint64_t fired = 0, bytes = 0;
    double at = processor_s();
  };

  SimulatedCluster cluster_;
  int nodes_;
  Noted noted_;
  std::ostringstream notes_;
};

double mib_resident_at_most() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

}  // namespace

TEST_CASE("many whole nodes with few links each lose a tenth, change their graph and end as one") {
  Crowd crowd(nodes_wanted());
  SimulatedCluster& cluster = crowd.cluster();
  const int count = crowd.count();
  const auto in_one_graph = [&](const NodeStatus& s) {
    return s.epoch.epoch == s.roster_epoch && s.epoch.ranks == crowd.running();
  };
  const double together_s = crowd.until_all(in_one_graph, 60);
  CHECK(together_s < 60);
  crowd.note("joining");
  cluster.run(cluster.now() + 20);
  crowd.ask_all();
  crowd.note("training");
  size_t most = 0, sum = 0;
  for (int p = 0; p < count; ++p) {
    most = std::max(most, crowd.status(p).links.size());
    sum += crowd.status(p).links.size();
    for (const CommunicatorReport& c : crowd.status(p).ranks.communicators)
      CHECK(c.counts.applied > 0u);
  }
  CHECK(most <= 12);
  const double links = static_cast<double>(sum) / count;

  for (int p = 0; p + 8 < count; p += 20) {
    cluster.network().cut(p, p + 1);  // one way, between neighbours
    cluster.network().break_link(p + 7, p + 8);
    cluster.stop(p + 5);
  }
  for (int p = 3; p < count; p += 10)
    cluster.kill(p);
  cluster.run(cluster.now() + 1.5);
  for (int p = 5; p < count; p += 20)
    cluster.go_on(p);
  const double known_s = 1.5 + crowd.until_all(in_one_graph, 40);
  CHECK(known_s < 40);
  crowd.note("deaths");
  cluster.network().heal();
  cluster.ask(1, ConsoleVerb::reconfigure, "chain");
  const auto is_chain = [&](const NodeStatus& s) {
    return in_one_graph(s) && s.epoch.topology == "chain";
  };
  const double changed_s = crowd.until_all(is_chain, 30);
  CHECK(changed_s < 30);
  crowd.note("another graph");

  const double stop_s = cluster.now();
  cluster.ask(count / 2, ConsoleVerb::stop);
  while (crowd.running() > 0 && cluster.now() < stop_s + 120)
    cluster.run(cluster.now() + 0.5);
  const double heard_s = crowd.last_said("the run is to stop", stop_s) - stop_s;
  CHECK(heard_s < 3);
  crowd.note("stopping");
  WARN(count << " whole nodes: one graph after " << together_s << " s, " << links << " links each, "
             << most << " at most; a tenth killed, others stopped, is known to all after "
             << known_s << " s, a new graph after " << changed_s << " s, a stop after " << heard_s
             << " s; " << mib_resident_at_most() << " MiB" << crowd.notes());
  const SimulatedCluster::Process& first = cluster.at(0);
  REQUIRE(first.ending);
  REQUIRE(first.ending->mean);
  CHECK(first.ending->mean->ranks == count - (count + 6) / 10);
  for (int p = 0; p < count; ++p) {
    if (p % 10 == 3) continue;
    INFO(cluster.at(p).name);
    REQUIRE(cluster.at(p).ending);
    CHECK_FALSE(cluster.at(p).ending->failure);
    CHECK(cluster.at(p).ending->missing.empty());
    REQUIRE(cluster.at(p).ending->mean);
    CHECK(cluster.at(p).ending->mean->hash == first.ending->mean->hash);
  }
}

TEST_CASE("what a node has to do does not grow with the news that it has heard") {
  SimulatedCluster cluster({}, 1);
  Settings settings = endless("ad_psgd", "ring", 4, 1);
  settings.gradient_s = 1;
  found(cluster, 4, settings);
  const auto events_in = [&](double seconds) {
    const uint64_t before = cluster.fired();
    cluster.run(cluster.now() + seconds);
    return static_cast<double>(cluster.fired() - before);
  };
  const double early = events_in(10);
  for (int k = 0; k < 40; ++k) {
    cluster.ask(k % 4, ConsoleVerb::reconfigure, k % 2 == 0 ? "chain" : "ring");
    cluster.run(cluster.now() + 0.5);
  }
  CHECK(events_in(10) < 1.5 * early);
}
