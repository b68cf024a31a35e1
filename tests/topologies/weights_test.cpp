// Gossip matrices and their spectra: the figures of the RelaySum and PowerGossip papers (Vogels et
// al., NeurIPS 2021, arXiv 2110.04175, and NeurIPS 2020, arXiv 2008.01425), and a dense solver.
#include "topologies/weights.hpp"

#include <Eigen/Dense>
#include <cmath>
#include <numbers>

#include "tests/topologies/tools.hpp"

using namespace grapevine;
using namespace grapevine::test;

namespace {

GossipMatrix weights(const std::string& spec, const Topology& made) {
  auto matrix = gossip_matrix(spec, made);
  INFO(spec << " on " << made.name() << (matrix ? "" : ": " + matrix.error().message));
  REQUIRE(matrix);
  return *std::move(matrix);
}

MatrixSpectrum spectrum_of(const std::string& spec, const Topology& made) {
  return *matrix_spectrum(made, weights(spec, made));
}

Eigen::MatrixXd dense_of(const Topology& made, const GossipMatrix& matrix) {
  Eigen::MatrixXd dense = Eigen::MatrixXd::Zero(made.ranks(), made.ranks());
  for (int rank = 0; rank < made.ranks(); ++rank) {
    dense(rank, rank) = matrix.self[static_cast<size_t>(rank)];
  }
  for (size_t e = 0; e < matrix.edge.size(); ++e) {
    const Edge& edge = made.edges()[e];
    dense(edge.i, edge.j) = dense(edge.j, edge.i) = matrix.edge[e];
  }
  return dense;
}

/// By every eigenvalue of W, the 1 of the constant vector moved to 0 or where it does not matter.
MatrixSpectrum dense_spectrum(const Topology& made, const GossipMatrix& matrix) {
  const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solver(dense_of(made, matrix),
                                                              Eigen::EigenvaluesOnly);
  return {solver.eigenvalues()[made.ranks() - 2], solver.eigenvalues()[0]};
}

std::string refused_weights(const std::string& spec, const Topology& made) {
  const auto matrix = gossip_matrix(spec, made);
  REQUIRE_FALSE(matrix);
  CHECK(matrix.error().exit_status() == 2);
  return matrix.error().message;
}

}  // namespace

TEST_CASE("the spectra of Metropolis weights are those of the paper's table") {
  struct Row {
    const char* spec;
    int n;
    double second, least;
  };
  for (const Row& row : {Row{"ring", 8, .80474, -1 / 3.}, Row{"ring", 16, .94925, -1 / 3.},
                         Row{"chain", 16, .98719, -.32052}, Row{"relay-tree", 16, .97580, -.29779},
                         Row{"star", 16, .9375, 0}, Row{"social", 32, .91790, -.43428}}) {
    INFO(row.spec << " with " << row.n << " ranks");
    const MatrixSpectrum found = spectrum_of("metropolis", graph(row.spec, row.n));
    CHECK(std::abs(found.second - row.second) < 0.51e-5);
    CHECK(std::abs(found.least - row.least) < 0.51e-5);
  }
}

TEST_CASE("gossip on the ring of 8 is fastest with gamma 1.3083906286540754, at rate .7445208") {
  const Topology ring = graph("ring", 8);
  const MatrixSpectrum found = spectrum_of("metropolis", ring);
  CHECK(best_gamma(found) == Approx(1.3083906286540754).epsilon(1e-14));
  CHECK(std::abs(1 - best_gamma(found) * (1 - found.second) - .7445208) < 1e-7);
  CHECK(std::abs(1 - best_gamma(found) * (1 - found.least) + .7445208) < 1e-7);
  CHECK(best_gamma(spectrum_of("uniform:0.3333333333333333", ring)) ==
        Approx(1.3083906286540754).epsilon(1e-14));
  CHECK(weights("metropolis", ring).edge[0] == 1.0 / 3);
}

TEST_CASE("the smallest graphs average at once") {
  for (const int n : {1, 2}) {
    const MatrixSpectrum found = spectrum_of("metropolis", graph("ring", n));
    CHECK(std::abs(found.second) < 1e-15);
    CHECK(std::abs(found.least) < 1e-15);
    CHECK(best_gamma(found) == Approx(1));
  }
  CHECK(weights("metropolis", graph("ring", 1)).self == std::vector{1.0});
}

TEST_CASE(
    "every matrix has positive weights, rows that add up to 1, and a dense solver's spectrum") {
  CHECK(rc::check([] {
    const auto [spec, ranks] = *any_spec();
    const Topology made = *make_topology(spec, ranks, 1);
    int most = 1;
    for (int rank = 0; rank < ranks; ++rank)
      most = std::max(most, made.degree(rank));
    const std::string uniform = "uniform:" + std::to_string(0.9 / most);
    const std::string which = *rc::gen::element<std::string>("metropolis", "lazy", uniform);
    const GossipMatrix matrix = *gossip_matrix(which, made);
    const Eigen::MatrixXd dense = dense_of(made, matrix);
    RC_ASSERT(dense.minCoeff() >= 0);
    RC_ASSERT((dense.rowwise().sum().array() - 1).abs().maxCoeff() < 1e-14);
    if (ranks < 2) return;
    const MatrixSpectrum found = *matrix_spectrum(made, matrix);
    const MatrixSpectrum oracle = dense_spectrum(made, matrix);
    RC_ASSERT(std::abs(found.second - oracle.second) < 1e-12);
    RC_ASSERT(std::abs(found.least - oracle.least) < 1e-12);
  }));
}

TEST_CASE("lazy weights are halfway between Metropolis and nothing, with no eigenvalue below 0") {
  for (const std::string spec : {"ring", "social", "star", "torus"}) {
    const Topology made = graph(spec, 32);
    const MatrixSpectrum whole = spectrum_of("metropolis", made), half = spectrum_of("lazy", made);
    CHECK(std::abs(half.second - (whole.second + 1) / 2) < 1e-13);
    CHECK(std::abs(half.least - (whole.least + 1) / 2) < 1e-13);
    CHECK(half.least > 0);
  }
}

TEST_CASE("above 512 ranks the spectrum is that of closed forms and of the dense solver") {
  const Topology ring = graph("ring", 2000), torus = graph("torus", 1024);
  const MatrixSpectrum long_ring = spectrum_of("metropolis", ring);
  const double sine = std::sin(std::numbers::pi / 2000);
  CHECK(1 - long_ring.second == Approx(4. / 3 * sine * sine).epsilon(1e-9));
  CHECK(std::abs(long_ring.least + 1 / 3.) < 1e-5);
  CHECK(std::abs(spectrum_of("metropolis", torus).least + 0.6) < 1e-9);
  const Topology random = graph("random-regular:3:4", 700);
  const GossipMatrix matrix = weights("metropolis", random);
  const MatrixSpectrum oracle = dense_spectrum(random, matrix);
  CHECK(std::abs(matrix_spectrum(random, matrix)->second - oracle.second) < 1e-9);
  CHECK(std::abs(matrix_spectrum(random, matrix)->least - oracle.least) < 1e-9);
  CHECK(std::abs(spectrum_of("metropolis", graph("star", 3000)).least) < 1e-9);
}

TEST_CASE("uniform weights that leave a rank less than nothing are refused with the numbers") {
  const Topology ring = graph("ring", 8);
  CHECK(refused_weights("uniform:0.6", ring) ==
        "weights 'uniform:0.6' on topology 'ring' with 8 ranks: rank 0 with 2 neighbours would "
        "keep 1 - 2 W = -0.2 of itself; accepted: uniform:W with W above 0 and at most 1/2 = 0.5");
  for (const std::string w : {"0", "-0.1", "", "nan", "inf", "a third"}) {
    CHECK(refused_weights("uniform:" + w, ring) ==
          "weights 'uniform:" + w + "' on topology 'ring' with 8 ranks: W '" + w +
              "' is not a positive number; accepted: uniform:W with W above 0 and at most 1/2 = "
              "0.5");
  }
  CHECK(refused_weights("uniform:0.2", graph("star", 9)).find("rank 0 with 8 neighbours") !=
        std::string::npos);
  CHECK(weights("uniform:0.5", ring).self == std::vector<double>(8, 0.0));
  // 1 - 3 W is -2e-16 here: a rounding, not a mistake.
  CHECK(weights("uniform:0.3333333333333334", graph("star", 4)).self[0] == 0);
}

TEST_CASE("unknown weights are refused with those that are accepted") {
  for (const std::string spec : {"metropolos", "", "uniforms:1", "metropolis:2"}) {
    CHECK(refused_weights(spec, graph("ring", 8)) ==
          "weights '" + spec + "': unknown; accepted: metropolis, lazy or uniform:W");
  }
  CHECK(refused_weights("uniform", graph("ring", 8)).find("W '' is not") != std::string::npos);
}
