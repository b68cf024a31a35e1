// The constants of A2CiD2 and what they buy: decay rates from the second-moment equations, built
// out of the linear map of the rule that runs. Nabli, Belilovsky, Oyallon, NeurIPS 2023, section 3.
#include <cmath>

#include "actors/algorithms/a2cid2.hpp"
#include "actors/algorithms/a2cid2_constants.hpp"
#include "actors/algorithms/ad_psgd.hpp"
#include "kernels/memory/snapshot_pool.hpp"
#include "tests/algorithms/rules_tools.hpp"
#include "tests/algorithms/second_moments.hpp"
#include "tests/topologies/tools.hpp"

using namespace grapevine;
using namespace grapevine::test;

namespace {

const ParameterLayout& one_number() {
  static const ParameterLayout layout = ParameterLayout::flat(1, DType::f64);
  return layout;
}

ConstVec view(const double& x) { return {&x, 1, DType::f64}; }

Payload payload_of(SnapshotPool& pool, double x) {
  Payload payload{pool.take()};
  *payload.writable(DType::f64, 1).as<double>() = x;
  payload.lease.set_phase(0);
  return payload;
}

/// A rule that holds any x and x~: it starts at one point and jumps off it by m = x - x~, once.
A2cid2 holding(double x, double x_tilde, double eta) {
  const double m = x - x_tilde, start = x + kAlpha * m;
  A2cid2 rule(context_of(one_number(), {}, view(start)));
  SnapshotPool pool(1, DType::f64, 2);
  rule.jump(0, {}, payload_of(pool, m), payload_of(pool, 0), 1 + kAlpha, 1);
  rule.set_eta(0, eta);
  return rule;
}

void read(PairwiseRule& rule, double now, double& x, double& x_tilde) {
  rule.read(now, {&x, 1, DType::f64});
  double sum = 0;
  rule.add_conserved(now, {&sum, 1, DType::f64});
  x_tilde = sum - x;
}

LinearRule map_of_a2cid2(A2cid2Constants c) {
  const auto mix = [c](double& x, double& x_tilde, double seconds) {
    A2cid2 rule = holding(x, x_tilde, c.eta);
    read(rule, seconds, x, x_tilde);
  };
  const auto exchange = [c](double& x_i, double& x_tilde_i, double& x_j, double& x_tilde_j) {
    A2cid2 i = holding(x_i, x_tilde_i, c.eta), j = holding(x_j, x_tilde_j, c.eta);
    SnapshotPool pool(1, DType::f64, 2);
    Payload from_i{pool.take()}, from_j{pool.take()};
    i.snapshot(0, {}, {}, from_i);
    j.snapshot(0, {}, {}, from_j);
    i.jump(0, {}, from_i, from_j, c.alpha_tilde, 1);
    j.jump(0, {}, from_j, from_i, c.alpha_tilde, 1);
    read(i, 0, x_i, x_tilde_i);
    read(j, 0, x_j, x_tilde_j);
  };
  return {mix, exchange};
}

/// The rule keeps no twin: x~ is put down as a copy of x's change, and drives nothing.
LinearRule map_of_ad_psgd() {
  const auto exchange = [](double& x_i, double& x_tilde_i, double& x_j, double& x_tilde_j) {
    AdPsgd i(context_of(one_number(), {}, view(x_i))), j(context_of(one_number(), {}, view(x_j)));
    SnapshotPool pool(1, DType::f64, 2);
    Payload from_i{pool.take()}, from_j{pool.take()};
    i.snapshot(0, {}, {}, from_i);
    j.snapshot(0, {}, {}, from_j);
    i.jump(0, {}, from_i, from_j, 0.5, 1);
    j.jump(0, {}, from_j, from_i, 0.5, 1);
    x_tilde_i -= x_i, x_tilde_j -= x_j;
    i.read(0, {&x_i, 1, DType::f64});
    j.read(0, {&x_j, 1, DType::f64});
    x_tilde_i += x_i, x_tilde_j += x_j;
  };
  return {[](double&, double&, double) {}, exchange};
}

}  // namespace

TEST_CASE("the map of the rule that runs has the decay rates of the table") {
  struct Row {
    const char* spec;
    int n;
    double plain, accelerated;
  };
  const Row rows[] = {{"ring", 4, .60961, .61446},         {"ring", 8, .26806, .35984},
                      {"ring", 16, .07535, .19855},        {"ring", 32, .01919, .10682},
                      {"ring", 64, .00481, .05670},        {"exponential", 64, .32538, .41786},
                      {"exponential", 4, .62500, .62812},  {"exponential", 8, .50537, .51775},
                      {"exponential", 16, .43703, .46731}, {"exponential", 32, .37801, .43808},
                      {"star", 4, .47948, .51240},         {"star", 8, .39329, .42204},
                      {"star", 16, .36087, .38824},        {"star", 32, .34656, .37340},
                      {"star", 64, .33982, .36644},        {"complete", 4, .66667, .66667},
                      {"complete", 8, .57143, .57143},     {"complete", 16, .53333, .53333},
                      {"complete", 32, .51613, .51613},    {"complete", 64, .50794, .50794}};
  // The printed accelerated rates are up to 4e-5 below what a dense eigensolver finds.
  const double printed = 5e-5, digit = 0.51e-5;
  for (const Row& row : rows) {
    INFO(row.spec << " of " << row.n);
    const Topology made = graph(row.spec, row.n);
    const LinearRule accelerated = map_of_a2cid2(*a2cid2_constants(*spectrum(made)));
    CHECK(SecondMoments(made, accelerated).slowest_decay() ==
          Approx(row.accelerated).margin(printed).epsilon(0));
    CHECK(SecondMoments(made, map_of_ad_psgd()).slowest_decay() ==
          Approx(row.plain).margin(digit).epsilon(0));
  }
}

TEST_CASE("eta and alpha~ are those of the table, one exchange per rank and unit of time") {
  struct Row {
    const char* spec;
    int n;
    double eta, alpha_tilde;
  };
  const Row rows[] = {{"ring", 4, .577350, .577350},         {"ring", 16, .142474, 1.871689},
                      {"ring", 64, .034970, 7.262385},       {"exponential", 8, .415864, .623796},
                      {"exponential", 64, .285262, .855785}, {"star", 32, .364958, .707107},
                      {"complete", 16, .533333, .5},         {"torus:8x8", 64, .192854, 1.316892}};
  for (const Row& row : rows) {
    INFO(row.spec << " of " << row.n);
    const A2cid2Constants c = *a2cid2_constants(*spectrum(graph(row.spec, row.n)));
    CHECK(c.eta == Approx(row.eta).margin(1e-6).epsilon(0));
    CHECK(c.alpha_tilde == Approx(row.alpha_tilde).margin(1e-6).epsilon(0));
  }
}

TEST_CASE("without repeats eta grows and alpha~ shrinks by sqrt(d / (d-1)), d of the inner ranks") {
  const A2cid2Constants c{0.3, 2};
  const auto factor = [&](const std::string& spec, int n) {
    const A2cid2Constants corrected = without_repeats(c, graph(spec, n));
    CHECK(corrected.eta * corrected.alpha_tilde == Approx(c.eta * c.alpha_tilde));
    return corrected.eta / c.eta;
  };
  CHECK(factor("ring", 64) == Approx(std::sqrt(2.0)));
  CHECK(factor("torus", 64) == Approx(std::sqrt(4.0 / 3)));
  CHECK(factor("star", 16) == Approx(std::sqrt(15.0 / 14)));  // leaves have no choice
  CHECK(factor("chain", 5) == Approx(std::sqrt(2.0)));
  CHECK(factor("chain", 2) == 1);  // nobody has
}

TEST_CASE("a spectrum that gives no constants is refused") {
  CHECK_FALSE(a2cid2_constants({0, 1, {}}));
  CHECK_FALSE(a2cid2_constants({1e200, 1e200, {}}));
  CHECK_FALSE(a2cid2_constants({1e-200, 1e-200, {}}));
  CHECK(a2cid2_constants({1e3, 1, {}}));
}
