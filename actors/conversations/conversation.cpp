#include "actors/conversations/conversation.hpp"

#include <algorithm>

namespace grapevine {

Counts& Counts::operator+=(const Counts& more) {
  opened += more.opened;
  applied += more.applied;
  declined += more.declined;
  repeated += more.repeated;
  broken_before += more.broken_before;
  broken_after += more.broken_after;
  lost += more.lost;
  protocol_errors += more.protocol_errors;
  clipped += more.clipped;
  not_finite += more.not_finite;
  renewed += more.renewed;
  longest_offer_s = std::max(longest_offer_s, more.longest_offer_s);
  waited_s += more.waited_s;
  return *this;
}

}  // namespace grapevine
