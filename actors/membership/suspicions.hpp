// Suspicions: which members are suspected to be dead, by which nodes, and until when each may
// refute it; and which members are dead as one other node alone says. A state machine without I/O:
// members by their index in the table, accusers by hashes of their names.
//
//   Dadgar, Phillips, Currey, "Lifeguard", DSN-W 2018.
//
// A suspect has ten seconds. Each further node that suspects it shortens them, down to five. If one
// other node reports an end, this is a claim until this node's own probe or link, or a second node,
// confirms it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "messages/control.hpp"

namespace grapevine {

class Suspicions {
 public:
  /// `by`: the first node that suspects it.
  void suspect(double now, uint32_t member, uint32_t by);
  /// Another node suspects it. False: it is no suspect, that node has said so before, or enough
  /// have.
  bool confirm(uint32_t member, uint32_t by);
  bool accuses(uint32_t member, uint32_t by) const;

  /// Its end, as another node claims. One per member.
  struct Claim {
    uint32_t member = 0;
    MemberState state = MemberState::dead;
    uint32_t by = 0;
  };
  void claim(const Claim& claim) { claims_.push_back(claim); }
  std::optional<Claim> claimed(uint32_t member) const;

  /// A newer fact about it: earlier suspicions and claims are void.
  void forget(uint32_t member);
  /// This node stood still for so long: nobody could refute anything to it meanwhile.
  void stood_still(double for_s);

  /// The members that have not refuted in time, given this number of live members, in the order of
  /// suspicion.
  std::vector<uint32_t> lapsed(double now, size_t live) const;
  double next(size_t live) const;  // when the first lapses; infinite: there is none

 private:
  struct Suspicion {
    uint32_t member = 0;
    double since = 0;
    std::vector<uint32_t> accusers;
  };
  static double lapses_at(const Suspicion&, size_t live);

  std::vector<Suspicion> suspicions_;
  std::vector<Claim> claims_;
};

}  // namespace grapevine
