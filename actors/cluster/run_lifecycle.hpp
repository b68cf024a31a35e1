// RunLifecycle: the phases of a node in a run of several nodes, from its start to its end, as a
// state machine without I/O.
//
//   awaiting   nothing is open yet
//   joining    until it has ranks and knows whether other nodes train already
//   fetching   other nodes train already: it fetches their state as the start of its ranks
//   training   its ranks are in the graph
//   weighing   it has to leave: it measures how far the others' mean is from that of all
//   ending     the ranks here finish open exchanges: all ranks have taken their gradients, the run
//              has to stop, or this node leaves
//   averaging  the mean at the end, if the ranks had started. If all missing nodes still train,
//              only this node's time is over, and it leaves them
//   left       the membership knows that it leaves; it stays until all others have left too, to
//              pass the mean on to nodes that have few links
//   over
//
// No node is special: each decides from what it knows, and nodes with the same knowledge decide the
// same. A node that does not answer costs the others one deadline. Events report what has happened;
// call consider() after each of them, and whenever the membership or the time has changed.
#pragma once
#include <map>
#include <set>
#include <string>
#include <vector>

#include "actors/membership/member_table.hpp"

namespace grapevine {

struct LifecycleOptions {
  uint32_t total_ranks = 0;  // ranks that must be there before the run begins; 0: it begins at once
  double patience_s = 15;
  std::vector<std::string> joins;  // addresses of others; empty: others connect to it
  std::string joins_are = {};      // in words, for the line that none of them answers
};

/// The actions after consider(); each is requested once.
struct LifecycleEffects {
  bool fetch = false;    // then fetched()
  bool begin = false;    // the ranks here begin, with the fetched state
  bool weigh = false;    // then weighed()
  bool drain = false;    // then drained()
  bool average = false;  // then averaged()
  // The others continue to train: this node leaves them, without a mean of all.
  bool goes_alone = false;
  bool leave = false;  // leave the membership
  bool conclude = false;
  std::string failure;  // why the run never began here; empty: no failure
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
  void met() { met_ = true; }  // a node
  /// `is_final`: the node would give this answer again. After three such answers at each address
  /// that it joins by, it no longer waits for another node.
  void dial_failed(const std::string& address, const std::string& why, bool is_final);
  void fetched() { fetched_ = true; }        // or no node gave a state
  void share_done() { share_done_ = true; }  // of the ranks here
  void stop() { stops_ = true; }             // the whole run ends
  // This node leaves alone, without a mean. If the whole run ends already, it ends with the run.
  void leave() { leaves_ = leaves_ || !stops_; }
  void weighed() { weighed_ = true; }
  void drained(bool failed);
  /// `missing`: nodes that may not have the same mean.
  void averaged(std::vector<std::string> missing);
  void gone(const std::string& node) { gone_.insert(node); }  // a node has left or died

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
  struct Seen {           // in all members
    uint64_t digest = 0;  // of the table
    uint32_t ranks = 0;   // of the live ones
    bool others_train = false, all_live = true, moves = false;
  } seen_;
  std::vector<std::string> missing_;        // in the mean at the end
  std::string why_;                         // the reason of the last failed dial
  std::map<std::string, int> turned_away_;  // final answers in a row, by address
  std::set<std::string> gone_;

  static constexpr double kNoDeadline = 1e300;
};

}  // namespace grapevine
