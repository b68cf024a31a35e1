// World: nodes with a Membership each, their links and what goes wrong with these, on one seeded
// queue of events. A run is a function of its settings and of the faults that the test asks for.
//
// Links are made by dials; a killed process ends its links and its port refuses, a stopped one
// answers nothing until it goes on and then finds everything that came meanwhile, a cut drops
// packets and dials without a word. What must always hold is checked at every event, and the first
// broken promise is kept in complaint(): the epoch's counter never falls, a packet keeps to its
// size, and a node that is running and reachable is declared dead by nobody (false_deaths counts).
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "actors/membership/membership.hpp"
#include "tests/signing.hpp"

namespace grapevine::test {

constexpr uint32_t kRanks = 2;  // of each node

struct WorldSettings {
  int nodes = 4;
  uint64_t seed = 1;
  double latency_s = 5e-4, jitter = 1;  // of a packet: latency x (1 + U jitter)
  double loss = 0;                      // of packets on links
  bool acquainted = false;              // everybody knows and is linked to everybody from the start
  std::string topology = "ring";

  std::string name() const;
};

class World {
 public:
  explicit World(const WorldSettings&);
  ~World();

  void run(double until_s);
  /// Runs until `done` holds or until `limit_s` from now; returns the time that it took, infinite
  /// if it did not come about. Looked at every 10 ms.
  double run_until(const std::function<bool()>& done, double limit_s);
  double now() const { return now_; }
  Random& random() { return random_; }

  // Faults and wishes.
  void kill(int node);
  void stop(int node);
  void go_on(int node);
  /// It serves packets, and timers too if these are late, only now and then: after up to most_s.
  void slow(int node, double most_s, bool late_timers = true);
  /// A new process under the same name, which begins with incarnation 1. One that keeps its folder
  /// has its key, too.
  void restart(int node, bool keeps_key = true);
  int join(int through);  // a new node, which knows the addresses of all
  void leave(int node);
  void partition(const std::set<int>& half);  // these from the others
  void cut(int from, int to);                 // one way
  void heal();                                // all partitions and cuts
  void loss(double probability) { settings_.loss = probability; }
  void break_link(int a, int b);  // both ends see it, the nodes live
  /// Calls f(membership, effects) as an event of that node.
  void act(int node, const std::function<void(Membership&, MembershipEffects&)>& f);

  // The state of the world.
  int count() const { return static_cast<int>(nodes_.size()); }
  bool stopped(int node) const { return nodes_[index(node)].stopped; }
  bool running(int node) const { return nodes_[index(node)].alive && !nodes_[index(node)].stopped; }
  const Membership& at(int node) const { return *nodes_[index(node)].membership; }
  static std::string name(int node);
  static std::string address(int node);
  NodeKey key(int node) const { return key_of(name(node), nodes_[index(node)].key); }
  MemberState state_of(int node, int as_seen_by) const;
  /// All running nodes know the same: each other as alive and ready, all others as dead or left,
  /// one epoch, one graph, no rank twice, and whoever needs a link has it.
  bool one_view() const;
  bool all_see(int node, MemberState) const;  // all other running nodes
  std::string view_difference() const;        // empty if one_view
  const std::string& complaint() const { return complaint_; }
  int false_deaths() const { return false_deaths_; }
  int accusations_by(int node) const { return nodes_[index(node)].accusations; }
  int accusations() const;
  int links_of(int node) const;
  double packets() const { return packets_; }
  double bytes() const { return bytes_; }

 private:
  struct Node {
    std::unique_ptr<Membership> membership;
    bool alive = true, stopped = false, has_left = false;
    double slow_s = 0, awake_at = 0;
    bool late_timers = false;
    double timer_at = 0, timer_queued = 0;
    uint32_t process = 1;  // which one
    uint32_t key = 1;      // of which one it is
    uint32_t counter = 0;  // of its latest epoch
    int side = 0, accusations = 0;
    std::vector<bool> links;
    std::map<std::string, uint64_t> owners;      // of names
    std::set<int> goodbyes;                      // links that one end has closed
    std::vector<std::function<void()>> waiting;  // while stopped
  };
  struct Event {
    double at;
    uint64_t serial;
    int to;
    uint32_t process;  // that it is for
    bool timer, served;
    std::function<void(Membership&, MembershipEffects&)> what;
  };

  static size_t index(int node) { return static_cast<size_t>(node); }
  bool reachable(int from, int to) const;
  bool has_name_of_other(int node, int as_seen_by) const;
  double delay() { return settings_.latency_s * (1 + settings_.jitter * random_.uniform()); }
  void add_node(const std::vector<std::string>& join);
  Member member(int node) const;
  void acquaint();
  void post(double at, int to, std::function<void(Membership&, MembershipEffects&)>,
            bool timer = false);
  void step();
  void deliver(Event&);
  void carry_out(int node, MembershipEffects&);
  void watch(int node, const MembershipEffects&);
  void push(Event);
  void dial(int from, const std::string& address);
  void unlink(int a, int b, bool goodbye = false);
  void complain(const std::string&);

  WorldSettings settings_;
  Random random_;
  double now_ = 0;
  uint64_t serial_ = 0;
  std::vector<Node> nodes_;
  std::vector<Event> queue_;  // a heap
  std::set<std::pair<int, int>> cuts_;
  std::string complaint_;
  int false_deaths_ = 0;
  double packets_ = 0, bytes_ = 0;
};

}  // namespace grapevine::test
