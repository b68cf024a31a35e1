// MemberWork: the work that a member of a run has reported. A value.
#pragma once
#include <cstdint>
#include <string>

namespace grapevine {

/// The work that a member has reported, and whether the member is alive.
struct MemberWork {
  uint64_t id = 0;
  std::string node;
  int ranks = 0;        // in the graph; 0: its work does not count
  bool is_live = true;  // neither suspect nor over
  uint64_t number = 0;  // of the report; 0: there is none yet
  uint64_t taken = 0;
  double per_second = 0;
  double counted_s = 0;  // when `taken` was counted, by the member's clock
};

}  // namespace grapevine
