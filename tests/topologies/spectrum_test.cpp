// chi1 and chi2 against the printed values of the literature, closed forms and a dense solver.
// eta and alpha~ are computed here: eta = 1 / (2 sqrt(chi1 chi2)), alpha~ = 1/2 sqrt(chi1 / chi2)
// (Nabli, Belilovsky, Oyallon, NeurIPS 2023, Prop. 3.6).
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numbers>

#include "tests/topologies/dense.hpp"
#include "tests/topologies/tools.hpp"
#include "topologies/spectrum.hpp"
#include "topologies/spectrum_cache.hpp"
#include "topologies/spectrum_sparse.hpp"

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

}  // namespace

TEST_CASE("chi1, chi2, eta and alpha~ of ring, exponential, star and complete are those printed") {
  struct Row {
    int n;
    const char *ring_chi1, *ring_chi2, *ring_eta, *ring_alpha;
    const char *exp_chi1, *exp_chi2, *exp_eta, *exp_alpha;
    const char *star_eta, *star_alpha, *complete_eta, *complete_chi;
  };
  const Row rows[] = {{4, "1.00000", ".750000", ".577350", ".577350", "1.0", ".833333", ".547723",
                       ".547723", ".471405", ".707107", ".666667", ".75"},
                      {8, "3.41421", ".875000", ".289281", ".987669", "1.5", ".963710", ".415864",
                       ".623796", ".404061", ".707107", ".571429", ".875"},
                      {16, "13.13707", ".937500", ".142474", "1.871689", "2.0", "1.009659",
                       ".351858", ".703716", ".377124", ".707107", ".533333", ".9375"},
                      {32, "52.04343", ".968750", ".070418", "3.664773", "2.5", "1.022938",
                       ".312662", ".781656", ".364958", ".707107", ".516129", ".96875"},
                      {64, "207.67253", ".984375", ".034970", "7.262385", "3.0", "1.024076",
                       ".285262", ".855785", ".359165", ".707107", ".507937", ".984375"}};
  for (const Row& row : rows) {
    INFO(row.n << " ranks");
    const Spectrum ring = spectrum_of(graph("ring", row.n));
    check_printed(row.ring_chi1, ring.chi1);
    check_printed(row.ring_chi2, ring.chi2);
    check_printed(row.ring_eta, eta(ring));
    check_printed(row.ring_alpha, alpha_tilde(ring));
    const Spectrum exponential = spectrum_of(graph("exponential", row.n));
    check_printed(row.exp_chi1, exponential.chi1);
    check_printed(row.exp_chi2, exponential.chi2);
    check_printed(row.exp_eta, eta(exponential));
    check_printed(row.exp_alpha, alpha_tilde(exponential));
    const Spectrum star = spectrum_of(graph("star", row.n));
    check_printed(row.star_eta, eta(star));
    check_printed(row.star_alpha, alpha_tilde(star));
    const Spectrum complete = spectrum_of(graph("complete", row.n));
    check_printed(row.complete_eta, eta(complete));
    check_printed(row.complete_chi, complete.chi1);
    check_printed(row.complete_chi, complete.chi2);
    check_printed("0.500000", alpha_tilde(complete));
  }
}

TEST_CASE("the torus of 8 by 8 has the printed constants") {
  const Spectrum torus = spectrum_of(graph("torus", 64));
  check_printed("6.82843", torus.chi1);
  check_printed(".984375", torus.chi2);
  check_printed(".192854", eta(torus));
  check_printed("1.316892", alpha_tilde(torus));
}

TEST_CASE("the closed forms hold for every rate") {
  const double r = 0.37;
  for (const int n : {2, 4, 8, 32, 128, 1024, 4096}) {
    INFO(n << " ranks");
    const double foster =
        (n - 1.0) / (n * r);  // chi2 of every edge-transitive graph of equal rates
    const Spectrum star = spectrum_of(graph("star", n, r));
    const Spectrum cube = spectrum_of(graph("hypercube", n, r));
    CHECK(apart(star.chi1, n == 2 ? foster : 2 * foster) < 1e-12);
    CHECK(apart(star.chi2, foster) < 1e-12);
    CHECK(apart(cube.chi1, std::log2(n) / (2 * r)) < 1e-12);
    CHECK(apart(cube.chi2, foster) < 1e-12);
    const Spectrum ring = spectrum_of(graph("ring", n, r));
    const double wave = std::sin(std::numbers::pi / n);
    CHECK(apart(ring.chi1, 1 / (2 * r * wave * wave)) < 1e-12);
    CHECK(apart(ring.chi2, foster) < 1e-12);
    const Spectrum exponential = spectrum_of(graph("exponential", n, r));
    CHECK(apart(exponential.chi1, std::log2(n) / (2 * r)) < 1e-12);
    if (n > 1024) continue;  // eight million edges
    const Spectrum complete = spectrum_of(graph("complete", n, r));
    CHECK(apart(complete.chi1, foster) < 1e-12);
    CHECK(apart(complete.chi2, foster) < 1e-12);
  }
  CHECK(spectrum_of(graph("ring", 1)).chi1 == 0);
  CHECK(spectrum_of(graph("ring", 1)).chi2 == 0);
  CHECK(spectrum_of(graph("ring", 1)).eigenvalues == std::vector{0.0});
}

TEST_CASE("closed forms and elimination agree on every graph") {
  for (const int n : {2, 4, 16, 64, 256}) {
    for (const std::string spec :
         {"ring", "complete", "exponential", "exponential-simple", "hypercube"}) {
      INFO(spec << " with " << n << " ranks");
      const Topology symmetric = graph(spec, n);
      std::vector<double> rates;
      for (const Edge& edge : symmetric.edges())
        rates.push_back(edge.rate);
      const Spectrum closed = spectrum_of(symmetric), sparse = *spectrum_sparse(symmetric, rates);
      CHECK(apart(closed.chi1, sparse.chi1) < 1e-11);
      CHECK(apart(closed.chi2, sparse.chi2) < 1e-11);
      const Dense oracle = dense(symmetric, rates);
      for (int k = 0; k < n; ++k) {
        CHECK(std::abs(closed.eigenvalues[static_cast<size_t>(k)] - oracle.eigenvalues[k]) <
              1e-12 * n);
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
      CHECK(apart(spectrum_of(symmetric, rates).chi1, oracle.chi1) < 1e-9);
      CHECK(apart(spectrum_of(symmetric, rates).chi2, oracle.chi2) < 1e-9);
    }
  }
  const auto cut = Topology::from_edges(
      8, {{0, 1, 1}, {1, 2, 1}, {2, 3, 1}, {3, 4, 1}, {4, 5, 1}, {5, 6, 1}, {6, 7, 1}},
      "a ring with one edge missing");
  REQUIRE(cut);
  CHECK(apart(spectrum_of(*cut).chi1, spectrum_of(graph("ring", 8)).chi1) > 0.1);
}

TEST_CASE(
    "the Laplacian of every graph has rows that add up to zero and n - 1 positive eigenvalues") {
  CHECK(rc::check([] {
    const auto [spec, ranks] = *any_spec();
    const Topology made = *make_topology(spec, ranks, 1);
    const Spectrum s = spectrum_of(made);
    RC_ASSERT(s.eigenvalues.size() == static_cast<size_t>(ranks));
    RC_ASSERT(std::ranges::is_sorted(s.eigenvalues));
    RC_ASSERT(s.eigenvalues[0] == 0.0);
    double trace = 0, twice_rates = 0;
    for (const double value : s.eigenvalues)
      trace += value;
    for (const Edge& edge : made.edges())
      twice_rates += 2 * edge.rate;
    RC_ASSERT(std::abs(trace - twice_rates) <= 1e-10 * twice_rates);
    if (ranks == 1) return;
    RC_ASSERT(s.eigenvalues[1] > 0);
    RC_ASSERT(s.chi2 <= s.chi1 * (1 + 1e-12));
    RC_ASSERT(std::abs(s.chi1 * s.eigenvalues[1] - 1) < 1e-12);
  }));
}

TEST_CASE("a faster clock divides both times") {
  const Topology torus = graph("torus", 36);
  std::vector<double> rates = random_rates(torus, 4);
  const Spectrum slow = spectrum_of(torus, rates);
  for (double& rate : rates)
    rate *= 8;
  const Spectrum fast = spectrum_of(torus, rates);
  CHECK(apart(slow.chi1, 8 * fast.chi1) < 1e-12);
  CHECK(apart(slow.chi2, 8 * fast.chi2) < 1e-12);
}

TEST_CASE("rates that part a graph, or are none, are refused by the edge") {
  const Topology chain = graph("chain", 4);
  const double none = std::numeric_limits<double>::quiet_NaN();
  const double endless = std::numeric_limits<double>::infinity();
  for (const double bad : {0.0, -1.0, none, endless}) {
    const auto refused = spectrum(chain, std::vector{1.0, bad, 1.0});
    REQUIRE_FALSE(refused);
    CHECK(refused.error().exit_status() == 1);
    CHECK_THAT(refused.error().message, Catch::Contains("edge 1 2 has rate"));
  }
}

TEST_CASE("rates too far apart to be solved for are refused") {
  const Topology ring = graph("ring", 9);
  std::vector<double> rates(9, 1e300);
  rates[2] = rates[5] = rates[7] = 1e-300;
  CHECK_FALSE(spectrum(ring, rates));
  CHECK_FALSE(spectrum(ring, std::vector<double>(9, 1e-310)));
  CHECK_FALSE(spectrum_sparse(ring, std::vector<double>(9, 1e-320)));
}

TEST_CASE("who asks for the same spectrum shares it") {
  SpectrumCache cache;
  const Topology ring = graph("ring", 8), chain = graph("chain", 9);
  const std::vector<double> even(8, 1.0);
  std::vector<double> uneven = even;
  uneven[3] = 2;
  const auto first = cache.of(ring, even);
  REQUIRE(*first);
  CHECK((*first)->chi1 == spectrum_of(ring, even).chi1);
  CHECK(cache.of(graph("ring", 8), even) == first);
  CHECK(cache.solved() == 1);
  CHECK((*cache.of(ring, uneven))->chi1 == spectrum_of(ring, uneven).chi1);
  CHECK((*cache.of(chain, even))->chi1 == spectrum_of(chain, even).chi1);  // other edges
  CHECK(cache.solved() == 3);
  for (size_t k = 0; k < kSpectraKept; ++k) {
    uneven[3] = 3 + static_cast<double>(k);
    CHECK(cache.of(ring, even) == first);  // in use, so it stays
    (void)cache.of(ring, uneven);
  }
  CHECK(cache.solved() == 3 + kSpectraKept);
  uneven[3] = 2;
  (void)cache.of(ring, uneven);  // long ago
  CHECK(cache.solved() == 4 + kSpectraKept);
  const Topology large = graph("ring", kEdgesKept + 1);
  const std::vector<double> many(kEdgesKept + 1, 1.0);
  (void)cache.of(large, many);
  (void)cache.of(large, many);  // too much to be kept
  CHECK(cache.solved() == 6 + kSpectraKept);
}
