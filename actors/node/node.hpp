// Node: the actor that spawns the ranks of a process, supervises and restarts them, and ends the
// run.
//
// When every worker here has taken its gradients, Node tells the owner of the membership. Finished
// ranks keep exchanging. The run ends at Finish: nothing new starts, open exchanges finish, all
// ranks mix to one time, and the program that started the run gets the outcome.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/mail/mail_node.hpp"
#include "actors/mail/mailboxes.hpp"
#include "actors/node/observer.hpp"
#include "actors/node/stall_watch.hpp"
#include "actors/rank/worker.hpp"
#include "actors/settings/rank_ledger.hpp"
#include "actors/settings/run_hooks.hpp"
#include "actors/settings/samples.hpp"
#include "actors/settings/settings.hpp"

namespace grapevine {

struct CommunicatorDependencies;

struct NodeDependencies {
  RunClock clock;
  std::shared_ptr<const Settings> settings;
  RuleSettings rule;  // of the ranks
  int vectors = 1;    // in the state of such a rule
  std::shared_ptr<Objective> objective;
  std::shared_ptr<Mailboxes> mailboxes;
  std::shared_ptr<Transport> transport;
  std::shared_ptr<Compute> compute;
  std::shared_ptr<Counters> counters;
  std::shared_ptr<Ledgers> ledgers;  // by place; empty: no rank has a worker
  std::vector<StateActor> states;    // rank r is served by states[r mod size]
  TopologyManagerActor manager;
  MembershipActor membership;
  MakeWorker make_worker;
  std::shared_ptr<WorkPool> pool;  // null: each rank takes an equal number of gradients
  double gradient_s = 1;
  std::vector<RankRecordPtr> records;  // by place, from an earlier life; null: none
  Sink sink;
  OnReport on_report;                 // may be empty
  std::function<void(Outcome)> done;  // called once
};

class Node final : public NodeActor::base {
 public:
  Node(caf::actor_config& config, NodeDependencies deps);

 protected:
  behavior_type make_behavior() override;
  void on_exit() override;

 private:
  struct Rank {
    CommunicatorActor communicator;
    WorkerActor worker;
    bool alive = false, finished = false;
    bool retired = false;     // it will soon continue under another number
    bool returns = false;     // it waits for the end of its former actors and for a state
    int failures = 0;         // of its worker
    uint64_t resumed_at = 0;  // gradients of an earlier life
  };
  struct Former {
    caf::actor_addr actor;
    size_t place;  // of its rank
  };

  const StateActor& state_of(int rank) const {
    return deps_.states[static_cast<size_t>(rank) % deps_.states.size()];
  }
  double step_s(double gradient_s) const;
  CommunicatorActor spawn_communicator(int rank);
  WorkerActor spawn_worker(int rank);
  void begin(const Begin&);  // called again: under other numbers
  void found(const Begin&);
  void once_founded(std::function<void()> fault);
  void move(int first_rank);
  void silence(int rank);
  void dismiss(int rank);
  bool has(int rank) const;
  std::string not_here(int rank) const;
  void for_rank(int rank, std::function<void()> fault);
  Rank& actors_of(int rank) { return ranks_[static_cast<size_t>(rank - first_rank_)]; }
  void start(int rank);
  RankLedger* ledger_of(int rank);  // null: no rank has a worker
  void lose(int rank, Lost);
  void tell_manager();
  void tell_work();
  void hear(const WorkHeard&);
  caf::result<std::string> change(const ChangeRank&);
  void kill(int rank);
  void restart(int rank);
  void await_end(int rank, const caf::actor_addr&);
  void former_ended(std::vector<Former>::iterator);
  void come_back(int rank);
  void revive(int rank, const RankStatePtr& copied);
  void worker_lost(int rank, const caf::error& reason);
  void check_finished();
  void finish();
  void hand_in();
  void await_quiet();
  void report(std::function<void(NodeReport&)> then);
  void measure();
  void look_at_clock();
  void tell_report();
  void collect();
  void say(const std::string& line) const;

  template <class Actors, class Reply, class Then>
  void ask_all(const Actors&, std::vector<Reply>& replies, Then then);

  NodeDependencies deps_;
  std::shared_ptr<const CommunicatorDependencies> communicating_;
  uint64_t horizon_ = 0;
  int first_rank_ = 0;
  std::vector<Rank> ranks_;     // by place
  std::vector<Former> former_;  // actors of returning ranks that have not ended yet
  std::vector<std::function<void()>> early_faults_;
  bool finishing_ = false, tells_work_ = false;
  std::optional<StallWatch> watch_;  // on the wall clock
  Counts carried_;                   // counts under earlier numbers
  int polls_ = 0;
  uint64_t applied_ = 0;   // exchanges, at the last poll
  double pulse_at_s_ = 0;  // the time of the next look at the clock; 0: there was none yet
  Outcome outcome_;
};

}  // namespace grapevine
