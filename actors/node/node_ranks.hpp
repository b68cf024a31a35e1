// NodeRanks: the ranks of a node: their actors and their numbers, and how they begin, fail, end,
// return, and continue under other numbers.
//
// A rank keeps its place among the ranks of the node. Its number is first_rank() + place.
//
// Messages to a state actor and to the node name a number. An actor that is killed completes its
// handler first, so it may still send some. Invariant: a number gets new actors once all former
// ones have ended that had it. Then all that these have sent has arrived. If a rank returns, the
// state actor has ignored it, because it had no such rank. If the ranks get other numbers, it has
// arrived at its own rank, which the state actor has kept.
#pragma once
#include <caf/all.hpp>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "actors/node/rank_spawner.hpp"

namespace grapevine {

class NodeRanks {
 public:
  struct Events {
    std::function<void()> have_begun;   // all, under these numbers
    std::function<void()> one_is_over;  // it has finished, or is gone
  };
  /// `owner` is the actor with this part. The dependencies outlive it.
  NodeRanks(NodeActor::base& owner, const NodeDependencies&, std::vector<RankRecordPtr> records,
            Events);

  /// Called again: the ranks continue under other numbers, with their states, once the present
  /// handlers of their actors are over.
  void begin(const Begin&);
  /// From now on no rank ends, returns or gets another number.
  void close();
  void clear();

  /// Calls work(place) once the ranks have begun, and not while they change their numbers. Any
  /// holder of the node's handle may name a rank that is not here: then a line says so.
  void for_rank(int rank, std::function<void(size_t place)> work);
  void finished(const Finished&);
  void obey(size_t place, Order);
  void kill(size_t place);
  void restart(size_t place);  // kills it first, if it lives
  /// The answer comes once the ranks have begun, or the run ends before.
  caf::result<std::string> change(const ChangeRank&);
  void on_down(const caf::down_msg&);

  int first_rank() const { return first_rank_; }
  int number_of(size_t place) const { return first_rank_ + static_cast<int>(place); }
  // Of the ranks that live, by place.
  std::vector<CommunicatorActor> communicators() const;
  std::vector<WorkerActor> workers() const;
  const Counts& carried() const { return carried_; }  // under earlier numbers
  bool all_are_gone() const;
  bool all_have_finished() const;  // those that live; none returns

 private:
  struct Rank {
    CommunicatorActor communicator;
    WorkerActor worker;
    bool alive = false, finished = false;
    bool returns = false;     // it waits for the end of its former actors and for a state
    int failures = 0;         // of its worker
    uint64_t resumed_at = 0;  // gradients of an earlier life
  };
  struct Former {
    caf::actor_addr actor;
    size_t place;  // of its rank
  };

  bool has_begun() const { return static_cast<bool>(ranks_.front().communicator); }
  bool has(int rank) const;
  std::string not_here(int rank) const;
  size_t place_of(int rank) const { return static_cast<size_t>(rank - first_rank_); }
  caf::expected<std::string> changed(const ChangeRank&);
  void perform_postponed();
  void found(const Begin&);
  void leave_numbers();
  size_t source_for(size_t place) const;
  void copy_states();
  void take_numbers(std::vector<RankStatePtr> states);
  void spawn(size_t place);
  WorkerActor spawn_worker(size_t place);
  void attach(size_t place, RankStatePtr, RankRecordPtr);
  void start(size_t place);
  void lose(size_t place, Lost);
  void silence(size_t place);
  void dismiss(size_t place);
  void await_ends(size_t place);
  bool awaits_end(size_t place) const;
  void former_ended(size_t place);
  void come_back(size_t place);
  void revive(size_t place, const RankStatePtr& copied);
  void worker_lost(size_t place, const caf::error& reason);
  void tell_manager();

  NodeActor::base& owner_;
  const NodeDependencies& deps_;
  RankSpawner spawner_;
  std::vector<RankRecordPtr> records_;
  Events events_;
  int first_rank_ = 0;
  std::vector<Rank> ranks_;             // by place
  std::vector<Former> former_;          // killed actors that have not ended yet
  std::optional<int> next_first_rank_;  // the ranks change their numbers
  std::vector<std::function<void()>> postponed_;
  Counts carried_;
  bool is_closed_ = false;
};

}  // namespace grapevine
