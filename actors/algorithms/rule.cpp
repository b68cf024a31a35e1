#include "actors/algorithms/rule.hpp"

namespace grapevine {

std::vector<DecayRun> decay_runs(const ParameterLayout& layout) {
  std::vector<DecayRun> runs;
  for (const ParameterEntry& entry : layout.entries()) {
    if (!runs.empty() && runs.back().decays == entry.decays) {
      runs.back().count += entry.size();
    } else {
      runs.push_back({entry.offset, entry.size(), entry.decays});
    }
  }
  return runs;
}

void step_by_runs(const Execution& execution, const std::vector<DecayRun>& runs, double attraction,
                  const OptimizerSettings& optimizer, double lr, ConstVec g, Vec v, Vec x,
                  Vec x_tilde, Vec copy) {
  auto part = [](auto vec, const DecayRun& run) -> decltype(vec) {
    return vec ? decltype(vec)(vec.part(run.offset, run.count)) : decltype(vec){};
  };
  for (const DecayRun& run : runs) {
    const GradientStep step{lr, optimizer.momentum, optimizer.nesterov,
                            run.decays ? optimizer.weight_decay : 0};
    mix_and_step(execution, attraction, step, part(g, run), part(v, run), part(x, run),
                 part(x_tilde, run), part(copy, run));
  }
}

}  // namespace grapevine
