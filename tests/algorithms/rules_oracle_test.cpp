// The pairwise rules against the dense oracle, event by event.
#include <algorithm>
#include <memory>

#include "actors/algorithms/method_registry.hpp"
#include "kernels/memory/snapshot_pool.hpp"
#include "tests/algorithms/rules_tools.hpp"
#include "tests/catch.hpp"

using namespace grapevine;
using namespace grapevine::test;

namespace {

constexpr int kRanks = 5;

/// Some ranks of a method and the oracle of them, in lockstep.
class Lockstep {
 public:
  Lockstep(const std::string& method, DType dtype, const OptimizerSettings& optimizer,
           uint64_t seed, bool guests)
      : accelerated_(method_named(method).accelerated),
        guests_(guests),
        layout_(three_tensors(dtype)),
        random_(seed, 0, Purpose::test),
        pool_(layout_.size(), dtype, 512),
        oracle_(start(method, optimizer)) {}

  void event() {
    now_ += 0.2 * random_.exponential();
    switch (random_.below(4)) {
      case 0:
        if (accelerated_ && random_.below(5) == 0) change_eta();
        break;
      case 1: guests_ ? outside_step(random_rank()) : gradient(random_rank()); break;
      case 2: snapshots_cross(); break;
      default:
        if (!in_flight_.empty()) one_arrives();
    }
  }

  /// The largest difference of x or x~, and the largest number, over all ranks now.
  std::pair<double, double> difference() {
    oracle_.mix_to(now_);
    double worst = 0;
    for (int rank = 0; rank < kRanks; ++rank) {
      const Row x = x_of(rule(rank), now_, layout_.size(), layout_.dtype());
      const Row sum = conserved_of(rule(rank), now_, layout_.size());
      worst = std::max(worst, distance(x, oracle_.x().row(rank)));
      const Row twin = accelerated_ ? Row(sum - x) : x;
      worst = std::max(worst, distance(twin, oracle_.x_tilde().row(rank)));
    }
    const double scale = oracle_.x_tilde().cwiseAbs().maxCoeff();
    return {worst, std::max(scale, oracle_.x().cwiseAbs().maxCoeff())};
  }

 private:
  struct InFlight {
    int rank;
    Payload sent, received;
    Oracle::Sent oracle_sent;
    Row oracle_received;
    double alpha_tilde;
  };

  Oracle start(const std::string& method, const OptimizerSettings& optimizer) {
    const auto size = static_cast<Eigen::Index>(layout_.size());
    Eigen::MatrixXd x(kRanks, size);
    for (int rank = 0; rank < kRanks; ++rank) {
      const Buffer buffer = buffer_of(normal_row(random_, layout_.size()), layout_.dtype());
      x.row(rank) = row_of(buffer.vec());
      shown_.push_back(row_of(buffer.vec()));
      rules_.push_back(rule_of(method, layout_, optimizer, buffer));
    }
    Row decay = Row::Constant(size, optimizer.weight_decay);
    decay.segment(6, 3).setZero();
    return Oracle(x, optimizer.momentum, optimizer.nesterov, decay);
  }

  PairwiseRule& rule(int rank) {
    return dynamic_cast<PairwiseRule&>(*rules_[static_cast<size_t>(rank)]);
  }
  int random_rank() { return static_cast<int>(random_.below(kRanks)); }

  void change_eta() {
    const double eta = random_.uniform();
    oracle_.set_eta(now_, eta);
    for (int rank = 0; rank < kRanks; ++rank)
      rule(rank).set_eta(now_, eta);
  }

  void gradient(int rank) {
    const Buffer g = buffer_of(normal_row(random_, layout_.size()), layout_.dtype());
    Buffer copy(layout_.size(), layout_.dtype());
    rule(rank).on_gradient(now_, 0.05, g, copy);
    oracle_.gradient(now_, rank, 0.05, row_of(g.vec()));
    const Row x = x_of(rule(rank), now_, layout_.size(), layout_.dtype());
    CHECK(distance(row_of(std::as_const(copy).vec()), x) == 0);  // the worker's next point
  }

  // Made on what the rank was when it last answered, however much it has gossiped since.
  void outside_step(int rank) {
    Row& shown = shown_[static_cast<size_t>(rank)];
    Buffer base = buffer_of(shown, layout_.dtype());
    Buffer front = buffer_of(shown - 0.05 * normal_row(random_, layout_.size()), layout_.dtype());
    const Row step = row_of(std::as_const(base).vec()) - row_of(std::as_const(front).vec());
    Buffer finite(1, DType::f64);
    rule(rank).take(now_, front, base, finite);
    CHECK(*std::as_const(finite).vec().as<double>() == 1);
    oracle_.gradient(now_, rank, 1, step);
    shown = row_of(std::as_const(front).vec());
    CHECK(distance(shown, x_of(rule(rank), now_, layout_.size(), layout_.dtype())) == 0);
  }

  void snapshots_cross() {
    const int i = random_rank();
    const int j = (i + 1 + static_cast<int>(random_.below(kRanks - 1))) % kRanks;
    Payload mine{pool_.take()}, theirs{pool_.take()};
    rule(i).snapshot(now_, {}, {}, mine);
    rule(j).snapshot(now_, {}, {}, theirs);
    const auto a = oracle_.snapshot(now_, i), b = oracle_.snapshot(now_, j);
    const double alpha_tilde = accelerated_ ? random_.uniform(0.5, 1.5) : 0.5;
    in_flight_.push_back({i, mine, theirs, a, b.x, alpha_tilde});
    in_flight_.push_back({j, theirs, mine, b, a.x, alpha_tilde});
  }

  void one_arrives() {  // in any order
    const size_t k = random_.below(static_cast<uint32_t>(in_flight_.size()));
    const InFlight f = in_flight_[k];
    in_flight_.erase(in_flight_.begin() + static_cast<long>(k));
    rule(f.rank).jump(now_, {}, f.sent, f.received, f.alpha_tilde, 1);
    oracle_.jump(now_, f.rank, f.oracle_sent, f.oracle_received, 0.5, f.alpha_tilde);
  }

  bool accelerated_, guests_;
  ParameterLayout layout_;
  Random random_;
  SnapshotPool pool_;
  std::vector<std::unique_ptr<Rule>> rules_;
  std::vector<Row> shown_;  // by rank: x as of its last answer
  Oracle oracle_;
  std::vector<InFlight> in_flight_;
  double now_ = 0;
};

/// After any of 300 events, relative to the largest number seen.
double apart_from_oracle(const std::string& method, DType dtype, const OptimizerSettings& optimizer,
                         uint64_t seed, bool guests = false) {
  Lockstep run(method, dtype, optimizer, seed, guests);
  double worst = 0, scale = 1;
  for (int event = 0; event < 300; ++event) {
    run.event();
    const auto [apart, largest] = run.difference();
    worst = std::max(worst, apart);
    scale = std::max(scale, largest);
  }
  return worst / scale;
}

}  // namespace

TEST_CASE("A2CiD2 and AD-PSGD are the dense oracle, event by event, jumps late or not") {
  for (const OptimizerSettings& optimizer : kOptimizers) {
    for (uint64_t seed = 1; seed <= 4; ++seed) {
      INFO("momentum " << optimizer.momentum << ", nesterov " << optimizer.nesterov << ", decay "
                       << optimizer.weight_decay << ", seed " << seed);
      for (const std::string method : {"a2cid2", "ad_psgd"}) {
        CHECK(apart_from_oracle(method, DType::f64, optimizer, seed) / 1e-12 < 1);
        CHECK(apart_from_oracle(method, DType::f32, optimizer, seed) / 1e-5 < 1);
      }
    }
  }
}

TEST_CASE("steps made outside, on fronts that gossip has left behind, are the dense oracle's") {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    INFO("seed " << seed);
    for (const std::string method : {"a2cid2", "ad_psgd"}) {
      CHECK(apart_from_oracle(method, DType::f64, {}, seed, true) / 1e-12 < 1);
      CHECK(apart_from_oracle(method, DType::f32, {}, seed, true) / 1e-5 < 1);
    }
  }
}
