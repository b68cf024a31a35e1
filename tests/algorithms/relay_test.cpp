// Methods that relay along the edges of trees (Vogels et al., NeurIPS 2021, arXiv 2110.04175),
// while nothing is lost and the tree stays.
#include "kernels/base/random.hpp"
#include "tests/algorithms/lockstep.hpp"
#include "tests/catch.hpp"
#include "topologies/trees.hpp"

namespace grapevine::test {

namespace {

using Row = Lockstep::Row;

constexpr double kOptimum = 0.18;  // of the scalar problem

/// 16 ranks, f_i(x) = 1/2 a_i (x - b_i)^2.
LockstepOptions scalar_problem(const std::string& method, const std::string& tree) {
  LockstepOptions options;
  options.method = method;
  options.ranks = 16;
  options.topology = tree;
  options.rule.relay_lr = false;
  options.gradient = [](int i, uint64_t, const Row& x) {
    return Row((x.array() - (7 * i % 16 - 7.5)) * (0.25 + 0.75 * i / 15));
  };
  return options;
}

/// Random steps that depend on (rank, round) and not on x.
Row random_step(int rank, uint64_t round, Eigen::Index size) {
  Random random(7, static_cast<uint32_t>(rank), Purpose::test, round);
  Row g(size);
  for (double& value : g)
    value = random.normal();
  return g;
}

int delay(const Topology& tree, int i, int j) {
  return std::max(hops_from(tree, i)[static_cast<size_t>(j)] - 1, 0);
}

/// Every rank attached to an earlier one, under shuffled names.
Topology random_tree(int ranks, uint64_t seed) {
  Random random(seed, 0, Purpose::test);
  std::vector<int> name(static_cast<size_t>(ranks));
  for (int k = 0; k < ranks; ++k)
    name[static_cast<size_t>(k)] = k;
  shuffle(name.begin(), static_cast<uint32_t>(ranks), random);
  std::vector<Edge> edges;
  for (uint32_t k = 1; k < name.size(); ++k) {
    edges.push_back({.i = name[random.below(k)], .j = name[k], .rate = 1});
  }
  return *Topology::from_edges(ranks, std::move(edges), "random tree");
}

}  // namespace

TEST_CASE("RelaySGD: the scalar problem is where the published figures have it") {
  struct Figure {
    const char* tree;
    Normalisation normalisation;
    double after[4];  // 1, 10, 200 and 1000 rounds: mean - optimum
  };
  const Figure figures[] = {
      {"chain",
       Normalisation::x0,
       {-1.777441406250e-1, -1.499955032162e-1, -1.622531007154e-2, -1.294987264921e-6}},
      {"chain",
       Normalisation::counts,
       {-1.739583333333e-1, -1.215711962733e-1, -1.378484935575e-2, -1.100208022770e-6}},
      {"chain",
       Normalisation::own,
       {-1.6875e-1, -1.380909472663e-1, -1.624694945188e-2, -1.296714086191e-6}},
      {"relay-tree",
       Normalisation::x0,
       {-1.798632812500e-1, -1.541511624501e-1, -3.891427119385e-3, -7.093055309770e-10}},
      {"relay-tree",
       Normalisation::counts,
       {-1.829296875000e-1, -1.490929413285e-1, -3.804502184498e-3, -6.934778029599e-10}},
  };
  for (const Figure& figure : figures) {
    LockstepOptions options = scalar_problem("relaysgd", figure.tree);
    options.rule.normalisation = figure.normalisation;
    Lockstep run(options);
    int done = 0, k = 0;
    for (const int rounds : {1, 10, 200, 1000}) {
      run.rounds(rounds - std::exchange(done, rounds), 0.1);
      INFO(figure.tree << ", normalisation " << static_cast<int>(figure.normalisation) << ", round "
                       << rounds);
      CHECK(std::abs(run.mean()(0) - kOptimum - figure.after[k++]) < 1e-10);
    }
    if (figure.normalisation != Normalisation::x0 || figure.tree != std::string("chain")) continue;
    CHECK(std::abs(run.farthest(Row::Constant(1, kOptimum)) - 1.330916598097e-6) < 1e-10);
  }
}

TEST_CASE("RelaySGD with momentum is where the published figures have it") {
  struct Figure {
    const char* tree;
    double after_50, after_400;
  };
  for (const Figure figure : {Figure{"chain", -4.376385030779e-2, -2.738642203293e-7},
                              Figure{"relay-tree", -1.736010159923e-2, -8.79e-11}}) {
    LockstepOptions options = scalar_problem("relaysgd", figure.tree);
    options.rule.optimizer = {.momentum = 0.9, .nesterov = true};
    Lockstep run(options);
    run.rounds(50, 0.02);
    CHECK(std::abs(run.mean()(0) - kOptimum - figure.after_50) < 1e-10);
    run.rounds(350, 0.02);
    CHECK(std::abs(run.mean()(0) - kOptimum - figure.after_400) < 1e-12);
  }
}

TEST_CASE("RelaySum/Grad: the scalar problem, and the fixed point that it is stuck at") {
  struct Figure {
    const char* tree;
    double after[4], farthest;
  };
  const Figure figures[] = {
      {"chain",
       {-1.777441406250e-1, -8.626767654641e-2, -7.410679304209e-3, -7.410679303995e-3},
       7.278330829679e-2},
      {"relay-tree",
       {-1.798632812500e-1, -1.139514070104e-1, 1.573716670640e-2, 1.573718896005e-2},
       0.2353511869},
  };
  for (const Figure& figure : figures) {
    const LockstepOptions options = scalar_problem("relaysum_grad", figure.tree);
    Lockstep run(options);
    int done = 0, k = 0;
    for (const int rounds : {1, 10, 200, 1000}) {
      run.rounds(rounds - std::exchange(done, rounds), 0.1);
      CHECK(std::abs(run.mean()(0) - kOptimum - figure.after[k++]) < 1e-10);
    }
    CHECK(std::abs(run.farthest(Row::Constant(1, kOptimum)) - figure.farthest) < 1e-10);
    run.rounds(1000, 0.1);
    Row g(16), c(16);  // x_i = c + (lr / n) sum_j delta_ij g_j, sum_j g_j = 0
    for (int j = 0; j < 16; ++j)
      g(j) = options.gradient(j, 0, run.x(j))(0);
    for (int i = 0; i < 16; ++i) {
      c(i) = run.x(i)(0);
      for (int j = 0; j < 16; ++j)
        c(i) -= 0.1 / 16 * delay(run.topology(), i, j) * g(j);
    }
    CHECK(std::abs(g.sum()) < 1e-12);
    CHECK((c.array() - c(0)).abs().maxCoeff() < 1e-12);
  }
}

TEST_CASE("RelaySum/Grad delivers a step to each rank once, hops - 1 rounds later") {
  const std::pair<const char*, std::vector<int>> expected[] = {
      {"chain", {4, 3, 2, 1, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9}},
      {"relay-tree", {2, 1, 0, 2, 1, 0, 3, 3, 2, 2, 0, 0, 4, 4, 4, 4}}};
  for (const auto& [tree, arrivals] : expected) {
    LockstepOptions options;
    options.method = "relaysum_grad";
    options.ranks = 16;
    options.topology = tree;
    options.gradient = [](int rank, uint64_t round, const Row&) {
      return Row::Constant(1, rank == 5 && round == 0 ? -16 : 0);
    };
    Lockstep run(options);
    for (int round = 0; round < 20; ++round) {
      run.round(1);
      for (int rank = 0; rank < 16; ++rank)
        CHECK(run.x(rank)(0) == (round >= arrivals[static_cast<size_t>(rank)] ? 1 : 0));
    }
  }
}

TEST_CASE("Relay counts grow as the tree lets them, and are full after its diameter") {
  LockstepOptions options = scalar_problem("relaysgd", "relay-tree");
  Lockstep run(options);
  const double first[] = {2, 4, 8, 16}, last[] = {2, 4, 6, 10};
  for (int round = 0; round < 4; ++round) {
    run.round(0.1);
    CHECK(run.rule(0).counts().relay_count == first[round]);
    CHECK(run.rule(15).counts().relay_count == last[round]);
  }
  for (const auto& [tree, full_at] : {std::pair{"chain", 14}, {"relay-tree", 5}, {"star", 1}}) {
    Lockstep again(scalar_problem("relaysgd", tree));
    for (int round = 0; round <= full_at; ++round) {
      again.round(0.1);
      double least = 16;
      for (int rank = 0; rank < 16; ++rank)
        least = std::min(least, again.rule(rank).counts().relay_count);
      CHECK((least == 16) == (round == full_at));
    }
  }
}

TEST_CASE("An impulse is divided by 1 + the mean delay, and relay_lr makes up for it") {
  struct Figure {
    const char* tree;
    int ranks;
    Normalisation normalisation;
    double factor;
  };
  using N = Normalisation;
  const Figure figures[] = {{"chain", 4, N::x0, 1.5},
                            {"chain", 8, N::x0, 2.75},
                            {"chain", 16, N::x0, 5.375},
                            {"chain", 32, N::x0, 10.6875},
                            {"relay-tree", 4, N::x0, 1.375},
                            {"relay-tree", 8, N::x0, 2.15625},
                            {"relay-tree", 16, N::x0, 3.320313},
                            {"relay-tree", 32, N::x0, 4.783203},
                            {"star", 4, N::x0, 1.375},
                            {"star", 8, N::x0, 1.65625},
                            {"star", 16, N::x0, 1.820313},
                            {"star", 32, N::x0, 1.908203},
                            {"chain", 16, N::counts, 1},
                            {"relay-tree", 16, N::own, 1},
                            {"chain", 16, N::previous, 2.534586},
                            {"relay-tree", 16, N::previous, 2.373829}};
  for (const Figure& figure : figures) {
    for (const bool scaled : {false, true}) {
      LockstepOptions options;
      options.method = "relaysgd";
      options.ranks = figure.ranks;
      options.topology = figure.tree;
      options.rule.normalisation = figure.normalisation;
      options.rule.relay_lr = scaled;
      options.gradient = [](int, uint64_t round, const Row&) {
        return Row::Constant(1, round == 0 ? -1 : 0);
      };
      Lockstep run(options);
      const double scale = scaled ? 1 + mean_relay_delay(run.topology()) : 1;
      run.rounds(1500, 1);
      INFO(figure.tree << " of " << figure.ranks);
      CHECK(std::abs(scale / run.mean()(0) - figure.factor) < 1e-6);
      CHECK(run.spread() < 1e-14);
    }
  }
}

TEST_CASE("On 200 random trees a relayed average is the sum of what each rank was, delayed") {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Random random(seed, 1, Purpose::test);
    const int n = 2 + static_cast<int>(random.below(12));
    const bool spans = seed % 2 == 0;  // the tree of a random graph
    const std::string root = std::to_string(random.below(static_cast<uint32_t>(n)));
    const std::string spec = "spanning:erdos-renyi:0.5:" + std::to_string(seed) + "@" + root;
    const Topology tree = spans ? *make_topology(spec, n, 1) : random_tree(n, seed);
    LockstepOptions options;
    options.method = "relaysgd";
    options.ranks = n;
    options.topology = "chain";
    options.layout = ParameterLayout::flat(3, DType::f64);
    options.rule.relay_lr = false;
    options.gradient = [](int rank, uint64_t round, const Row& x) {
      return random_step(rank, round, x.size());
    };
    Lockstep run(options);
    run.enter(tree);
    std::vector<Eigen::MatrixXd> y;  // of each round
    double error = 0;
    bool counts_are_right = true;
    for (int t = 0; t < 2 * n; ++t) {
      y.push_back(run.all());
      for (int j = 0; j < n; ++j)
        y.back().row(j) -= 0.1 * random_step(j, static_cast<uint64_t>(t), 3);
      run.round(0.1);
      for (int i = 0; i < n; ++i) {
        const std::vector<int> hops = hops_from(tree, i);
        Row sum = Row::Zero(3);
        int count = 0;
        for (int j = 0; j < n; ++j) {
          const int late = std::max(hops[static_cast<size_t>(j)] - 1, 0);
          if (late > t) continue;
          sum += y[static_cast<size_t>(t - late)].row(j);
          ++count;
        }
        error = std::max(error, (run.x(i) - sum / count).cwiseAbs().maxCoeff());
        counts_are_right &= run.rule(i).counts().relay_count == count;
        counts_are_right &= count == n || t < relay_diameter(tree) - 1;
      }
    }
    INFO("seed " << seed << ", " << n << " ranks");
    CHECK(error < 1e-14);
    CHECK(counts_are_right);
  }
}

}  // namespace grapevine::test
