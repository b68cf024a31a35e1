// OwnIncarnation: when this node begins its next incarnation because of what others say, and
// whether its name is still its own. A state machine without I/O.
//
// Whoever knows of an incarnation of this node that it has not said itself (it was declared dead,
// or its ranks were taken) makes it begin the next: one a second, where its ranks are taken three
// at once. So a liar ends no node, and costs it no more than that.
//
// Of two processes of one name the second is let in where the first does not answer. A process that
// has stood still for as long, and then hears of another that it has not heard of before, has lost
// the name to it; any other outlives what is said in its name.
#pragma once
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace grapevine {

class OwnIncarnation {
 public:
  /// Others know of this incarnation, which the node has not said. It is to begin a later one.
  void contest(uint32_t incarnation, const std::string& why);

  struct Next {
    uint32_t incarnation;  // to be begun, at least
    std::string why;
  };
  /// What is to be begun now, once; `own`: the incarnation of now.
  std::optional<Next> take(double now, uint32_t own);
  double due(uint32_t own) const;  // when take() has one; infinity: nobody contests it

  /// When one may be begun for ranks that are taken; then it is to be counted.
  double ranks_due() const;
  void count(double now);

  /// For longer than a process is waited for.
  void stood_still(double now);
  /// The process `id` has said something in the name of this node: has it the name by now?
  /// `here`: the ranks of this node are, or were, in the graph. `over`: that process has ended.
  bool lost_to(double now, uint64_t id, bool here, bool over);

 private:
  uint32_t contested_ = 0;
  std::string why_;
  double contest_at_ = 0;         // when the next may begin that is contested
  double until_ = 0;              // those begun were to stand, one after the other
  std::vector<uint64_t> others_;  // processes of this name that did not take its place
  double away_until_ = 0;         // it has stood still, and may hear until then who took it
};

}  // namespace grapevine
