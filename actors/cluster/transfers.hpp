// Transfers: the actor that owns the model-sized data that travels between nodes: the mean, and the
// state for a new node. One per process.
//
// It answers no probes, so a node that sums or hashes does not count as dead. It handles at most 1
// MiB per message, so no request waits for a whole model. Two operations make one pass over the
// model, like an exchange. A state actor reads a rank, or copies it for a new node, in one message,
// because a copy is of one instant. And a leaving node measures once. The state machines decide
// when; requests to the membership go to the cluster actor.
#pragma once
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/clocks/next_timer.hpp"
#include "actors/clocks/run_clock.hpp"
#include "actors/cluster/cluster_mail.hpp"
#include "actors/cluster/rank_sum.hpp"
#include "models/objective.hpp"

namespace grapevine {

struct TransfersDependencies {
  RunClock clock;
  std::string self;  // this node's name
  std::shared_ptr<const Objective> objective;
  int ranks = 1;        // of the objective
  SnapshotShape shape;  // of a rank's state; its count is that of the parameters
  MeanShape mean;
  double patience_s = 15;  // without progress of a mean
  std::function<void(const std::string&)> say;
  uint64_t gradients = 0;  // of the run; 0: no limit
};

class Transfers final : public TransfersActor::base {
 public:
  Transfers(caf::actor_config& config, TransfersDependencies deps);

 protected:
  behavior_type make_behavior() override;
  void on_exit() override;

 private:
  struct Hashing {  // of a requested state
    std::string node;
    SnapshotPtr snapshot;
    Manifest manifest;
  };

  template <class Mail>
  void again(Mail mail);
  void arm();
  void on_tick();
  void on_said(Said&);
  void on_parcel(ParcelCame&);
  void see(const MembersSeen&);

  void averaging(const std::function<void(MeanExchange&, double now, MeanEffects&)>& event);
  void need_links();
  void sum(uint64_t number);
  void sum_next_rank();
  void add(const RankParameters&);
  void sum_more(SumMore);
  void summed();
  void report(MeanEffects::Result&);
  void fetching(const std::function<void(Fetcher&, double now, FetcherEffects&)>& event);
  void serving(const std::function<void(StateSource&, double now, SourceEffects&)>& event);
  std::string complaint_about_state(const std::vector<Buffer>& vectors) const;
  std::string doubt_about_state(const std::vector<Buffer>& vectors,
                                const FetcherOptions::Sample& others) const;
  void take_for(const SourceEffects::Take&);
  void give_state(const SourceEffects::Take&, const RankStatePtr&);
  void hash_more();

  TransfersDependencies deps_;
  TransfersStart parts_;
  MembersSeen members_;
  MeanExchange mean_;
  StateSource source_;
  std::optional<Fetcher> fetcher_;
  bool ends_ = false;  // the ranks here have ended
  bool measures_ = false;
  std::vector<RankParameters> parameters_;  // at the end of the run
  std::optional<RankSum> sum_;              // of the ranks here, while it is computed
  std::deque<int> to_sum_;                  // ranks, or places in parameters_
  std::deque<Hashing> hashing_;             // the first is being hashed
  std::shared_ptr<const Mean> own_;         // the mean of the ranks here, to measure with
  double mean_due_s_ = kNever, source_due_s_ = kNever, fetcher_due_s_ = kNever;
  NextTimer timer_;
  std::vector<std::string> needed_;  // nodes to which links are needed, as the cluster knows
  double needed_at_s_ = -kNever;
};

}  // namespace grapevine
