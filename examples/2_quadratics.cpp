// Quadratics that disagree: every rank has its own optimum; the ranks look for the optimum of the
// mean.
//
//   f_i(x) = 1/2 (x - x*_i)' A (x - x*_i),   mean of |x*_i - x*|^2 = zeta^2 = 4
//
// A rank that trains alone would end at x*_i. Gossip holds the ranks together, but the gradients of
// each rank pull it back to its own optimum. The methods differ in the remaining consensus
// distance. all_reduce keeps all ranks equal and makes each wait for the slowest.
//
// To build and run: ninja -C build/release 2_quadratics && build/release/bin/2_quadratics
// It prints:
//
//   method      f(mean) - f*  consensus distance
//   ad_psgd        0.000000            0.145331
//   a2cid2         0.000000            0.066510
//   all_reduce     0.000000            0.000000
#include "examples/example.hpp"

using namespace grapevine;

int main() {
  std::printf("method      f(mean) - f*  consensus distance\n");
  for (const char* method : {"ad_psgd", "a2cid2", "all_reduce"}) {
    Settings settings;
    settings.clock = Clock::simulated;
    settings.method = method;
    settings.topology = "ring";
    settings.ranks = 16;
    settings.gradients = 16 * 500;
    settings.objective.objective = "diagonal";
    settings.objective.dim = 32;
    settings.objective.zeta2 = 4;
    settings.objective.mu = 0.1;
    settings.lr = {0.1, Schedule::constant, 0};
    settings.rule.optimizer.momentum = 0;
    settings.rule.optimizer.weight_decay = 0;
    const RunResult result = example::or_exit(run(settings));
    const Outcome& outcome = result.outcome;
    const double excess = result.objective->evaluate(0, -1, mean_parameters(outcome)).loss;
    std::printf("%-10s %12.6f  %18.6f\n", method, excess, consensus_distance(outcome));
  }
}
