// The oracle for quadratics: all ranks of a method in one loop over dense arrays, and the tuner of
// its learning rate. It shares neither rules nor messages with the actors.
//
//   relaysgd           y_i = x_i - lr g_i,  x_i = (1/n) sum_j y_j of max(hops(i, j) - 1, 0) rounds
//                      ago, before the first round y = 0: the x0 normalisation in its summed form
//   d2                 x' = W (x + u + c),  c' = x' - x - u,      u = -lr g
//   gradient_tracking  x' = W (x + u + c),  c' = W (c + u) - u
//   all_reduce         x' = mean of x + u
//
// Vogels et al., NeurIPS 2021, arXiv 2110.04175, figure 2 and its published code.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "models/objective.hpp"
#include "topologies/topology.hpp"
#include "topologies/weights.hpp"

namespace grapevine {

class Oracle {
 public:
  /// `problem` must outlive it. All ranks start at 0.
  Oracle(Objective& problem, std::string method, const Topology&, const GossipMatrix&);

  void restart(double lr);
  void round();
  double suboptimality();  // of the mean over ranks

 private:
  void relay();
  void mix(const std::vector<double>& in, std::vector<double>& out) const;

  Objective& problem_;
  std::string method_;
  const Topology& graph_;
  const GossipMatrix& matrix_;
  size_t ranks_, dim_;
  double lr_ = 0;
  uint64_t done_ = 0;
  std::vector<size_t> delay_;                // ranks x ranks
  std::vector<std::vector<double>> spoken_;  // the last y, as a ring buffer
  std::vector<double> x_, g_, c_, sum_, mixed_, mean_;
};

/// The rounds at which an error is tested: `points` of them, evenly spaced on a logarithmic axis.
std::vector<uint64_t> test_rounds(uint64_t most, int points);

struct Tuned {
  uint64_t rounds = 0;  // until the error was below the target; 0: never
  double lr = 0;
};

/// The learning rate that reaches `target` first, among those under which the error never rises
/// while it is above the target. It is halved from 2 `start` until that holds and nothing more is
/// gained, then bisected towards the largest such rate, 30 trials in all.
Tuned tune_fastest(Oracle&, double target, double start, uint64_t most_rounds);

}  // namespace grapevine
