// Methods that relay: on several trees at once, when the tree changes, and what they send.
#include "actors/algorithms/relaysgd.hpp"
#include "kernels/base/random.hpp"
#include "kernels/memory/snapshot_pool.hpp"
#include "tests/algorithms/methods_problems.hpp"
#include "tests/catch.hpp"

namespace grapevine::test {

namespace {

using Row = Lockstep::Row;

/// Every coordinate of every rank has a curvature and an optimum of its own.
LockstepOptions pulling(const std::string& method, const std::string& tree, size_t size) {
  LockstepOptions options;
  options.method = method;
  options.ranks = 16;
  options.topology = tree;
  options.layout = ParameterLayout::flat(size, DType::f64);
  options.rule.relay_lr = false;
  options.start.resize(16, static_cast<Eigen::Index>(size));
  Random random(4, 0, Purpose::test);
  for (double& value : options.start.reshaped())
    value = random.normal();
  options.gradient = [](int rank, uint64_t, const Row& x) {
    Row g(x.size());
    for (Eigen::Index k = 0; k < x.size(); ++k)
      g(k) = (0.3 + 0.04 * rank) * (x(k) - std::sin(1.0 + rank * (static_cast<double>(k) + 2)));
    return g;
  };
  return options;
}

Eigen::MatrixXd after_25_rounds(LockstepOptions options) {
  Lockstep run(std::move(options));
  run.rounds(25, 0.1);
  return run.all();
}

/// A rule of three coordinates with one neighbour, at 1, 2, 3.
struct Pair {
  explicit Pair(DType dtype, uint8_t trees = 1)
      : layout(ParameterLayout::flat(3, dtype)), pool(256, DType::bytes, 8) {
    Buffer x(3, dtype);
    for (size_t k = 0; k < 3; ++k) {
      if (dtype == DType::f64) x.vec().as<double>()[k] = static_cast<double>(k + 1);
      if (dtype == DType::f32) x.vec().as<float>()[k] = static_cast<float>(k + 1);
    }
    rule = std::make_unique<RelaySgd>(RuleContext{0, 1, layout, {}, settings, x});
    rule->enter(near(trees));
  }
  static Neighbourhood near(uint8_t trees) {
    Neighbourhood near;
    near.neighbours.push_back({.rank = 1, .trees = trees});
    near.ranks = 2;
    return near;
  }
  Payload written() {
    Payload out{pool.take()};
    rule->write(0, 0, out);
    return out;
  }

  ParameterLayout layout;
  RuleSettings settings;
  SnapshotPool pool;
  std::unique_ptr<RelaySgd> rule;
};

template <class T>
std::vector<T> numbers(const Payload& payload) {
  return {payload.vec().as<T>(), payload.vec().as<T>() + payload.count};
}

}  // namespace

TEST_CASE("double trees: even coordinates are relayed on one tree, odd ones on the other") {
  using N = Normalisation;
  for (const char* method : {"relaysgd", "relaysgd_async", "relaysum_grad"})
    for (const N n : {N::counts, N::own, N::x0, N::previous}) {
      auto on = [&](const char* tree) {
        LockstepOptions options = pulling(method, tree, 7);
        options.rule.normalisation = n;
        return after_25_rounds(std::move(options));
      };
      const Eigen::MatrixXd both = on("double-binary-trees"), even = on("relay-tree"),
                            odd = on("relay-tree-reversed");
      for (Eigen::Index k = 0; k < 7; ++k) {
        const auto& one = k % 2 == 0 ? even : odd;
        CHECK((both.col(k) - one.col(k)).cwiseAbs().maxCoeff() < 1e-14);
      }
      CHECK((even - odd).cwiseAbs().maxCoeff() > 1e-3);
    }
}

TEST_CASE("double trees count by tree and report the smaller count; one coordinate is enough") {
  Lockstep both(pulling("relaysgd", "double-binary-trees", 1));
  Lockstep even(pulling("relaysgd", "relay-tree", 1));
  Lockstep odd(pulling("relaysgd", "relay-tree-reversed", 1));
  for (int round = 0; round < 8; ++round) {
    for (Lockstep* run : {&both, &even, &odd})
      run->round(0.1);
    for (int rank = 0; rank < 16; ++rank) {
      const double a = even.rule(rank).counts().relay_count;
      const double b = odd.rule(rank).counts().relay_count;
      CHECK(both.rule(rank).counts().relay_count == std::min(a, b));
    }
  }
  CHECK((both.all() - even.all()).cwiseAbs().maxCoeff() < 1e-14);
}

TEST_CASE("relay methods send each neighbour d + 1 numbers a round, and as many in two trees") {
  for (const char* method : {"relaysgd", "relaysgd_async", "relaysum_grad"}) {
    Lockstep chain(pulling(method, "chain", 7));
    chain.rounds(10, 0.1);
    CHECK(chain.messages() == 10 * 2 * 15);
    CHECK(chain.bytes() == 10 * 2 * 15 * 8 * (7 + 1));
    CHECK(chain.rule(0).message_bytes() >= 8 * (7 + 1));
    Lockstep both(pulling(method, "double-binary-trees", 7));
    both.rounds(10, 0.1);
    CHECK(both.messages() == 10 * 2 * both.topology().edges().size());
    CHECK(both.bytes() == 10 * 2 * 15 * 8 * ((4 + 1) + (3 + 1)));
  }
}

TEST_CASE("a message is the part of each tree of the edge and its count, in the layout's dtype") {
  CHECK(numbers<double>(Pair(DType::f64).written()) == std::vector<double>{1, 2, 3, 1});
  CHECK(numbers<float>(Pair(DType::f32).written()) == std::vector<float>{1, 2, 3, 1});
  CHECK(numbers<float>(Pair(DType::f32, 3).written()) == std::vector<float>{1, 3, 1, 2, 1});
  CHECK(numbers<float>(Pair(DType::f32, 2).written()) == std::vector<float>{2, 1});
}

TEST_CASE("a round may be written anew, for other trees, before it is combined") {
  Pair pair(DType::f64);
  const double g[] = {-1, -1, -1};
  pair.rule->on_gradient(0, 1, ConstVec(g, 3, DType::f64), {});
  CHECK(numbers<double>(pair.written()) == std::vector<double>{2, 3, 4, 1});
  CHECK(numbers<double>(pair.written()) == std::vector<double>{2, 3, 4, 1});
  pair.rule->enter(Pair::near(3));
  CHECK(numbers<double>(pair.written()) == std::vector<double>{2, 4, 1, 3, 1});
  pair.rule->combine(0, 0, std::vector<Received>{{pair.written()}});
  pair.rule->enter(Pair::near(1));
  CHECK(numbers<double>(pair.written()) == std::vector<double>{2, 3, 4, 1});
}

TEST_CASE("a new tree: messages of removed edges are dropped, those of edges that stay are kept") {
  LockstepOptions options = pulling("relaysgd", "chain", 3);
  SnapshotPool pool(256, DType::bytes, 1);
  for (const auto n : {Normalisation::counts, Normalisation::own, Normalisation::x0}) {
    options.rule.normalisation = n;
    Lockstep run(options);
    run.rounds(20, 0.1);
    run.enter("star");  // the edge 0-1 stays, with all that came along it: 15 ranks
    Eigen::MatrixXd y = run.all();
    for (int j = 0; j < 16; ++j)
      y.row(j) -= 0.1 * options.gradient(j, 0, run.x(j));
    Payload kept{pool.take()};
    run.rule(0).write(0, 1, kept);  // to rank 2: its own x and what rank 1 said
    const Row said = Eigen::Map<const Row>(kept.vec().as<double>(), 3) - run.x(0);
    run.round(0.1);
    CHECK(run.rule(0).counts().relay_count == 16);
    CHECK(run.rule(1).counts().relay_count == 2);
    CHECK(run.rule(5).counts().relay_count == 1 + 1 + 15);
    CHECK((run.x(0) - y.colwise().mean()).cwiseAbs().maxCoeff() < 1e-14);
    CHECK((run.x(5) - (y.row(0) + y.row(5) + said) / 17).cwiseAbs().maxCoeff() < 1e-14);
    run.round(0.1);
    for (int rank = 0; rank < 16; ++rank)
      CHECK(run.rule(rank).counts().relay_count == 16);
  }
}

TEST_CASE("an edge that changes trees brings nothing of the old one into the new one") {
  // Tree 0 leads to rank 1 and tree 1 to rank 2, then the other way round. Both parts have two
  // coordinates, so a message of one tree could be taken for one of the other.
  const auto layout = ParameterLayout::flat(4, DType::f64);
  const Buffer x(4, DType::f64);
  SnapshotPool pool(64, DType::bytes, 8);
  const auto near = [](uint8_t of_1, uint8_t of_2) {
    Neighbourhood near;
    near.neighbours = {{.rank = 1, .trees = of_1}, {.rank = 2, .trees = of_2}};
    near.ranks = 9;
    return near;
  };
  const auto said = [&](double a, double b, double count) {
    Payload p{pool.take()};
    double* to = p.writable(DType::f64, 3).as<double>();
    to[0] = a, to[1] = b, to[2] = count;
    return p;
  };
  for (const char* method : {"relaysgd", "relaysgd_async", "relaysum_grad"}) {
    for (const Missing missing : {Missing::renormalise, Missing::reuse}) {
      INFO(method);
      RuleSettings settings;
      settings.missing = missing;
      const auto rule = method_named(method).make({0, 1, layout, {}, settings, x});
      auto& rounds = dynamic_cast<RoundRule&>(*rule);
      const double g[] = {0, 0, 0, 0};
      const auto round = [&](std::vector<Received> in) {
        rounds.on_gradient(0, 0, ConstVec(g, 4, DType::f64), {});
        rounds.combine(0, 0, in);
      };
      rounds.enter(near(1, 2));
      round({{said(100, 200, 3)}, {said(300, 400, 5)}});
      CHECK(rule->counts().relay_count == 4);
      double before[4], after[4];
      rule->read(0, {before, 4, DType::f64});
      rounds.enter(near(2, 1));
      round({{}, {}});  // nothing has come along the new trees yet
      CHECK(rule->counts().relay_count == 1);
      rule->read(0, {after, 4, DType::f64});
      for (size_t k = 0; k < 4; ++k)
        CHECK(after[k] == before[k]);
    }
  }
}

TEST_CASE("the tree may change at any time: counts fill again and the optimum is still reached") {
  const auto problem = quadratics(1);
  LockstepOptions options = pulling("relaysgd", "chain", 10);
  options.gradient = gradient_of(*problem);
  for (const bool reuse : {false, true}) {
    if (reuse) options.rule.missing = Missing::reuse;
    Lockstep run(options);
    for (const char* tree : {"relay-tree", "chain", "double-binary-trees", "star"}) {
      run.rounds(9, 0.1);
      run.enter(tree);
    }
    run.rounds(4000, 0.1);
    for (int rank = 0; rank < 16; ++rank)
      CHECK(run.rule(rank).counts().relay_count == 16);
    CHECK(suboptimality(*problem, run) < 1e-20);
    CHECK(run.spread() < 1e-20);
  }
}

}  // namespace grapevine::test
