// OwnIncarnation: when this node begins its next incarnation because of what others say, and
// whether its name is still its own. A state machine without I/O.
//
// Whoever has taken this node for dead says so in each packet, and makes it begin the next: one a
// second of all of them, and of one alone at once, then after a second, and each time after twice
// as long, for it may be a liar. Where the ranks of this node are taken, three are begun at once.
// What the node itself has said in an earlier life it outdoes at once. So a liar ends no node, and
// costs it no more than that.
//
// Of two processes of one name the second is let in where the first does not answer. A process that
// has stood still for as long, and then hears from two others, or from the only other one, of a
// process that it has not heard of before, has lost the name to it; any other outlives what is said
// in its name, and begins its next incarnation only if two say so.
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
  /// The same, as one of the others says (a hash of its name), which may be a lie.
  void contest(double now, uint32_t incarnation, const std::string& why, uint32_t by);

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
  /// `by` says that the process `id` has, or had, the name of this node.
  struct Rival {
    uint64_t id = 0;
    uint32_t by = 0;
    bool is_over = false;
    bool by_all = false;  // there is nobody else who could say so
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
    bool new_when_back = false;     // it was first heard of after a standstill
  };

  uint32_t contested_ = 0;
  std::string why_;
  double contest_at_ = 0;  // when the next may begin that is contested
  double until_ = 0;       // those begun were to stand, one after the other
  std::vector<Teller> tellers_;
  std::vector<Known> others_;
  double away_until_ = 0;  // it has stood still, and may hear until then who took the name
};

}  // namespace grapevine
