// PowerGossip's factors at the two ends of an edge, and in the exchanges of AD-PSGD and A2CiD2.
#include <cmath>

#include "actors/algorithms/a2cid2.hpp"
#include "actors/algorithms/ad_psgd.hpp"
#include "kernels/memory/snapshot_pool.hpp"
#include "tests/algorithms/powergossip_tools.hpp"
#include "tests/catch.hpp"

using namespace grapevine;
using namespace grapevine::test;

TEST_CASE("both ends of an edge have equal factors at equal versions, whatever is lost") {
  for (const DType dtype : {DType::f32, DType::f64}) {
    const ParameterLayout layout = mixed(dtype);
    const auto plan = std::make_shared<FactorPlan>(layout, PowerGossipSpec{2, 3, true});
    Random random(7, 0, Purpose::test);
    Buffer x[2] = {buffer_of(normal_row(random, layout.size()), dtype),
                   buffer_of(normal_row(random, layout.size()), dtype)};
    const Buffer probe = buffer_of(normal_row(random, layout.size()), dtype);
    EdgeFactors ends[2] = {{{}, plan, 9, 3, {.peer = 5, .incarnation = 1, .peer_incarnation = 2}},
                           {{}, plan, 9, 5, {.peer = 3, .incarnation = 2, .peer_incarnation = 1}}};
    SnapshotPool pool(plan->largest_message() * size_of(dtype), DType::bytes, 4);
    int in_step = 0, anew[2] = {0, 0};
    for (int exchange = 0; exchange < 10000; ++exchange) {
      Payload sent[2] = {{pool.take()}, {pool.take()}}, probed[2] = {{pool.take()}, {pool.take()}};
      for (const size_t end : {0, 1}) {
        ends[end].encode(x[end], sent[end]);
        ends[end].encode(probe, probed[end]);
        axpy({}, 0.01, buffer_of(normal_row(random, layout.size()), dtype), x[end]);
      }
      if (sent[0].version == sent[1].version) {
        ++in_step;
        REQUIRE(same_bits(probed[0].vec(), probed[1].vec()));
      }
      for (const size_t end : {0, 1}) {
        if (random.uniform() < 0.1) continue;  // the other's message is lost
        const bool moved = ends[end].jump(sent[end], sent[1 - end], 0, 0.3, 0, x[end], {});
        CHECK(moved == (sent[0].version == sent[1].version));
        anew[end] += !moved;
      }
    }
    CHECK(in_step > 7000);
    CHECK(anew[0] > 1000);  // after each loss of one side alone, 18 in 100
    CHECK(anew[1] > 1000);
    CHECK(std::abs(anew[0] - anew[1]) < 300);
  }
}

namespace {

/// Ranks of a pairwise rule on a ring whose exchanges overlap: snapshots, jumps and gradients in a
/// random order, each jump long after its snapshot.
struct RandomExchanges {
  struct Edge {
    int ends[2];
    uint64_t number = 1;
    Payload sent[2];
    bool applied[2];
    ExchangeKey key(size_t end) const { return {ends[1 - end], 4, 4, number}; }
  };

  RandomExchanges(const std::string& method, const ParameterLayout& layout, uint64_t seed,
                  Wire wire = Wire::full)
      : random(seed, 3, Purpose::test), size(layout.size()), dtype(layout.dtype()) {
    RuleSettings settings = power("powergossip");
    settings.wire = wire;
    for (int rank = 0; rank < kRanks; ++rank) {
      const Buffer x = buffer_of(normal_row(random, size), dtype);
      auto rule = method_named(method).make({rank, seed, layout, {}, settings, x});
      rules.emplace_back(dynamic_cast<PairwiseRule*>(rule.release()));
      rules.back()->set_eta(0, method == "a2cid2" ? 0.4 : 0);
      edges.push_back({{rank, (rank + 1) % kRanks}, 1, {}, {}});
    }
    pool = std::make_unique<SnapshotPool>(rules[0]->snapshot_bytes(), DType::bytes, 64);
  }

  PairwiseRule& rule(const Edge& e, size_t end) { return *rules[static_cast<size_t>(e.ends[end])]; }

  void event() {
    now += 0.05 * random.exponential();
    Edge& e = edges[random.below(kRanks)];
    const size_t end = random.below(2);
    if (random.below(4) == 0) {
      const Row g = normal_row(random, size);
      rule(e, end).on_gradient(now, 0.01, buffer_of(g, dtype), {});
      steps -= 0.01 * g;
    } else if (!e.sent[end]) {
      e.sent[end] = {pool->take()};
      rule(e, end).snapshot(now, e.key(end), {}, e.sent[end]);
    } else if (e.sent[1 - end] && !e.applied[end]) {
      rule(e, end).jump(now, e.key(end), e.sent[end], e.sent[1 - end], 0.9, 1);
      e.applied[end] = true;
      ++jumps;
    }
    if (e.applied[0] && e.applied[1]) e = {{e.ends[0], e.ends[1]}, e.number + 1, {}, {}};
  }

  void events_until(int wanted) {
    for (int events = 0; jumps < wanted; ++events) {
      REQUIRE(events < 20 * wanted);  // a quarter are gradients; it takes four and some a jump
      event();
    }
  }

  void finish() {  // what is under way
    for (Edge& e : edges) {
      if (!e.sent[0] || !e.sent[1]) {
        e.sent[0] = e.sent[1] = {};
        continue;
      }
      for (const size_t end : {0, 1})
        if (!e.applied[end])
          rule(e, end).jump(now, e.key(end), e.sent[end], e.sent[1 - end], 0.9, 1);
      e = {{e.ends[0], e.ends[1]}, e.number + 1, {}, {}};
    }
  }

  Row conserved() {
    Row sum = Row::Zero(static_cast<Eigen::Index>(size));
    for (auto& rule : rules)
      sum += conserved_of(*rule, now, size);
    return sum;
  }

  static constexpr int kRanks = 5;
  Random random;
  size_t size;
  DType dtype;
  double now = 0;
  int jumps = 0;
  std::vector<std::unique_ptr<PairwiseRule>> rules;
  std::vector<Edge> edges;
  std::unique_ptr<SnapshotPool> pool;
  Row steps = Row::Zero(1);
};

}  // namespace

TEST_CASE("pairwise PowerGossip keeps its sum and its factors equal over 10,000 late exchanges") {
  for (const char* method : {"ad_psgd", "a2cid2"}) {
    for (const auto& [dtype, wire] :
         {std::pair(DType::f64, Wire::full), {DType::f32, Wire::full}, {DType::f64, Wire::bf16}}) {
      INFO(method << (dtype == DType::f64 ? " f64" : " f32")
                  << (wire == Wire::full ? "" : " bf16"));
      const ParameterLayout layout = mixed(dtype);
      RandomExchanges run(method, layout, 10, wire);
      run.steps = Row::Zero(static_cast<Eigen::Index>(layout.size()));
      const Row before = run.conserved();
      run.events_until(20000);
      run.finish();
      const double copies = std::string(method) == "a2cid2" ? 2 : 1;  // x and x~
      const double tolerance = dtype == DType::f64 ? 1e-11 : 2e-3;
      CHECK(distance(run.conserved(), before + copies * run.steps) < tolerance);
      const Buffer probe = buffer_of(normal_row(run.random, layout.size()), dtype);
      for (auto& rule : run.rules) {
        CHECK(rule->counts().reseeded == 0);
        rule->reset(run.now, probe);
      }
      for (RandomExchanges::Edge& e : run.edges) {
        Payload seen[2] = {{run.pool->take()}, {run.pool->take()}};
        for (const size_t end : {0, 1})
          run.rule(e, end).snapshot(run.now, e.key(end), {}, seen[end]);
        CHECK(seen[0].version == e.number - 1);
        CHECK(seen[0].dtype == (wire == Wire::full ? dtype : DType::bf16));
        CHECK(same_bits(seen[0].vec(), seen[1].vec()));
      }
    }
  }
}

TEST_CASE("pairwise PowerGossip brings ranks together") {
  for (const auto& [method, wire] :
       {std::pair("ad_psgd", Wire::full), {"a2cid2", Wire::full}, {"a2cid2", Wire::bf16}}) {
    const ParameterLayout layout = mixed(DType::f64);
    RandomExchanges run(method, layout, 11, wire);
    const auto spread = [&] {
      Eigen::MatrixXd all(RandomExchanges::kRanks, static_cast<Eigen::Index>(layout.size()));
      for (int rank = 0; rank < RandomExchanges::kRanks; ++rank)
        all.row(rank) =
            x_of(*run.rules[static_cast<size_t>(rank)], run.now, layout.size(), DType::f64);
      return (all.rowwise() - Row(all.colwise().mean())).squaredNorm();
    };
    const double start = spread();
    run.steps = Row::Zero(static_cast<Eigen::Index>(layout.size()));
    run.events_until(2000);
    INFO(method);
    CHECK(spread() < 0.05 * start);  // gradients go on
  }
}

TEST_CASE("a low-rank jump that comes late is the exchange that had happened at the snapshot") {
  const ParameterLayout layout = mixed(DType::f64);
  const size_t size = layout.size();
  Random random(14, 0, Purpose::test);
  const Buffer x = buffer_of(normal_row(random, size), DType::f64);
  const Buffer other = buffer_of(normal_row(random, size), DType::f64);
  const RuleSettings settings = power("powergossip:rank=2");
  A2cid2 at_once({0, 1, layout, {}, settings, x}), delayed({0, 1, layout, {}, settings, x});
  A2cid2 peer({1, 1, layout, {}, settings, other});
  SnapshotPool pool(at_once.snapshot_bytes(), DType::bytes, 2);
  double now = 1;
  for (A2cid2* rule : {&at_once, &delayed})
    rule->set_eta(0, 0.3);
  for (uint64_t number = 1; number <= 6; ++number, now += 20) {
    const Row before = x_of(at_once, now, size, DType::f64);
    Payload sent{pool.take()}, received{pool.take()};
    delayed.snapshot(now, {1, 0, 0, number}, {}, sent);
    peer.snapshot(now, {0, 0, 0, number}, {}, received);
    at_once.jump(now, {1, 0, 0, number}, sent, received, 1.7, 1);
    delayed.jump(now + 3, {1, 0, 0, number}, sent, received, 1.7, 1);
    peer.jump(now, {0, 0, 0, number}, received, sent, 1.7, 1);
    const Row after = x_of(at_once, now + 3, size, DType::f64);
    CHECK(distance(x_of(delayed, now + 3, size, DType::f64), after) < 1e-13);
    CHECK(distance(after, before) > 1e-3);
  }
}

TEST_CASE("a pairwise jump of tensors that are not compressed is the plain one, bit for bit") {
  ParameterLayout layout(DType::f32);
  layout.add("b", {7}, true);
  layout.add("c", {2, 2}, true);
  for (const char* method : {"ad_psgd", "a2cid2"}) {
    Random random(12, 0, Purpose::test);
    const Buffer x = buffer_of(normal_row(random, 11), DType::f32);
    const Buffer y = buffer_of(normal_row(random, 11), DType::f32);
    Row results[2];
    for (const size_t compressed : {0, 1}) {
      const RuleSettings settings = power(compressed == 1 ? "powergossip" : "");
      SnapshotPool pool(11 * sizeof(float), DType::bytes, 2);
      auto mine = method_named(method).make({0, 1, layout, {}, settings, x});
      auto peer = method_named(method).make({1, 1, layout, {}, settings, y});
      Payload sent{pool.take()}, received{pool.take()};
      auto& end = dynamic_cast<PairwiseRule&>(*mine);
      end.set_eta(0, 0.5);
      end.snapshot(1, {1, 0, 0, 1}, {}, sent);
      dynamic_cast<PairwiseRule&>(*peer).snapshot(1, {0, 0, 0, 1}, {}, received);
      end.jump(2, {1, 0, 0, 1}, sent, received, 1.3, 1);
      results[compressed] = x_of(*mine, 3, 11, DType::f32);
    }
    CHECK(distance(results[0], results[1]) == 0);
  }
}

TEST_CASE("a new incarnation of either end begins with other factors, equal at both") {
  const ParameterLayout layout = mixed(DType::f64);
  Random random(13, 0, Purpose::test);
  const Buffer x = buffer_of(normal_row(random, layout.size()), DType::f64);
  AdPsgd low({0, 1, layout, {}, power("powergossip"), x});
  AdPsgd high({1, 1, layout, {}, power("powergossip"), x});
  SnapshotPool pool(low.snapshot_bytes(), DType::bytes, 8);
  std::vector<Payload> seen;
  for (const auto& [a, b] : {std::pair{1u, 1u}, std::pair{1u, 2u}, std::pair{2u, 1u}}) {
    Payload of_low{pool.take()}, of_high{pool.take()};
    low.snapshot(0, {1, a, b, 1}, {}, of_low);
    high.snapshot(0, {0, b, a, 1}, {}, of_high);
    CHECK(same_bits(of_low.vec(), of_high.vec()));
    for (const Payload& earlier : seen)
      CHECK_FALSE(same_bits(of_low.vec(), earlier.vec()));
    seen.push_back(of_low);
  }
}
