// What lost messages do to the methods that gossip by a matrix: 16 ranks on a ring, random
// quadratics of 10 dimensions with zeta^2 = 1, the optimum 10 away; the mean over the last 500 of
// 4,000 rounds of f(mean) - minimum. The figures are our own runs of the published equations
// (Vogels et al., NeurIPS 2021, arXiv 2110.04175, appendix on robustness); other draws stay within
// a factor 3.
#include <cmath>

#include "kernels/random.hpp"
#include "tests/catch.hpp"
#include "tests/methods_problems.hpp"

using namespace grapevine;
using namespace grapevine::test;

namespace {

double final_suboptimality(const std::string& method, Missing missing, double loss) {
  const auto problem = quadratics(1);
  LockstepOptions options;
  options.method = method;
  options.ranks = 16;
  if (method != "d_psgd") options.weights = kBelowThird;
  options.layout = problem->layout();
  options.rule.missing = missing;
  options.gradient = gradient_of(*problem);
  options.lost = [loss](uint64_t round, int from, int to) {
    const auto edge = static_cast<uint32_t>(16 * from + to);
    return Random(5, edge, Purpose::test, round).uniform() < loss;
  };
  Lockstep run(options);
  double sum = 0;
  for (int round = 0; round < 4000; ++round) {
    run.round(method == "gradient_tracking" ? 0.05 : 0.1);
    if (round >= 3500) sum += suboptimality(*problem, run);
  }
  return sum / 500;
}

}  // namespace

TEST_CASE("lost messages: every policy is within a factor 3 of its published figure") {
  struct Figure {
    const char* method;
    Missing missing;
    double at_1_percent, at_10_percent;
  };
  const Figure figures[] = {
      {"d_psgd", Missing::shrink, 0.559, 17.2},
      {"d_psgd", Missing::renormalise, 1.60e-3, 2.07e-3},
      {"d_psgd", Missing::own, 1.53e-3, 1.94e-3},
      {"d2", Missing::shrink, 61.4, 61.4},
      {"d2", Missing::renormalise, 2.5e-3, 7.1e-2},
      {"d2", Missing::own, 1.1e-3, 4.3e-2},
      {"d2", Missing::reuse, 0.193, 15.1},
      {"gradient_tracking", Missing::reuse, 1.5e-3, 0.327},
  };
  for (const Figure& figure : figures) {
    const double at_1 = final_suboptimality(figure.method, figure.missing, 0.01);
    const double at_10 = final_suboptimality(figure.method, figure.missing, 0.1);
    INFO(figure.method << ", policy " << static_cast<int>(figure.missing) << ": " << at_1 << " "
                       << at_10);
    CHECK(std::abs(std::log(at_1 / figure.at_1_percent)) < std::log(3));
    CHECK(std::abs(std::log(at_10 / figure.at_10_percent)) < std::log(3));
  }
}

TEST_CASE("while nothing is lost the policies are one") {
  for (const char* method : {"d_psgd", "d2", "gradient_tracking"}) {
    const double asked = final_suboptimality(method, Missing::resend, 0);
    for (const Missing missing :
         {Missing::renormalise, Missing::own, Missing::reuse, Missing::shrink}) {
      const double other = final_suboptimality(method, missing, 0);
      CHECK(std::abs(other - asked) <= 1e-12 * asked + 1e-26);
    }
    const bool exact = method != std::string("d_psgd");
    CHECK(asked < (exact ? 1e-24 : 3 * 1.41e-3));
    CHECK(asked > (exact ? -1e-30 : 1.41e-3 / 3));
  }
}
