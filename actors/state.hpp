// State: the actor that owns every buffer of its ranks and is alone in touching them.
//
// Ranks are served one message at a time, so no lock exists and no reader ever sees half-mixed
// weights. A snapshot is a lease from a fixed pool; an empty lease says that the pool is out, and
// the exchange is declined.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "actors/algorithms/expected_distance.hpp"
#include "actors/algorithms/method_registry.hpp"
#include "actors/clocks/run_clock.hpp"
#include "actors/protocol.hpp"
#include "kernels/fork_join.hpp"
#include "models/objective.hpp"

namespace grapevine {

struct StateDependencies {
  RunClock clock;
  std::shared_ptr<Objective> objective;
  std::string method;
  RuleSettings rule;
  uint64_t seed = 1;
  std::shared_ptr<ForkJoin> pool;  // splits passes over large vectors; may be empty
  int ranks = 1;                   // of the objective
  int groups = 1;                  // state actors of the node: this one serves every groups-th rank
  size_t snapshots = 0;            // at most, of all its ranks together
  size_t messages = 0;             // what goes to other ranks, at most
  size_t chunk_size = 0;           // elements of the largest part of a collective round
  size_t chunks = 0;               // at most
  SnapshotPool::Memory memory = SnapshotPool::Memory::own;  // of messages and chunks
  bool measures_distance = false;  // across an edge, now and then: how far apart are its ends?
  bool recorded = false;           // its ranks will be, for checkpoints
  bool audits = false;  // follow what must be conserved through every gradient: two passes more
  // Told which rank's rule has thrown what; that rank is as one that has gone. Empty: none throws.
  std::function<void(const std::string& where, const std::string& text)> on_throw = {};
};

class State final : public StateActor::base {
 public:
  State(caf::actor_config& config, StateDependencies deps);

 protected:
  behavior_type make_behavior() override;
  void on_exit() override;

 private:
  struct Edge {
    int peer = 0;  // the rank itself: what it adds to a sum; -1: what all add together
    ExpectedDistance expected;
    float last_jump = 0;  // |the change of what gossip conserves|
  };

  struct Member {
    int rank = 0;
    bool owes_copy = false;  // to the worker, when the round is finished
    std::unique_ptr<Rule> rule;
    uint64_t epoch = 0;  // of the neighbours that the rule knows
    CommunicatorActor communicator;
    WorkerActor worker;
    uint64_t gradients = 0;
    std::vector<Edge> edges;  // by rising peer
  };

  struct Guest {
    std::shared_ptr<GuestSeat> owed;  // x, when the round is finished
    uint64_t exchanges = 0;           // that have moved it, or rounds, since the first script
  };

  Member* find(int rank);
  template <class Work>
  bool guarded(int rank, Work&& work);
  void drop(int rank);
  bool is(Pattern pattern) const { return method_.pattern == pattern; }
  // REQUIRES: the method's rules are of this form.
  static PairwiseRule& pairwise(Member& m) { return static_cast<PairwiseRule&>(*m.rule); }
  static RoundRule& rounds(Member& m) { return static_cast<RoundRule&>(*m.rule); }
  static CollectiveRule& collective(Member& m) { return static_cast<CollectiveRule&>(*m.rule); }
  void decline(const TakeRequest&);
  void take(const TakeRequest&);
  std::unique_ptr<SnapshotPool> pool_of(size_t size, DType, size_t capacity) const;
  void write(Member&, int phase);
  void apply(ApplyRequest&);
  void begin(Member&, const Apply&);
  void combine(Member&, Apply&);
  Edge& edge(Member&, int peer);
  bool adds_alike(const Member&) const;
  double bound_of(Member&, int peer);
  double reach(Member&);
  void note(int rank, const ExchangeKey&, double moved);
  void jump(Member&, Apply&);
  bool sound(Member&, int peer, double distance, uint64_t number);
  void finish(Member&, const Apply&);
  void set_view(Member&, const View&);
  void gradient(Gradient&);
  void step_together(Member&);
  void take_step(TakeStep&);
  void show(Member&, std::shared_ptr<GuestSeat>);
  Guest* guest(const Member&);
  void count_exchange(const Member&);
  void pay_copy(Member&);
  void send_copy(Member&, Lease copy);
  void attach(Attach&);
  void take_over(Member&, const RankState&);
  void go_on_from(Member&, RankRecordPtr);
  void recall_edges(Member&, const View&);
  RankRecordPtr record(Member&);
  void detach(int rank);
  void inherit(Member&);
  Lease read(Member&);
  Donation donate(Member&, bool whole);
  SampleReply sample(const Sample&);
  StateReport report();
  RankParameters parameters_of(Member&);
  Collected collect();
  template <class Change>
  void audited(Member&, double sign_before, double sign_after, Change&& change);

  StateDependencies deps_;
  const Method& method_;
  Execution execution_;
  SnapshotPool snapshots_;
  std::unique_ptr<SnapshotPool> chunks_;    // as large as a part among the living
  std::unique_ptr<SnapshotPool> messages_;  // as large as the rule's largest
  std::vector<Member> members_;             // rank r is at r / groups; gone ranks have no rule
  std::map<std::pair<int, int>, double> distances_;  // from a rank to its peer, as last seen
  // Of runs that have checkpoints: what exchanges with a peer had done to a rank; and by rank, what
  // an earlier life left, until it has its first neighbours.
  std::map<std::pair<int, int>, RankRecord::Edge> histories_;
  std::map<int, RankRecordPtr> resumed_;
  double broken_after_norm_ = 0;    // of jumps whose other half may be missing, summed
  std::map<int, Guest> guests_;     // by rank: those whose steps scripts have taken
  std::vector<Inherit> heirlooms_;  // of epochs that have not come
  Buffer expected_;                 // fp64: what the sum of x + x~ must be
};

}  // namespace grapevine
