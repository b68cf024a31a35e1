// chi1, chi2 and resistances by elimination: against a dense solver, with wild rates, at scale.
#include <cmath>
#include <numbers>

#include "kernels/base/random.hpp"
#include "tests/topologies/dense.hpp"
#include "tests/topologies/tools.hpp"
#include "topologies/spectrum.hpp"
#include "topologies/spectrum_sparse.hpp"
#include "topologies/star_mesh.hpp"

using namespace grapevine;
using namespace grapevine::test;

TEST_CASE("a hundred random weighted graphs agree with the dense solver to 1e-9") {
  for (uint64_t index = 0; index < 100; ++index) {
    Random random(7, 0, Purpose::test, index);
    const int n = 4 + 2 * static_cast<int>(random.below(29));
    const std::string seed = ":" + std::to_string(index);
    const std::string specs[] = {"erdos-renyi:0.3" + seed,
                                 "random-regular:3" + seed,
                                 "ring",
                                 "binary-tree",
                                 "torus",
                                 "cliques",
                                 "complete",
                                 "chain"};
    const Topology weighted = graph(specs[index % 8], n);
    const std::vector<double> rates = random_rates(weighted, index);
    INFO(weighted.name() << " with " << n << " ranks");
    const Dense oracle = dense(weighted, rates);
    const Spectrum chosen = spectrum_of(weighted, rates);
    const Spectrum sparse = *spectrum_sparse(weighted, rates);
    CHECK(apart(chosen.chi1, oracle.chi1) < 1e-9);
    CHECK(apart(chosen.chi2, oracle.chi2) < 1e-9);
    CHECK(apart(sparse.chi1, oracle.chi1) < 1e-9);
    CHECK(apart(sparse.chi2, oracle.chi2) < 1e-9);
    REQUIRE(chosen.eigenvalues.size() == static_cast<size_t>(n));
    CHECK(sparse.eigenvalues.empty());
    for (int k = 0; k < n; ++k) {
      CHECK(std::abs(chosen.eigenvalues[static_cast<size_t>(k)] - oracle.eigenvalues[k]) <
            1e-12 * n * oracle.eigenvalues[n - 1]);
    }
    const auto resistances = StarMesh(weighted, rates).edge_resistances();
    for (size_t e = 0; e < rates.size(); ++e) {
      CHECK(apart(resistances[e], oracle.resistances[e]) < 1e-9);
    }
  }
}

TEST_CASE("chi1 and chi2 keep their digits when the rates span twelve decades") {
  // A chain of rates a, b has lambda_2 = a + b - sqrt(a^2 - a b + b^2), here without subtraction.
  const Topology chain = graph("chain", 3);
  for (const double b : {1.0, 1e-3, 1e-6, 1e-9, 1e-12}) {
    const Spectrum s = spectrum_of(chain, std::vector{1.0, b});
    const double lambda_2 = 3 * b / (1 + b + std::sqrt(1 - b + b * b));
    CHECK(apart(s.chi1, 1 / lambda_2) < 1e-12);
    CHECK(apart(s.chi2, 0.5 / b) < 1e-12);
    CHECK(apart(s.eigenvalues[1], lambda_2) < 1e-12);
  }
  // In a tree every resistance is one over the rate; here the slow edges hang on fast ones.
  const Topology tree = graph("binary-tree", 2047);
  std::vector<double> rates;
  for (size_t e = 0; e < tree.edges().size(); ++e) {
    rates.push_back(std::pow(10.0, static_cast<double>(e % 13) - 6));
  }
  const auto resistances = StarMesh(tree, rates).edge_resistances();
  for (size_t e = 0; e < rates.size(); ++e)
    CHECK(apart(resistances[e] * rates[e], 1.0) < 1e-12);
}

TEST_CASE("rates times resistances add up to ranks - 1, in small graphs and large (Foster)") {
  for (const auto& [spec, n] : {std::pair<std::string, int>{"ring", 16384},
                                {"torus", 4096},
                                {"random-regular", 1000},
                                {"star", 3000},
                                {"complete", 60}}) {
    INFO(spec << " with " << n << " ranks");
    const Topology weighted = graph(spec, n);
    const std::vector<double> rates = random_rates(weighted, 1);
    const auto resistances = StarMesh(weighted, rates).edge_resistances();
    double sum = 0;
    for (size_t e = 0; e < rates.size(); ++e)
      sum += rates[e] * resistances[e];
    CHECK(apart(sum, n - 1) < 1e-11);
  }
}

TEST_CASE("solving with the elimination undoes the Laplacian") {
  const Topology weighted = graph("random-regular:4", 200);
  const std::vector<double> rates = random_rates(weighted, 2);
  std::vector<double> x, b(200, 0.0);
  for (int k = 0; k < 200; ++k)
    x.push_back(std::sin(3.0 * k));
  double mean = 0;
  for (const double value : x)
    mean += value / 200;
  for (size_t e = 0; e < rates.size(); ++e) {
    const Edge& edge = weighted.edges()[e];
    const double flow =
        rates[e] * (x[static_cast<size_t>(edge.i)] - x[static_cast<size_t>(edge.j)]);
    b[static_cast<size_t>(edge.i)] += flow;
    b[static_cast<size_t>(edge.j)] -= flow;
  }
  for (double& value : b)
    value += 5;  // Lambda^+ takes the mean away
  StarMesh(weighted, rates).solve(b);
  for (size_t k = 0; k < 200; ++k)
    CHECK(std::abs(b[k] - (x[k] - mean)) < 1e-12);
}

TEST_CASE("a perturbed ring of 16,384 and an even one of 100,000 have their spectra") {
  const Spectrum even = spectrum_of(graph("ring", 100000));
  const double wave = std::sin(std::numbers::pi / 100000);
  CHECK(apart(even.chi1, 1 / (2 * wave * wave)) < 1e-12);
  CHECK(apart(even.chi2, 0.99999) < 1e-12);
  CHECK(even.eigenvalues.empty());

  // On a ring R_e = w (S - w) / S with w = 1 / rate and S the sum of all w.
  const Topology ring = graph("ring", 16384);
  const std::vector<double> rates = random_rates(ring, 3);
  double sum = 0, chi2 = 0;
  for (const double rate : rates)
    sum += 1 / rate;
  for (const double rate : rates)
    chi2 = std::max(chi2, 0.5 * (sum - 1 / rate) / (rate * sum));
  const Spectrum perturbed = spectrum_of(ring, rates);
  CHECK(apart(perturbed.chi2, chi2) < 1e-9);
  // Seen from afar it is a ring of the mean w: lambda_2 = (2 pi / n)^2 / mean w, but for its noise.
  CHECK(apart(perturbed.chi1, sum * 16384 / std::pow(2 * std::numbers::pi, 2)) < 0.05);
}
