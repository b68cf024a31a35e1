// The promises of the rules: A2CiD2 (Nabli, Belilovsky, Oyallon, NeurIPS 2023, section 3), AD-PSGD
// (Lian, Zhang, Zhang, Liu, ICML 2018) and all-reduce.
#include <limits>

#include "actors/algorithms/a2cid2.hpp"
#include "actors/algorithms/ad_psgd.hpp"
#include "actors/algorithms/method_registry.hpp"
#include "kernels/memory/snapshot_pool.hpp"
#include "tests/algorithms/rules_tools.hpp"
#include "tests/catch.hpp"

using namespace grapevine;
using namespace grapevine::test;

TEST_CASE("a jump that comes late is the exchange that had happened at the snapshot") {
  const ParameterLayout layout = ParameterLayout::flat(7, DType::f64);
  Random random(1, 0, Purpose::test);
  for (const double late : {0.0, 0.01, 1.0, 30.0}) {
    const Buffer a = buffer_of(normal_row(random, 7), DType::f64);
    const Buffer b = buffer_of(normal_row(random, 7), DType::f64);
    SnapshotPool pool(7, DType::f64, 4);
    A2cid2 at_once(context_of(layout, {}, a)), delayed(context_of(layout, {}, a));
    Payload sent{pool.take()}, received{pool.take()};
    for (A2cid2* rule : {&at_once, &delayed})
      rule->set_eta(0, 0.3);
    A2cid2 peer(context_of(layout, {}, b));
    peer.snapshot(1, {}, {}, received);
    delayed.snapshot(1, {}, {}, sent);
    Payload same{pool.take()};
    at_once.snapshot(1, {}, {}, same);
    at_once.jump(1, {}, same, received, 1.7, 1);
    delayed.jump(1 + late, {}, sent, received, 1.7, 1);
    for (const double then : {1 + late, 40.0}) {
      const Row x = x_of(at_once, then, 7, DType::f64), sum = conserved_of(at_once, then, 7);
      CHECK(distance(x_of(delayed, then, 7, DType::f64), x) < 1e-14);
      CHECK(distance(conserved_of(delayed, then, 7), sum) < 1e-14);
    }
  }
}

TEST_CASE("splitting a mix into two changes nothing, and looking writes nothing") {
  const ParameterLayout layout = ParameterLayout::flat(5, DType::f64);
  Random random(2, 0, Purpose::test);
  const Buffer x = buffer_of(normal_row(random, 5), DType::f64);
  const Buffer other = buffer_of(normal_row(random, 5), DType::f64);
  const Buffer zero(5, DType::f64);
  A2cid2 whole(context_of(layout, {}, x)), split(context_of(layout, {}, x)),
      peer(context_of(layout, {}, other));
  SnapshotPool pool(5, DType::f64, 3);
  for (A2cid2* rule : {&whole, &split}) {
    rule->set_eta(0, 0.4);
    Payload mine{pool.take()}, theirs{pool.take()};
    rule->snapshot(0, {}, {}, mine);
    peer.snapshot(0, {}, {}, theirs);
    rule->jump(0, {}, mine, theirs, 2, 1);  // now x and x~ differ
  }
  for (double now = 0.1; now < 2.95; now += 0.1) {
    split.on_gradient(now, 1, zero, {});  // a step of nothing rewrites the mixed state
    x_of(split, now, 5, DType::f64);
  }
  CHECK(distance(x_of(whole, 3, 5, DType::f64), x_of(split, 3, 5, DType::f64)) < 1e-14);
  const Row first = x_of(whole, 3, 5, DType::f64);
  CHECK(distance(first, x_of(whole, 3, 5, DType::f64)) == 0);
}

TEST_CASE("without attraction and with alpha~ = 1/2, A2CiD2 is AD-PSGD") {
  for (const OptimizerSettings& optimizer : kOptimizers) {
    const ParameterLayout layout = three_tensors(DType::f64);
    const size_t size = layout.size();
    Random random(3, 0, Purpose::test);
    const Buffer x = buffer_of(normal_row(random, size), DType::f64);
    A2cid2 accelerated(context_of(layout, optimizer, x));
    AdPsgd plain(context_of(layout, optimizer, x));
    SnapshotPool pool(size, DType::f64, 3);
    double now = 0;
    for (int event = 0; event < 100; ++event) {
      now += random.exponential();
      const Buffer other = buffer_of(normal_row(random, size), DType::f64);
      Payload received{pool.take()};
      AdPsgd(context_of(layout, {}, other)).snapshot(now, {}, {}, received);
      for (PairwiseRule* rule :
           {static_cast<PairwiseRule*>(&accelerated), static_cast<PairwiseRule*>(&plain)}) {
        if (event % 2 == 0) {
          rule->on_gradient(now, 0.1, other, {});
        } else {
          Payload mine{pool.take()};
          rule->snapshot(now, {}, {}, mine);
          rule->jump(now, {}, mine, received, 0.5, 1);
        }
      }
      const Row expected = x_of(plain, now, size, DType::f64);
      REQUIRE(distance(x_of(accelerated, now, size, DType::f64), expected) < 1e-15);
    }
    const Row twice = 2 * conserved_of(plain, now, size);
    CHECK(distance(conserved_of(accelerated, now, size), twice) < 1e-14);
  }
}

TEST_CASE("a message of another version than the own one moves no rank whose messages have none") {
  const ParameterLayout layout = three_tensors(DType::f64);
  Random random(8, 0, Purpose::test);
  const Buffer x = buffer_of(normal_row(random, layout.size()), DType::f64);
  for (const char* method : {"a2cid2", "ad_psgd"})
    for (const char* compress : {"", "random:0.5"}) {
      INFO(method << ", compress " << compress);
      RuleContext context = context_of(layout, {}, x);
      context.settings.compress = compress;
      const std::unique_ptr<Rule> rule = method_named(method).make(context);
      auto& pairs = dynamic_cast<PairwiseRule&>(*rule);
      SnapshotPool pool(layout.size(), DType::f64, 2);
      Payload mine{pool.take()}, received{pool.take()};
      pairs.snapshot(1, {}, {}, mine);
      const Vec lies = received.writable(mine.dtype, mine.count);
      fill({}, std::numeric_limits<double>::quiet_NaN(), lies);
      received.version = mine.version + 1;
      pairs.jump(2, {}, mine, received, 0.5, 1);
      CHECK(distance(x_of(pairs, 3, layout.size(), DType::f64), row_of(x)) < 1e-15);
    }
}

TEST_CASE("x and x~ have one mean over all ranks, however they have gossiped") {
  const ParameterLayout layout = ParameterLayout::flat(1, DType::f64);
  Random random(4, 0, Purpose::test);
  std::vector<A2cid2> ranks;
  SnapshotPool pool(1, DType::f64, 2);
  for (int rank = 0; rank < 6; ++rank) {
    const Buffer x = buffer_of(normal_row(random, 1), DType::f64);
    ranks.emplace_back(context_of(layout, {}, x));
    ranks.back().set_eta(0, 0.3);
  }
  double now = 0;
  for (int event = 0; event < 200; ++event) {
    now += 0.1 * random.exponential();
    const size_t i = random.below(6), j = (i + 1 + random.below(5)) % 6;
    Payload a{pool.take()}, b{pool.take()};
    ranks[i].snapshot(now, {}, {}, a);
    ranks[j].snapshot(now, {}, {}, b);
    ranks[i].jump(now, {}, a, b, 1.5, 1);
    ranks[j].jump(now, {}, b, a, 1.5, 1);
  }
  double x = 0, both = 0;
  for (A2cid2& rule : ranks) {
    x += x_of(rule, now, 1, DType::f64)[0];
    both += conserved_of(rule, now, 1)[0];
  }
  CHECK(both == Approx(2 * x).margin(1e-13));
}

TEST_CASE("reset starts anew: twin at x, no momentum") {
  const ParameterLayout layout = three_tensors(DType::f64);
  const size_t size = layout.size();
  Random random(5, 0, Purpose::test);
  const Row fresh = normal_row(random, size), g = normal_row(random, size);
  for (const char* method : {"a2cid2", "ad_psgd", "all_reduce"}) {
    INFO(method);
    const OptimizerSettings optimizer{0.9, 0.1, true};
    const Buffer old = buffer_of(normal_row(random, size), DType::f64);
    auto used = rule_of(method, layout, optimizer, old);
    auto born = rule_of(method, layout, optimizer, buffer_of(fresh, DType::f64));
    const auto step = [&](Rule& rule, double now) {
      rule.on_gradient(now, 0.1, buffer_of(g, DType::f64), {});
      auto* rounds = dynamic_cast<CollectiveRule*>(&rule);
      if (rounds == nullptr) return;
      rounds->begin(now, 0);
      rounds->finish(now, 0, 1, {});
    };
    step(*used, 1);
    used->reset(2, buffer_of(fresh, DType::f64));
    for (Rule* rule : {used.get(), born.get()})
      step(*rule, 3);
    CHECK(distance(x_of(*used, 4, size, DType::f64), x_of(*born, 4, size, DType::f64)) == 0);
    CHECK(distance(conserved_of(*used, 4, size), conserved_of(*born, 4, size)) == 0);
  }
}

TEST_CASE("who takes over the state that follows the model goes on as that rank does") {
  Random random(9, 0, Purpose::test);
  const ParameterLayout layout = three_tensors(DType::f64);
  const size_t size = layout.size();
  const Row start = normal_row(random, size), other = normal_row(random, size);
  for (const char* method : {"a2cid2", "ad_psgd"}) {
    for (const OptimizerSettings& optimizer : kOptimizers) {
      INFO(method);
      auto source = rule_of(method, layout, optimizer, buffer_of(start, DType::f64));
      auto target = rule_of(method, layout, optimizer, buffer_of(other, DType::f64));
      for (Rule* rule : {source.get(), target.get()})
        dynamic_cast<PairwiseRule&>(*rule).set_eta(0, 0.3);
      for (int step = 0; step < 5; ++step)
        source->on_gradient(step, 0.1, buffer_of(normal_row(random, size), DType::f64), {});
      const double now = 5.5;
      hand_over(*source, *target, now, false);
      const Buffer g = buffer_of(normal_row(random, size), DType::f64);
      for (Rule* rule : {source.get(), target.get()})
        rule->on_gradient(7, 0.1, g, {});
      CHECK(distance(x_of(*target, 9, size, DType::f64), x_of(*source, 9, size, DType::f64)) <
            1e-15);
      CHECK(distance(conserved_of(*target, 9, size), conserved_of(*source, 9, size)) < 1e-14);
    }
  }
}

TEST_CASE("a rank that goes on under another number goes on where it stood, whatever the method") {
  Random random(10, 0, Purpose::test);
  const ParameterLayout layout = three_tensors(DType::f64);
  const size_t size = layout.size();
  for (const char* method :
       {"a2cid2", "ad_psgd", "all_reduce", "choco", "d_psgd", "d2", "deepsqueeze", "gasloc",
        "gradient_tracking", "mean_estimation", "moniqua", "noloco", "powergossip", "qgm",
        "relaysgd", "relaysgd_async", "relaysum_grad", "sgp"}) {
    for (const OptimizerSettings& optimizer : kOptimizers) {
      INFO(method);
      const Buffer start = buffer_of(normal_row(random, size), DType::f64);
      auto before = rule_of(method, layout, optimizer, start);
      auto after = rule_of(method, layout, optimizer, start);
      const RuleState names = before->state(0);
      REQUIRE(names.vectors.front().name == "x");
      for (int step = 0; step < 5; ++step)
        step_alone(*before, step, buffer_of(normal_row(random, size), DType::f64));
      hand_over(*before, *after, 5.5, true);
      for (int step = 6; step < 9; ++step) {
        const Buffer g = buffer_of(normal_row(random, size), DType::f64);
        step_alone(*before, step, g);
        step_alone(*after, step, g);
        CHECK(distance(x_of(*after, step, size, DType::f64),
                       x_of(*before, step, size, DType::f64)) == 0);
      }
    }
  }
}

TEST_CASE("all_reduce takes the optimizer's step with the mean of the gradients") {
  const ParameterLayout layout = three_tensors(DType::f64);
  const size_t size = layout.size();
  for (const OptimizerSettings& optimizer : kOptimizers) {
    Random random(6, 0, Purpose::test);
    Eigen::MatrixXd start(1, static_cast<Eigen::Index>(size));
    start.row(0) = normal_row(random, size);
    Row decay = Row::Constant(static_cast<Eigen::Index>(size), optimizer.weight_decay);
    decay.segment(6, 3).setZero();
    Oracle oracle(start, optimizer.momentum, optimizer.nesterov, decay);
    auto rule = rule_of("all_reduce", layout, optimizer, buffer_of(start.row(0), DType::f64));
    auto& rounds = dynamic_cast<CollectiveRule&>(*rule);
    for (int round = 0; round < 20; ++round) {
      const Row mine = normal_row(random, size), others = normal_row(random, size);
      rule->on_gradient(round, 0.1, buffer_of(mine, DType::f64), {});
      rounds.begin(round, 0);
      const Buffer sum = buffer_of(others, DType::f64);
      axpy({}, 1, sum.vec().part(0, 4), rounds.part(0, 4));
      axpy({}, 1, sum.vec().part(4, size - 4), rounds.part(4, size - 4));
      rounds.finish(round, 0, 3, {});
      oracle.gradient(round, 0, 0.1, (mine + others) / 3);
      REQUIRE(distance(x_of(*rule, round, size, DType::f64), oracle.x().row(0)) < 1e-13);
    }
  }
}

TEST_CASE("an unknown method is refused in one line that names the accepted ones") {
  const Status status = check_method("sgd", {}, "metropolis", *make_topology("ring", 4, 1));
  REQUIRE_FALSE(status);
  CHECK(status.error().message == "method is \"sgd\", accepted: " + method_names());
  CHECK(status.error().exit_status() == 2);
  CHECK(method_named("all_reduce").pattern == Pattern::collective);
  CHECK(method_named("ad_psgd").pattern == Pattern::pairwise);
  CHECK(method_named("d_psgd").pattern == Pattern::rounds);
}
