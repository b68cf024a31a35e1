// Records: ranks that are added, copied, recorded and removed.
//
// Invariants: a rank starts from the objective's initial point, from the state of another rank or
// from its own record, whichever has the most gradients. The state of an edge is taken over only if
// the edge is the same one. The vectors of one rank at a time are copied to or from a device.
#pragma once
#include <functional>
#include <vector>

#include "actors/state/exchanges.hpp"
#include "actors/state/ranks.hpp"

namespace grapevine {

class Records {
 public:
  Records(Ranks& ranks, Exchanges& exchanges) : ranks_(ranks), exchanges_(exchanges) {}

  void attach(Attach&);
  void enter(const SetView&);
  void detach(const Detach&);
  void copy(StateRank&, bool whole, std::function<void(RankStatePtr)> reply);
  void record(StateRank&, std::function<void(RankRecordPtr)> reply);
  void clear() { common_start_ = Buffer(); }

 private:
  void lift(const Attach&);
  void install_lifted(Attach&, bool brings_start, std::vector<Buffer>& lifted);
  void install(Attach&, ConstVec start, const RankState*, RankRecordPtr);
  RuleState kept(StateRank&);
  void take_over(StateRank&, const RankState&);
  void go_on_from(StateRank&, RankRecordPtr);
  void recall_edges(StateRank&, const View&);

  Ranks& ranks_;
  Exchanges& exchanges_;
  Buffer common_start_;  // on a device, if all ranks have the same start; set by the first
};

}  // namespace grapevine
