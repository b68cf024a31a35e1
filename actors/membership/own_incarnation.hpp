// OwnIncarnation: when this node starts its next incarnation because of statements of other nodes,
// and whether it still owns its name. A state machine without I/O.
//
// A node that holds this node for dead says so in each packet, and makes this node start its next
// incarnation: at most once a second for all such nodes together. If one node alone says so, which
// may be a lie, this node reacts at once, then after a second, and each time after twice as long.
// If another node claims this node's ranks, it may start three incarnations at once. It starts an
// incarnation above those of its own earlier lives at once. So a liar cannot end a node and costs
// it no more than that.
//
// A second process with this node's name is admitted if the first one does not answer. A process
// loses its name if it was stopped for that long and then two other nodes, or the only other node,
// tell it of a process that it did not know. Otherwise it keeps its name, whatever others say, and
// starts its next incarnation only if two nodes say so.
#pragma once
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace grapevine {

class OwnIncarnation {
 public:
  /// Others know of this incarnation, which is over or not of this life. A later one is to begin.
  void contest(uint32_t incarnation, const std::string& why);
  /// The same, told by another node (a hash of its name), which may be a lie.
  void contest(double now, uint32_t incarnation, const std::string& why, uint32_t by);

  struct Next {
    uint32_t incarnation;  // to be begun, at least
    std::string why;
  };
  /// The incarnation to start now, once; `own`: the present incarnation.
  std::optional<Next> take(double now, uint32_t own);
  double due(uint32_t own) const;  // when take() has one; infinity: nobody contests it

  /// When one may begin because other nodes have the ranks; then it is to be counted.
  double ranks_due() const;
  void count(double now);

  /// The process was stopped for longer than other nodes wait for it.
  void stood_still(double now);
  /// `by` says that the process `id` has, or had, the name of this node.
  struct Rival {
    uint64_t id = 0;
    uint32_t by = 0;
    bool is_over = false;
    bool by_all = false;  // no other node could say so
  };
  enum class Says { nothing, contest, lost };
  Says hear(double now, const Rival&);

 private:
  struct Teller {
    uint32_t by = 0;
    double next_at = 0, wait_s = 0;
  };
  struct Known {  // another process of this name
    uint64_t id = 0;
    std::vector<uint32_t> tellers;  // two at most
    bool new_when_back = false;     // first heard of after this process was stopped
  };

  uint32_t contested_ = 0;
  std::string why_;
  double contest_at_ = 0;  // when the next may begin that is contested
  double until_ = 0;       // until then those begun should last, one after the other
  std::vector<Teller> tellers_;
  std::vector<Known> others_;
  double away_until_ = 0;  // the process was stopped; until then others may tell who took the name
};

}  // namespace grapevine
