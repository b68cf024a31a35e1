// Asynchronous RelaySGD: RelaySGD without waiting, which stays exact when messages are lost.
// Differs from Vogels et al. NeurIPS 2021, arXiv:2110.04175 (relaysgd.hpp), in one point:
//
//   m_ji, c_ji    the newest message of the edge, from this round or an older one. If none has
//                 come, the last one stays (Missing::reuse), and is relayed and averaged as it is
//
// In the paper's form all messages of a round are exchanged before any rank continues. Here a rank
// steps, takes in the messages that have come, averages all that it has, relays the same and
// continues at once. A slow rank delays only itself, and the next message replaces a lost one.
// Between ranks of equal speed a message takes one step per hop: hops(i, j), where the paper's form
// takes hops(i, j) - 1.
//
// Why it stays exact. A message has each rank behind its edge once, however old it is: it was built
// from one message per edge further away, and a tree has no second path. So with full counts every
// average has exactly n contributions, one of each rank, each with a bounded random delay; counts
// never fall again. At a fixed point the y_j are constant, so all ranks hold the same x = (1/n)
// sum_j y_j = x + (1/n) sum_j u_j: the steps at one x sum to zero. That is the optimum of the mean
// of all losses, for any delays, lost messages and data. Ranks that step k times as often as others
// have no larger weight: their contributions are replaced, not added.
//
// With `counts` (the default) ranks may start at different times; their counts grow as messages
// come.
// Cost: as relaysgd.hpp, and y_i beside x_i.
#pragma once
#include "actors/algorithms/relaysgd.hpp"

namespace grapevine {

class RelaySgdAsync final : public RelaySgd {
 public:
  explicit RelaySgdAsync(const RuleContext&);

  void reset(double now, ConstVec x) override;
  RuleState state(double now) override;
  void on_gradient(double now, double lr, ConstVec g, Vec copy) override;
  void combine(double now, int phase, std::span<const Received> in) override;

 private:
  ConstVec said() const override { return y_; }

  Buffer y_;  // is relayed; x is the average already
};

}  // namespace grapevine
