// chi1 and chi2 against the printed values of the literature, closed forms and a dense solver.
// eta and alpha~ are computed here: eta = 1 / (2 sqrt(chi1 chi2)), alpha~ = 1/2 sqrt(chi1 / chi2)
// (Nabli, Belilovsky, Oyallon, NeurIPS 2023, Prop. 3.6).
#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numbers>

#include "kernels/random.hpp"
#include "tests/topologies_tools.hpp"
#include "topologies/spectrum.hpp"
#include "topologies/spectrum_sparse.hpp"
#include "topologies/star_mesh.hpp"

using namespace grapevine;
using namespace grapevine::test;

namespace {

double eta(const Spectrum& s) { return 0.5 / std::sqrt(s.chi1 * s.chi2); }
double alpha_tilde(const Spectrum& s) { return 0.5 * std::sqrt(s.chi1 / s.chi2); }

/// The value with as many decimals as `printed` has; ".5" and "0.5" are the same.
std::string like(const std::string& printed, double value) {
  char text[64];
  const auto decimals = static_cast<int>(printed.size() - printed.find('.') - 1);
  std::snprintf(text, sizeof text, "%.*f", decimals, value);
  const std::string result = text;
  return printed[0] == '.' && result[0] == '0' ? result.substr(1) : result;
}

void check_printed(const std::string& printed, double value) {
  CHECK(like(printed, value) == printed);
}

struct Dense {
  double chi1 = 0, chi2 = 0;
  std::vector<double> resistances;
  Eigen::VectorXd eigenvalues;
};

/// The oracle: every eigenvector of the Laplacian.
Dense dense(const Topology& graph, std::span<const double> rates) {
  const int n = graph.ranks();
  Eigen::MatrixXd laplacian = Eigen::MatrixXd::Zero(n, n);
  for (size_t e = 0; e < rates.size(); ++e) {
    Eigen::VectorXd d = Eigen::VectorXd::Zero(n);
    d[graph.edges()[e].i] = 1;
    d[graph.edges()[e].j] = -1;
    laplacian += rates[e] * d * d.transpose();
  }
  const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solver(laplacian);
  Dense result{1 / solver.eigenvalues()[1], 0, {}, solver.eigenvalues()};
  for (const Edge& edge : graph.edges()) {
    double resistance = 0;
    for (int k = 1; k < n; ++k) {
      const auto v = solver.eigenvectors().col(k);
      resistance += std::pow(v[edge.i] - v[edge.j], 2) / solver.eigenvalues()[k];
    }
    result.resistances.push_back(resistance);
  }
  result.chi2 = 0.5 * std::ranges::max(result.resistances);
  return result;
}

std::vector<double> random_rates(const Topology& graph, uint64_t index) {
  Random random(2024, 0, Purpose::test, index);
  std::vector<double> rates;
  for (size_t e = 0; e < graph.edges().size(); ++e) {
    rates.push_back(std::exp(random.uniform(std::log(0.1), std::log(10))));
  }
  return rates;
}

double apart(double a, double b) { return std::abs(a / b - 1); }

}  // namespace

TEST_CASE("chi1, chi2, eta and alpha~ of ring, exponential, star and complete are those printed") {
  struct Row {
    int n;
    const char *ring_chi1, *ring_chi2, *ring_eta, *ring_alpha;
    const char *exp_chi1, *exp_chi2, *exp_eta, *exp_alpha;
    const char *star_eta, *star_alpha, *complete_eta, *complete_chi;
  };
  const Row rows[] = {
      {4, "1.00000", ".750000", ".577350", ".577350", "1.0", ".833333", ".547723", ".547723",
       ".471405", ".707107", ".666667", ".75"},
      {8, "3.41421", ".875000", ".289281", ".987669", "1.5", ".963710", ".415864", ".623796",
       ".404061", ".707107", ".571429", ".875"},
      {16, "13.13707", ".937500", ".142474", "1.871689", "2.0", "1.009659", ".351858", ".703716",
       ".377124", ".707107", ".533333", ".9375"},
      {32, "52.04343", ".968750", ".070418", "3.664773", "2.5", "1.022938", ".312662", ".781656",
       ".364958", ".707107", ".516129", ".96875"},
      {64, "207.67253", ".984375", ".034970", "7.262385", "3.0", "1.024076", ".285262", ".855785",
       ".359165", ".707107", ".507937", ".984375"}};
  for (const Row& row : rows) {
    INFO(row.n << " ranks");
    const Spectrum ring = spectrum(graph("ring", row.n));
    check_printed(row.ring_chi1, ring.chi1);
    check_printed(row.ring_chi2, ring.chi2);
    check_printed(row.ring_eta, eta(ring));
    check_printed(row.ring_alpha, alpha_tilde(ring));
    const Spectrum exponential = spectrum(graph("exponential", row.n));
    check_printed(row.exp_chi1, exponential.chi1);
    check_printed(row.exp_chi2, exponential.chi2);
    check_printed(row.exp_eta, eta(exponential));
    check_printed(row.exp_alpha, alpha_tilde(exponential));
    const Spectrum star = spectrum(graph("star", row.n));
    check_printed(row.star_eta, eta(star));
    check_printed(row.star_alpha, alpha_tilde(star));
    const Spectrum complete = spectrum(graph("complete", row.n));
    check_printed(row.complete_eta, eta(complete));
    check_printed(row.complete_chi, complete.chi1);
    check_printed(row.complete_chi, complete.chi2);
    check_printed("0.500000", alpha_tilde(complete));
  }
}

TEST_CASE("the torus of 8 by 8 has the printed constants") {
  const Spectrum torus = spectrum(graph("torus", 64));
  check_printed("6.82843", torus.chi1);
  check_printed(".984375", torus.chi2);
  check_printed(".192854", eta(torus));
  check_printed("1.316892", alpha_tilde(torus));
}

TEST_CASE("the closed forms hold for every rate") {
  const double r = 0.37;
  for (const int n : {2, 4, 8, 32, 128, 1024, 4096}) {
    INFO(n << " ranks");
    const double foster = (n - 1.0) / (n * r);  // chi2 of every edge-transitive graph of equal rates
    const Spectrum star = spectrum(graph("star", n, r)), cube = spectrum(graph("hypercube", n, r));
    CHECK(apart(star.chi1, n == 2 ? foster : 2 * foster) < 1e-12);
    CHECK(apart(star.chi2, foster) < 1e-12);
    CHECK(apart(cube.chi1, std::log2(n) / (2 * r)) < 1e-12);
    CHECK(apart(cube.chi2, foster) < 1e-12);
    const Spectrum ring = spectrum(graph("ring", n, r));
    const double wave = std::sin(std::numbers::pi / n);
    CHECK(apart(ring.chi1, 1 / (2 * r * wave * wave)) < 1e-12);
    CHECK(apart(ring.chi2, foster) < 1e-12);
    const Spectrum exponential = spectrum(graph("exponential", n, r));
    CHECK(apart(exponential.chi1, std::log2(n) / (2 * r)) < 1e-12);
    if (n > 1024) continue;  // eight million edges
    const Spectrum complete = spectrum(graph("complete", n, r));
    CHECK(apart(complete.chi1, foster) < 1e-12);
    CHECK(apart(complete.chi2, foster) < 1e-12);
  }
  CHECK(spectrum(graph("ring", 1)).chi1 == 0);
  CHECK(spectrum(graph("ring", 1)).chi2 == 0);
  CHECK(spectrum(graph("ring", 1)).eigenvalues == std::vector{0.0});
}

TEST_CASE("a hundred random weighted graphs agree with the dense solver to 1e-9") {
  for (uint64_t index = 0; index < 100; ++index) {
    Random random(7, 0, Purpose::test, index);
    const int n = 4 + 2 * static_cast<int>(random.below(29));
    const std::string seed = ":" + std::to_string(index);
    const std::string specs[] = {"erdos-renyi:0.3" + seed, "random-regular:3" + seed, "ring",
                                 "binary-tree", "torus", "cliques", "complete", "chain"};
    const Topology weighted = graph(specs[index % 8], n);
    const std::vector<double> rates = random_rates(weighted, index);
    INFO(weighted.name() << " with " << n << " ranks");
    const Dense oracle = dense(weighted, rates);
    const Spectrum chosen = spectrum(weighted, rates), sparse = spectrum_sparse(weighted, rates);
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

TEST_CASE("closed forms and elimination agree on every graph") {
  for (const int n : {2, 4, 16, 64, 256}) {
    for (const std::string spec : {"ring", "complete", "exponential", "exponential-simple",
                                   "hypercube"}) {
      INFO(spec << " with " << n << " ranks");
      const Topology symmetric = graph(spec, n);
      std::vector<double> rates;
      for (const Edge& edge : symmetric.edges()) rates.push_back(edge.rate);
      const Spectrum closed = spectrum(symmetric), sparse = spectrum_sparse(symmetric, rates);
      CHECK(apart(closed.chi1, sparse.chi1) < 1e-11);
      CHECK(apart(closed.chi2, sparse.chi2) < 1e-11);
      const Dense oracle = dense(symmetric, rates);
      for (int k = 0; k < n; ++k) {
        CHECK(std::abs(closed.eigenvalues[static_cast<size_t>(k)] - oracle.eigenvalues[k]) < 1e-12 * n);
      }
    }
  }
}

TEST_CASE("one rate that differs takes a symmetric graph out of its closed form") {
  for (const std::string spec : {"ring", "hypercube", "complete"}) {
    const Topology symmetric = graph(spec, 16);
    for (const size_t slow : {size_t{0}, symmetric.edges().size() - 1}) {
      std::vector<double> rates(symmetric.edges().size(), 1.0);
      rates[slow] = 0.25;
      const Dense oracle = dense(symmetric, rates);
      CHECK(apart(spectrum(symmetric, rates).chi1, oracle.chi1) < 1e-9);
      CHECK(apart(spectrum(symmetric, rates).chi2, oracle.chi2) < 1e-9);
    }
  }
  const auto cut = Topology::from_edges(8, {{0, 1, 1}, {1, 2, 1}, {2, 3, 1}, {3, 4, 1}, {4, 5, 1},
                                            {5, 6, 1}, {6, 7, 1}}, "a ring with one edge missing");
  REQUIRE(cut);
  CHECK(apart(spectrum(*cut).chi1, spectrum(graph("ring", 8)).chi1) > 0.1);
}

TEST_CASE("chi1 and chi2 keep their digits when the rates span twelve decades") {
  // A chain of rates a, b has lambda_2 = a + b - sqrt(a^2 - a b + b^2), here without subtraction.
  const Topology chain = graph("chain", 3);
  for (const double b : {1.0, 1e-3, 1e-6, 1e-9, 1e-12}) {
    const Spectrum s = spectrum(chain, std::vector{1.0, b});
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
  for (size_t e = 0; e < rates.size(); ++e) CHECK(apart(resistances[e] * rates[e], 1.0) < 1e-12);
}

TEST_CASE("rates times resistances add up to ranks - 1, in small graphs and large (Foster)") {
  for (const auto& [spec, n] : {std::pair<std::string, int>{"ring", 16384}, {"torus", 4096},
                                {"random-regular", 1000}, {"star", 3000}, {"complete", 60}}) {
    INFO(spec << " with " << n << " ranks");
    const Topology weighted = graph(spec, n);
    const std::vector<double> rates = random_rates(weighted, 1);
    const auto resistances = StarMesh(weighted, rates).edge_resistances();
    double sum = 0;
    for (size_t e = 0; e < rates.size(); ++e) sum += rates[e] * resistances[e];
    CHECK(apart(sum, n - 1) < 1e-11);
  }
}

TEST_CASE("solving with the elimination undoes the Laplacian") {
  const Topology weighted = graph("random-regular:4", 200);
  const std::vector<double> rates = random_rates(weighted, 2);
  std::vector<double> x, b(200, 0.0);
  for (int k = 0; k < 200; ++k) x.push_back(std::sin(3.0 * k));
  double mean = 0;
  for (const double value : x) mean += value / 200;
  for (size_t e = 0; e < rates.size(); ++e) {
    const Edge& edge = weighted.edges()[e];
    const double flow = rates[e] * (x[static_cast<size_t>(edge.i)] - x[static_cast<size_t>(edge.j)]);
    b[static_cast<size_t>(edge.i)] += flow;
    b[static_cast<size_t>(edge.j)] -= flow;
  }
  for (double& value : b) value += 5;  // Lambda^+ takes the mean away
  StarMesh(weighted, rates).solve(b);
  for (size_t k = 0; k < 200; ++k) CHECK(std::abs(b[k] - (x[k] - mean)) < 1e-12);
}

TEST_CASE("the Laplacian of every graph has rows that add up to zero and n - 1 positive eigenvalues") {
  CHECK(rc::check([] {
    const auto [spec, ranks] = *any_spec();
    const Topology made = *make_topology(spec, ranks, 1);
    const Spectrum s = spectrum(made);
    RC_ASSERT(s.eigenvalues.size() == static_cast<size_t>(ranks));
    RC_ASSERT(std::ranges::is_sorted(s.eigenvalues));
    RC_ASSERT(s.eigenvalues[0] == 0.0);
    double trace = 0, twice_rates = 0;
    for (const double value : s.eigenvalues) trace += value;
    for (const Edge& edge : made.edges()) twice_rates += 2 * edge.rate;
    RC_ASSERT(std::abs(trace - twice_rates) <= 1e-10 * twice_rates);
    if (ranks == 1) return;
    RC_ASSERT(s.eigenvalues[1] > 0);
    RC_ASSERT(s.chi2 <= s.chi1 * (1 + 1e-12));
    RC_ASSERT(std::abs(s.chi1 * s.eigenvalues[1] - 1) < 1e-12);
  }));
}

TEST_CASE("a perturbed ring of 16,384 and an even one of 100,000 have their spectra") {
  const Spectrum even = spectrum(graph("ring", 100000));
  const double wave = std::sin(std::numbers::pi / 100000);
  CHECK(apart(even.chi1, 1 / (2 * wave * wave)) < 1e-12);
  CHECK(apart(even.chi2, 0.99999) < 1e-12);
  CHECK(even.eigenvalues.empty());

  // On a ring R_e = w (S - w) / S with w = 1 / rate and S the sum of all w.
  const Topology ring = graph("ring", 16384);
  const std::vector<double> rates = random_rates(ring, 3);
  double sum = 0, chi2 = 0;
  for (const double rate : rates) sum += 1 / rate;
  for (const double rate : rates) chi2 = std::max(chi2, 0.5 * (sum - 1 / rate) / (rate * sum));
  const Spectrum perturbed = spectrum(ring, rates);
  CHECK(apart(perturbed.chi2, chi2) < 1e-9);
  // Seen from afar it is a ring of the mean w: lambda_2 = (2 pi / n)^2 / mean w, but for its noise.
  CHECK(apart(perturbed.chi1, sum * 16384 / std::pow(2 * std::numbers::pi, 2)) < 0.05);
}

TEST_CASE("a faster clock divides both times") {
  const Topology torus = graph("torus", 36);
  std::vector<double> rates = random_rates(torus, 4);
  const Spectrum slow = spectrum(torus, rates);
  for (double& rate : rates) rate *= 8;
  const Spectrum fast = spectrum(torus, rates);
  CHECK(apart(slow.chi1, 8 * fast.chi1) < 1e-12);
  CHECK(apart(slow.chi2, 8 * fast.chi2) < 1e-12);
}
