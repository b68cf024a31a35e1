#include "actors/algorithms/optimizer.hpp"

#include <algorithm>
#include <cmath>

namespace grapevine {

namespace {

template <class V>
V part(V vec, size_t offset, size_t count) {
  return vec ? V(vec.part(offset, count)) : V{};
}

}  // namespace

Optimizer::Optimizer(const Execution& execution, const ParameterLayout& layout,
                     const OptimizerSettings& settings)
    : settings_(settings) {
  for (const ParameterEntry& entry : layout.entries()) {
    if (!runs_.empty() && runs_.back().decays == entry.decays) {
      runs_.back().count += entry.size();
    } else {
      runs_.push_back({entry.offset, entry.size(), entry.decays});
    }
  }
  if (runs_.size() == 1) {
    if (!runs_[0].decays) settings_.weight_decay = 0;
    runs_ = std::vector<Run>();  // frees its memory
  }
  const bool adam = settings.kind != OptimizerKind::sgd;
  if (adam || settings.momentum != 0) first_ = Buffer(execution, layout.size(), layout.dtype());
  if (adam) second_ = Buffer(execution, layout.size(), layout.dtype());
}

void Optimizer::reset(const Execution& execution) {
  if (first_) scale(execution, 0, first_, first_);
  if (second_) scale(execution, 0, second_, second_);
  steps_ = 0;
}

void Optimizer::name(RuleState& state, Follows follows, const std::string& prefix) {
  if (first_) state.add(prefix + (second_ ? "first moment" : "momentum"), first_, follows);
  if (second_) state.add(prefix + "second moment", second_, follows);
  state.add(prefix + "optimizer steps", steps_, follows);
}

void Optimizer::step(const Execution& execution, double attraction, double lr, ConstVec g, Vec x,
                     Vec x_tilde, Vec copy) {
  ++steps_;
  if (runs_.empty()) step(execution, {0, x.size, true}, attraction, lr, g, x, x_tilde, copy);
  for (const Run& run : runs_)
    step(execution, run, attraction, lr, g, x, x_tilde, copy);
}

// Block by block: x before, the step and the difference stay in the cache.
double Optimizer::measured_step(const Execution& execution, double attraction, double lr,
                                ConstVec g, Vec x, Vec x_tilde, Vec copy) {
  if (execution.device) {
    step(execution, attraction, lr, g, x, x_tilde, copy);
    return 0;
  }
  ++steps_;
  return std::sqrt(sum_of_blocks(execution, x, [&](size_t first, size_t last) {
    const size_t count = last - first;
    alignas(64) double memory[kLargestBlock];
    const Vec before(memory, count, x.dtype);
    extrapolate({}, attraction, x.part(first, count), part(x_tilde, first, count), before);
    step_between(first, last, attraction, lr, g, x, x_tilde, copy);
    return square_distance({}, (copy ? copy : x).part(first, count), before);
  }));
}

void Optimizer::step_between(size_t first, size_t last, double attraction, double lr, ConstVec g,
                             Vec x, Vec x_tilde, Vec copy) {
  if (runs_.empty())
    return step({}, {first, last - first, true}, attraction, lr, g, x, x_tilde, copy);
  const auto ends_before = [](const Run& run, size_t at) { return run.offset + run.count <= at; };
  auto run = std::lower_bound(runs_.begin(), runs_.end(), first, ends_before);
  for (; run != runs_.end() && run->offset < last; ++run) {
    const size_t from = std::max(first, run->offset);
    const size_t to = std::min(last, run->offset + run->count);
    step({}, {from, to - from, run->decays}, attraction, lr, g, x, x_tilde, copy);
  }
}

void Optimizer::step(const Execution& execution, const Run& run, double attraction, double lr,
                     ConstVec g, Vec x, Vec x_tilde, Vec copy) {
  const auto cut = [&](auto vec) { return part(vec, run.offset, run.count); };
  const double decay = run.decays ? settings_.weight_decay : 0;
  if (second_) {
    AdamStep step;
    step.lr = lr;
    step.beta2 = settings_.beta2;
    step.weight_decay = decay;
    step.decoupled = settings_.kind == OptimizerKind::adamw;
    step.t = steps_;
    return adam_step(execution, attraction, step, cut(g), cut(first_.vec()), cut(second_.vec()),
                     cut(x), cut(x_tilde), cut(copy));
  }
  const GradientStep step{lr, settings_.momentum, settings_.nesterov, decay};
  mix_and_step(execution, attraction, step, cut(g), cut(first_.vec()), cut(x), cut(x_tilde),
               cut(copy));
}

}  // namespace grapevine
