// Shared by the tests of the rules: rows of numbers, buffers of them, and the vectors of a rule.
#pragma once
#include "actors/algorithms/method_registry.hpp"
#include "kernels/base/random.hpp"
#include "tests/algorithms/oracle.hpp"

namespace grapevine::test {

using Row = Oracle::Row;

/// Three tensors, the middle one without decay.
inline ParameterLayout three_tensors(DType dtype) {
  ParameterLayout layout(dtype);
  layout.add("w", {2, 3}, true);
  layout.add("b", {3}, false);
  layout.add("v", {5}, true);
  return layout;
}

inline RuleContext context_of(const ParameterLayout& layout, const OptimizerSettings& optimizer,
                              ConstVec x) {
  return {0, 1, layout, {}, with_optimizer(optimizer), x};
}

inline std::unique_ptr<Rule> rule_of(const std::string& method, const ParameterLayout& layout,
                                     const OptimizerSettings& optimizer, ConstVec x) {
  return method_named(method).make(context_of(layout, optimizer, x));
}

/// The round, if it has rounds, of a rank that has no neighbours.
inline void end_round_alone(Rule& rule, double now) {
  if (auto* rounds = dynamic_cast<RoundRule*>(&rule)) {
    for (int phase = 0; phase < rounds->phases(); ++phase) {
      rounds->pull(phase, {});
      rounds->combine(now, phase, {});
    }
  } else if (auto* collective = dynamic_cast<CollectiveRule*>(&rule)) {
    collective->begin(now, 0);
    collective->finish(now, 0, 1, {});
  }
}

/// A step of a rank that has no neighbours.
inline void step_alone(Rule& rule, double now, ConstVec g) {
  rule.on_gradient(now, 0.1, g, {});
  end_round_alone(rule, now);
}

/// `to` goes on where `from` stands: all of it, or what follows the model.
inline void hand_over(Rule& from, Rule& to, double now, bool whole) {
  const SavedState saved = save({}, from.state(now), whole);
  to.reset(now, saved.vectors.front());
  restore({}, saved, to.state(now));
}

inline Row normal_row(Random& random, size_t size) {
  Row row(static_cast<Eigen::Index>(size));
  for (double& value : row)
    value = random.normal();
  return row;
}

inline Buffer buffer_of(const Row& row, DType dtype) {
  Buffer buffer(static_cast<size_t>(row.size()), dtype);
  for (Eigen::Index k = 0; k < row.size(); ++k) {
    if (dtype == DType::f64) {
      buffer.vec().as<double>()[k] = row[k];
    } else {
      buffer.vec().as<float>()[k] = static_cast<float>(row[k]);
    }
  }
  return buffer;
}

inline Row row_of(ConstVec v) {
  Row row(static_cast<Eigen::Index>(v.size));
  for (Eigen::Index k = 0; k < row.size(); ++k)
    row[k] = v.dtype == DType::f64 ? v.as<double>()[k] : static_cast<double>(v.as<float>()[k]);
  return row;
}

inline Row x_of(Rule& rule, double now, size_t size, DType dtype) {
  Buffer out(size, dtype);
  rule.read(now, out);
  return row_of(std::as_const(out).vec());
}

inline Row conserved_of(Rule& rule, double now, size_t size) {
  Buffer sum(size, DType::f64);
  rule.add_conserved(now, sum);
  return row_of(std::as_const(sum).vec());
}

inline double distance(const Row& a, const Row& b) { return (a - b).cwiseAbs().maxCoeff(); }

inline constexpr OptimizerSettings kOptimizers[] = {
    {0, 0}, {0, 0.1}, {0.9, 0}, {0.9, 0.1}, {0.9, 0.1, true}};

}  // namespace grapevine::test
