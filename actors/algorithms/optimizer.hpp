// Optimizer: the local step of one rank, u = -lr s(g), in one pass fused with A2CiD2's mixing.
//
//   g += weight_decay x                      for entries that decay by the layout
//   sgd      v = momentum v + g              s = v, or with Nesterov g + momentum v
//   adam     m = b1 m + (1 - b1) g           s = (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + 1e-8)
//            v = b2 v + (1 - b2) g^2         b1 = .9, b2 = .999 by default (Kingma, Ba, ICLR
//                                            2015)
//   adamw    the same, weight_decay x added to s instead of g (Loshchilov, Hutter, ICLR 2019)
//
// Its buffers belong to the rank and are never averaged.
#pragma once
#include <string>
#include <vector>

#include "actors/algorithms/rule_settings.hpp"
#include "actors/algorithms/rule_state.hpp"
#include "kernels/memory/layout.hpp"
#include "kernels/passes/ops.hpp"

namespace grapevine {

class Optimizer {
 public:
  Optimizer(const Execution&, const ParameterLayout&, const OptimizerSettings&);

  /// Mixes x and x~ by `attraction` (kernels/passes/ops.hpp), then x += u, x~ += u, copy = x. An
  /// empty view is skipped.
  void step(const Execution&, double attraction, double lr, ConstVec g, Vec x, Vec x_tilde,
            Vec copy);
  /// The same, and returns the length of the step, |x after - x mixed|, with the bits that two more
  /// passes over the vectors would give. On a device it is not measured, and the length is 0.
  double measured_step(const Execution&, double attraction, double lr, ConstVec g, Vec x,
                       Vec x_tilde, Vec copy);
  void reset(const Execution&);

  /// Whether steps depend on their count.
  bool uses_count() const { return settings_.kind != OptimizerKind::sgd; }
  uint64_t steps() const { return steps_; }
  void set_steps(int64_t steps) { steps_ = static_cast<uint64_t>(steps < 0 ? 0 : steps); }

  /// Adds its buffers and its count of steps to the state.
  void name(RuleState&, Follows, const std::string& prefix = "");

 private:
  struct Run {  // neighbouring layout entries with the same `decays`
    size_t offset = 0, count = 0;
    bool decays = true;
  };

  void step(const Execution&, const Run&, double attraction, double lr, ConstVec g, Vec x,
            Vec x_tilde, Vec copy);
  /// Steps elements [first, last) alone.
  void step_between(size_t first, size_t last, double attraction, double lr, ConstVec g, Vec x,
                    Vec x_tilde, Vec copy);

  OptimizerSettings settings_;
  std::vector<Run> runs_;  // empty if all entries are alike
  Buffer first_, second_;  // v; or m and v
  uint64_t steps_ = 0;
};

}  // namespace grapevine
