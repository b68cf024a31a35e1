// MembershipEffects: what the owner of a Membership carries out after each call. A value.
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "actors/membership/dissemination.hpp"

namespace grapevine {

struct MembershipEffects {
  OutgoingPackets sends;
  std::vector<std::string> dials;   // addresses; each answered by link_up, refused, or not at all
  std::vector<std::string> closes;  // nodes whose links are not needed; each answered by link_down
  double timer_at = 0;              // always set: call timer() then; replaces the earlier one
  bool changed = false;             // the epoch: spec, members, incarnations or ranks
  bool reborn = false;              // own incarnation has grown: self().incarnation
  bool ranks_moved = false;         // own ranks have: self().first_rank
  bool name_taken = false;          // by another process: this one has to end
  std::vector<std::string>
      died;  // nodes whose known incarnation has ended; drop what was open with it
  std::vector<std::pair<std::string, uint64_t>> owners;     // the process that owns a name; 0: none
  std::vector<std::string> lines;                           // for the log
  std::vector<std::pair<std::string, std::string>> alarms;  // a node that lies, and how; once
};

}  // namespace grapevine
