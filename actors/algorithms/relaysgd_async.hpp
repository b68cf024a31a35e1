// Asynchronous RelaySGD: RelaySGD that waits for nobody and loses nothing to a lossy link.
// Departs from: Vogels et al. NeurIPS 2021. arXiv:2110.04175 (relaysgd.hpp), in one thing:
//
//   m_ji, c_ji    the newest message that has come along the edge, this round's or an older one;
//                 kept when nothing has come (Missing::reuse), and relayed and averaged as it is
//
// The paper's form exchanges all messages of a round before anybody goes on. Here a rank steps,
// takes in what has come, averages over what it holds, relays the same and goes on at once. A slow
// rank costs itself; a lost message is one that the next replaces. Between ranks in step, at equal
// speed, a message takes one step a hop: hops(i, j), where the paper's form has hops(i, j) - 1.
//
// Why it stays exact. A message holds each rank behind its edge once, however old: it was built
// from one message per edge further away, and a tree has no second way round. So with full counts
// every average is over exactly n contributions, each of one rank and at some bounded random delay;
// counts never fall again. A fixed point has constant y_j, so all ranks hold the same
// x = (1/n) sum_j y_j = x + (1/n) sum_j u_j: the steps at one x add up to zero. That is the optimum
// of the mean of all losses, whatever the delays, the losses and how the data differ. Ranks that
// step k times as often as others do not weigh more: they are replaced, not added.
//
// With `counts` (the default) the ranks start at different moments and fill up as they hear.
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

  Buffer y_;  // what is relayed; x is the average already
};

}  // namespace grapevine
