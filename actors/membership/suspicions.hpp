// Suspicions: which members are suspected to be dead, by whom, and until when each may refute that;
// and who is over, as one other alone says. A state machine without I/O: members by their places in
// the table, accusers by hashes of their names.
//
//   Dadgar, Phillips, Currey, "Lifeguard", DSN-W 2018.
//
// A suspect has ten seconds. Each other who finds the same shortens them, down to five. What one
// other says of an end is a claim until this node's own probe or link, or a second of the others,
// finds the same.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "messages/control.hpp"

namespace grapevine {

class Suspicions {
 public:
  /// `by`: who says so first.
  void suspect(double now, uint32_t member, uint32_t by);
  /// Another finds the same. False: it is no suspect, that one has said so, or enough have.
  bool confirm(uint32_t member, uint32_t by);
  bool accuses(uint32_t member, uint32_t by) const;

  /// Its end, as another says. One of a member.
  struct Claim {
    uint32_t member = 0;
    MemberState state = MemberState::dead;
    uint32_t by = 0;
  };
  void claim(const Claim& claim) { claims_.push_back(claim); }
  std::optional<Claim> claimed(uint32_t member) const;

  /// There are news of it: what was suspected and claimed before is over.
  void forget(uint32_t member);
  /// This node stood still for so long: nobody could refute anything to it meanwhile.
  void stood_still(double for_s);

  /// Who has not refuted its suspicion in time, where so many live, in the order of suspicion.
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
