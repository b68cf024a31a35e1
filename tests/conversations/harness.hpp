// Gossip: n pairwise conversations with n real rules, driven by one seeded queue of events.
//
// Frames go through SimulatedTransport, so they pass the codec, overtake each other and meet its
// faults; a conversation's requests are served in order, late by up to `state_s`. What it promises
// is checked at every event, and the first broken promise is kept in complaint(): exactly once and
// in order at both ends, opposite jumps, one constant per exchange, frames that only say what is
// so, one unlapsed offer per rank. A run is a function of its settings.
#pragma once
#include <array>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <string>

#include "actors/algorithms/rule.hpp"
#include "actors/conversations/pairwise.hpp"
#include "actors/transport/simulated.hpp"
#include "kernels/memory/snapshot_pool.hpp"
#include "topologies/topology.hpp"

namespace grapevine::test {

constexpr size_t kGossipSize = 4;  // numbers per rank
using Numbers = std::array<double, kGossipSize>;

struct GossipSettings {
  std::string graph = "ring";
  int ranks = 8;
  uint64_t seed = 1;
  Pairing pairing = Pairing::free;
  std::string method = "a2cid2";
  double latency_s = 0.02, jitter = 0.5, transfer_s = 0.1;
  double state_s = 0;          // a request is served within this time
  double empty_pool = 0;       // probability that a snapshot finds no slot
  double gradients_per_s = 0;  // per rank
  double echo = 0;             // probability that a frame arrives once more, up to 30 s later
  std::vector<LinkFault> faults;

  std::string name() const;
};

class Gossip {
 public:
  explicit Gossip(const GossipSettings&);
  void run(double until_s);                    // all events up to then
  void step();                                 // the next event
  void finish();                               // begin nothing new; run until nothing is half-done
  void reconfigure(const std::string& graph);  // each rank learns of it at a time of its own
  void kill(int rank);                         // silent from now on
  void tell_down(int rank);                    // everybody learns that it is dead
  void restart(int rank);                      // a new incarnation with the state of a neighbour
  void inject(const FrameHeader&, Lease);      // a frame out of nowhere
  const std::string& complaint() const { return complaint_; }  // empty: all promises held
  bool quiet() const;
  double sum_error() const;  // of sum(x + x~) plus the jumps still due, largest coordinate
  double spread();           // |pi x|^2 over the living
  size_t half_applied() const { return half_applied_.size(); }
  size_t half_applied_here() const;                  // by an end that lives: the other died
  uint64_t exchanges() const { return exchanges_; }  // applied at both ends
  int most_open() const { return most_open_; }       // and not applied, at one rank
  double longest_offer_s() const { return longest_offer_s_; }
  uint64_t first_offers(int from, int to) { return attempts_[{from, to}]; }  // not repeats
  Counts counts() const;  // summed over the living
  uint64_t applied(int rank) const { return member(rank).conversation->counts().applied; }
  Numbers x(int rank);

 private:
  struct Offer {
    int peer;
    uint32_t attempt;
    double since_s;
  };
  struct Node {
    std::unique_ptr<Pairwise> conversation;
    std::shared_ptr<PairwiseRule> rule;
    std::optional<SnapshotPool> pool;
    uint32_t incarnation = 0;
    bool alive = true, told_down = false;
    std::vector<uint64_t> alarm;  // the serial of the arming that counts, per timer
    double served_at = 0;
    int open = 0;                // taken and not yet applied
    std::optional<Offer> offer;  // the unlapsed one
  };
  struct Way {  // one direction of an edge, between two incarnations
    int from, to;
    uint32_t from_incarnation, to_incarnation;
    Way back() const { return {to, from, to_incarnation, from_incarnation}; }
    auto operator<=>(const Way&) const = default;
  };
  static Way way_of(const FrameHeader& h) {
    return {static_cast<int>(h.from), static_cast<int>(h.to), h.from_incarnation, h.to_incarnation};
  }
  using Snapshot = std::pair<Way, uint64_t>;  // of which exchange
  struct Jump {
    Numbers change;
    double alpha_tilde;
    Way way;  // from the end that applied it
  };
  struct Event {
    double at;
    uint64_t order;
    std::function<void()> act;
    bool operator<(const Event& o) const { return at != o.at ? at > o.at : order > o.order; }
  };

  Node& member(int rank) { return nodes_[static_cast<size_t>(rank)]; }
  const Node& member(int rank) const { return nodes_[static_cast<size_t>(rank)]; }
  void schedule(double at, std::function<void()>);
  void complain(bool broken, const std::string& what);
  PairwiseOptions options(int rank) const;
  View view_of(int rank) const;
  void learn_view(int rank);
  void start_rule(int rank, const Numbers& x);
  void deliver(int to, const Frame&);
  void next_gradient(int rank);
  template <class Call>
  void event(int rank, const FrameHeader* cause, Call&&);
  void carry_out(int rank, const FrameHeader* cause, const Effects&);
  void watch_offers(int rank, const FrameHeader* cause, const Effects&);
  void end_offer(Node&);
  void watch_frame(const FrameHeader&);
  void request(int rank, const std::variant<Take, Write, Apply>&);
  void serve(int rank, uint32_t incarnation, const Take&);
  void serve(PairwiseRule&, const Apply&);
  Numbers conserved(PairwiseRule&) const;
  void arm(int rank, const Arm&);

  GossipSettings settings_;
  Random random_;
  Topology graph_;
  std::vector<int> colours_;
  double eta_ = 0, alpha_tilde_ = 0.5;
  uint64_t epoch_ = 0;
  std::vector<Node> nodes_;
  std::unique_ptr<SimulatedTransport> transport_;
  std::priority_queue<Event> queue_;
  double now_ = 0, longest_offer_s_ = 0;
  uint64_t order_ = 0, serial_ = 0, exchanges_ = 0;
  std::map<const void*, Snapshot> snapshots_;          // by their memory
  std::map<Way, uint64_t> applied_;                    // last number that the first has applied
  std::map<Snapshot, Jump> half_applied_;              // applied at one end only; from < to
  std::map<std::pair<int, int>, uint32_t> attempts_;   // of offers, from the first to the second
  std::vector<std::shared_ptr<PairwiseRule>> graves_;  // rules of earlier incarnations
  Numbers expected_{};                                 // the sum as it must be
  std::string complaint_;
  int most_open_ = 0;
};

}  // namespace grapevine::test
