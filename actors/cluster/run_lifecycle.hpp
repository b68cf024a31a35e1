// RunLifecycle: the phases of a node, from its start to its end in a run of several nodes, as a
// state machine without I/O.
//
//   awaiting   nothing is open yet
//   joining    until it has ranks and knows whether other nodes train already
//   fetching   other nodes train already: it fetches their state for its ranks to start with
//   training   its ranks are in the graph
//   weighing   it was told to leave: how far is the others' mean from that of all?
//   ending     the ranks here finish open exchanges: all have done their share, the run is to stop,
//              or this node leaves
//   averaging  the mean at the end, if the ranks had started. If all missing nodes still train,
//              only this node's time is over, and it leaves them
//   left       the membership knows that it leaves; it stays until all others have left too, to
//              pass the mean on to nodes that have few links
//   over
//
// No node is special: each decides by what it knows, and nodes that know the same decide the same.
// A node that does not answer costs the others one deadline. Events report what has happened; call
// consider() after each of them, and whenever the membership or the time has changed.
#pragma once
#include <map>
#include <set>
#include <string>
#include <vector>

#include "actors/membership/member_table.hpp"

namespace grapevine {

struct LifecycleOptions {
  uint32_t total_ranks = 0;  // to wait for before the run begins; 0: it begins at once
  double patience_s = 15;
  std::vector<std::string> joins;  // addresses of others; empty: it waits for them
};

/// The actions after consider(), each once.
struct LifecycleEffects {
  bool fetch = false;    // then fetched()
  bool begin = false;    // the ranks here begin, with what was fetched; they are ready
  bool weigh = false;    // then weighed()
  bool drain = false;    // then drained()
  bool average = false;  // then averaged()
  // The others train on without end in sight: this node leaves them, with no mean of all.
  bool goes_alone = false;
  bool leave = false;  // the membership
  bool conclude = false;
  std::string failure;  // not empty: the run never began here, and why
  double timer_at = 0;  // always set; replaces the earlier one
};

class RunLifecycle {
 public:
  enum class Phase {
    awaiting,
    joining,
    fetching,
    training,
    weighing,
    ending,
    averaging,
    left,
    over
  };

  explicit RunLifecycle(LifecycleOptions options) : options_(std::move(options)) {}

  void start(double now);
  void met() { met_ = true; }  // somebody
  /// `is_final`: the node would give this answer again. After three such answers at each address
  /// that it joins by, it waits for no other node.
  void dial_failed(const std::string& address, const std::string& why, bool is_final);
  void fetched() { fetched_ = true; }        // or given up
  void share_done() { share_done_ = true; }  // of the ranks here
  void stop() { stops_ = true; }             // the whole run is to end
  // This node leaves alone; no means are exchanged. If the whole run is to end already, it ends
  // with the run.
  void leave() { leaves_ = leaves_ || !stops_; }
  void weighed() { weighed_ = true; }
  void drained(bool failed);
  /// `missing`: nodes of whom it is not known that they have the same mean.
  void averaged(std::vector<std::string> missing);
  void gone(const std::string& node) { gone_.insert(node); }  // heard of one that has left or died

  void consider(double now, const MemberTable&, LifecycleEffects&);

  Phase phase() const { return phase_; }
  bool leaving() const { return leaves_; }

 private:
  bool step(double now, const MemberTable&, LifecycleEffects&);
  bool muster(double now, const MemberTable&, LifecycleEffects&);
  void look(const MemberTable&);
  bool train(LifecycleEffects&);
  bool end(LifecycleEffects&);
  bool part(double now, LifecycleEffects&);
  bool enter(Phase, double deadline_s);
  bool everybody_finished(const MemberTable&) const;
  bool others_train_on(const MemberTable&) const;
  bool misses_a_suspect(const MemberTable&) const;
  bool is_turned_away() const;

  LifecycleOptions options_;
  Phase phase_ = Phase::awaiting;
  double deadline_s_ = kNoDeadline, muster_until_s_ = kNoDeadline;
  bool begun_ = false, met_ = false, fetched_ = false, share_done_ = false, stops_ = false,
       leaves_ = false, weighed_ = false, drained_ = false, averaged_ = false;
  struct Seen {           // of all members
    uint64_t digest = 0;  // of the table
    uint32_t ranks = 0;   // of those that live
    bool others_train = false, all_live = true, moves = false;
  } seen_;
  std::vector<std::string> missing_;        // in the mean at the end
  std::string why_;                         // the last dial failed
  std::map<std::string, int> turned_away_;  // in a row, by address
  std::set<std::string> gone_;

  static constexpr double kNoDeadline = 1e300;
};

}  // namespace grapevine
