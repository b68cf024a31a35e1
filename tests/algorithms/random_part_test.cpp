// Gossip of random parts, in rounds and in pairs: SPARTA on the complete graph.
#include <cmath>

#include "kernels/base/random.hpp"
#include "tests/algorithms/lockstep.hpp"
#include "tests/catch.hpp"

using namespace grapevine;
using namespace grapevine::test;

namespace {

constexpr int kRanks = 8;
constexpr Eigen::Index kSize = 1000;

LockstepOptions sparta(double share, uint64_t seed) {
  LockstepOptions o;
  o.method = "d_psgd";
  o.ranks = kRanks;
  o.topology = "complete";
  o.layout = ParameterLayout::flat(static_cast<size_t>(kSize), DType::f64);
  o.rule.compress = "random:" + std::to_string(share);
  o.seed = seed;
  Random random(seed, 0, Purpose::test);
  o.start = Eigen::MatrixXd::NullaryExpr(kRanks, kSize, [&] { return random.normal(); });
  return o;
}

}  // namespace

TEST_CASE("a round averages the share of the parameters that is asked for, the same on all ranks") {
  const LockstepOptions options = sparta(0.1, 3);
  Lockstep all(options);
  const Eigen::RowVectorXd mean = options.start.colwise().mean();
  all.round(0);
  int averaged = 0;
  for (Eigen::Index k = 0; k < kSize; ++k) {
    const bool moved = all.x(0)(k) != options.start(0, k);
    averaged += moved;
    for (int rank = 0; rank < kRanks; ++rank) {
      if (moved) CHECK(std::abs(all.x(rank)(k) - mean(k)) < 1e-15);
      if (!moved) CHECK(all.x(rank)(k) == options.start(rank, k));
    }
  }
  CHECK(averaged == 100);
  CHECK(all.bytes() == uint64_t{kRanks} * (kRanks - 1) * 100 * sizeof(double));
  CHECK((all.mean() - mean).cwiseAbs().maxCoeff() < 1e-15);
}

TEST_CASE("the squared distance of all ranks shrinks by the share that is sent, each round") {
  double logs = 0;
  constexpr int kSeeds = 20, kRounds = 30;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    Lockstep all(sparta(0.05, seed));
    const double before = all.spread();
    all.rounds(kRounds, 0);
    logs += std::log(all.spread() / before) / (kSeeds * kRounds);
  }
  CHECK(std::exp(logs) == Approx(0.95).epsilon(0.01));
}

TEST_CASE("both ends of a pair draw the same places, others of another exchange, edge or life") {
  const auto layout = ParameterLayout::flat(static_cast<size_t>(kSize), DType::f64);
  RuleSettings settings;
  settings.compress = "random:0.1";
  const std::vector<double> zeros(kSize, 0), ones(kSize, 1);
  const auto made = [&](const char* method, int rank, const std::vector<double>& x) {
    auto rule = method_named(method).make(
        {rank, 1, layout, {}, settings, ConstVec(x.data(), x.size(), DType::f64)});
    return std::unique_ptr<PairwiseRule>(static_cast<PairwiseRule*>(rule.release()));
  };
  for (const char* method : {"ad_psgd", "a2cid2"}) {
    INFO(method);
    const auto low = made(method, 2, zeros), high = made(method, 5, ones);
    REQUIRE(low->snapshot_bytes() == 100 * sizeof(double));
    SnapshotPool pool(low->snapshot_bytes(), DType::bytes, 4);
    std::vector<std::vector<double>> seen;
    for (const ExchangeKey& of_low : {ExchangeKey{5, 1, 1, 1}, ExchangeKey{5, 1, 1, 2},
                                      ExchangeKey{5, 1, 2, 1}, ExchangeKey{5, 2, 1, 1}}) {
      const ExchangeKey of_high{2, of_low.peer_incarnation, of_low.incarnation, of_low.number};
      low->reset(0, ConstVec(zeros.data(), zeros.size(), DType::f64));
      high->reset(0, ConstVec(ones.data(), ones.size(), DType::f64));
      Payload from_low{pool.take()}, from_high{pool.take()};
      low->snapshot(0, of_low, {}, from_low);
      high->snapshot(0, of_high, {}, from_high);
      low->jump(0, of_low, from_low, from_high, 0.5, 1);
      high->jump(0, of_high, from_high, from_low, 0.5, 1);
      std::vector<double> x(kSize), y(kSize);
      low->read(0, Vec(x.data(), x.size(), DType::f64));
      high->read(0, Vec(y.data(), y.size(), DType::f64));
      int moved = 0;
      for (size_t k = 0; k < x.size(); ++k) {
        CHECK(x[k] + y[k] == 1);
        moved += x[k] != 0;
      }
      CHECK(moved == 100);
      for (const std::vector<double>& before : seen)
        CHECK(before != x);
      seen.push_back(x);
    }
  }
}

TEST_CASE("a share that is none is refused in a line") {
  for (const char* method : {"d_psgd", "a2cid2", "ad_psgd"}) {
    for (const char* spec :
         {"random", "random:", "random:0", "random:1.5", "random:nan", "random:x", "random:-0.1"}) {
      INFO(method << ' ' << spec);
      const Method& m = method_named(method);
      const Status status = m.check_compress(m, spec);
      REQUIRE_FALSE(status);
      CHECK_THAT(status.error().message, Catch::Contains("accepted: random:P"));
    }
    CHECK(method_named(method).check_compress(method_named(method), "random:0.005"));
    CHECK(method_named(method).check_compress(method_named(method), "random:1"));
  }
}
