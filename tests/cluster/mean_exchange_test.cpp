// The mean of many nodes along a tree: one, whole, to the bit; over losses, deaths and cuts; and
// from peers that send what they may not.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <set>

#include "actors/cluster/mean_exchange.hpp"
#include "actors/cluster/mean_sums.hpp"
#include "actors/membership/member_table.hpp"
#include "kernels/base/random.hpp"
#include "tests/catch.hpp"

using namespace grapevine;

namespace {

constexpr double kBandwidth = 1e8, kLatency_s = 1e-3, kNews_s = 0.05, kPatience_s = 10;

double value_of(size_t node, uint32_t vector, size_t k) {
  return std::cos(static_cast<double>(node * 31 + vector * 7 + k % 101));
}

// Nodes, the links between them, and what the membership would spread, in one virtual time.
class World {
 public:
  World(size_t nodes, MeanShape shape, double loss = 0, uint64_t seed = 1)
      : shape_(std::move(shape)), loss_(loss), random_(seed, 3, Purpose::test) {
    for (size_t k = 0; k < nodes; ++k) {
      Node& n = nodes_.emplace_back();
      n.record.node = name(k);
      n.record.incarnation = 1;
      n.record.first_rank = static_cast<uint32_t>(k);
      n.record.ranks = 1 + k % 2;
      n.exchange = std::make_unique<MeanExchange>(n.record.node, shape_, kPatience_s);
    }
    for (size_t k = 0; k < nodes; ++k) {
      tell_view(k);
      for (size_t other = 0; other < nodes; ++other)
        if (other != k) link(k, other, true);
    }
  }

  static std::string name(size_t k) { return "n" + std::to_string(1000 + k); }

  void want(uint64_t serial) {
    for (size_t k = 0; k < nodes_.size(); ++k)
      event(k,
            [serial](MeanExchange& e, double now, MeanEffects& out) { e.want(now, serial, out); });
  }
  void end(size_t k) {
    event(k, [](MeanExchange& e, double now, MeanEffects& out) { e.end(now, {}, out); });
  }
  void end() {
    for (size_t k = 0; k < nodes_.size(); ++k)
      end(k);
  }
  void kill(size_t k) {
    nodes_[k].alive = false;
    for (size_t other = 0; other < nodes_.size(); ++other)
      if (other != k) link(other, k, false);
    at(now + kNews_s, [this, k] {
      nodes_[k].known = false;
      spread();
    });
  }
  void leave(size_t k) {
    nodes_[k].record.left = true;
    nodes_[k].alive = false;
    spread();
  }
  void cut(size_t a, size_t b) {
    cuts_.insert({a, b});
    cuts_.insert({b, a});
    link(a, b, false);
    link(b, a, false);
  }
  void diverge(size_t k) { nodes_[k].diverged = true; }  // its ranks have no finite numbers
  /// Its sum is that of ranks as far from all others; nobody else reaches a thousandth of it.
  void lie(size_t k, double far) {
    nodes_[k].lies_by = far;
    reach_ = far / 1000;
  }
  void give_x_alone(size_t k) { nodes_[k].x_alone = true; }  // its ranks have no other vector
  void mute(size_t k) { nodes_[k].mute = true; }             // nobody hears that it has a mean
  void deafen(size_t k) { nodes_[k].deaf = true; }           // it is there, and does nothing
  void at(double when, std::function<void()> what) { queue_.emplace(when, std::move(what)); }
  /// Its record changes in this way, again and again.
  void keep_changing(size_t k, double every_s, const std::function<void(MeanMember&)>& change) {
    at(now + every_s, [this, k, every_s, change] {
      change(nodes_[k].record);
      spread();
      keep_changing(k, every_s, change);
    });
  }
  /// There are always other newcomers, who do nothing.
  void keep_coming(double every_s) {
    at(now + every_s, [this, every_s] {
      newcomer_.emplace();
      newcomer_->node = "z" + std::to_string(++newcomers_);
      newcomer_->ranks = 1;
      spread();
      keep_coming(every_s);
    });
  }

  /// Until nothing is left to do, or `until_s`.
  void run(double until_s = 1e4) {
    while (!queue_.empty() && queue_.begin()->first <= until_s) {
      now = queue_.begin()->first;
      const auto what = std::move(queue_.begin()->second);
      queue_.erase(queue_.begin());
      what();
    }
  }

  bool has_result(size_t k) const { return nodes_[k].result.has_value(); }
  const MeanEffects::Result& end_of(size_t k) const { return *nodes_[k].result; }
  const std::set<std::string>& left_out(size_t k) const { return nodes_[k].left_out; }
  MeanExchange& exchange(size_t k) { return *nodes_[k].exchange; }

  /// Of these nodes, to the last bit or so.
  bool is_mean_of(const Mean& mean, const std::vector<size_t>& who) const {
    bool same = mean.ranks == mean.ranks_in.front();
    for (uint32_t v = 0; v < shape_.vectors.size(); ++v) {
      uint32_t ranks = 0;
      for (const size_t k : who)
        ranks += ranks_of(k, v);
      if (shape_.vectors[v].count > 0) same &= mean.ranks_in[v] == static_cast<int>(ranks);
      for (size_t i = 0; i < shape_.vectors[v].count; i += 17) {
        double sum = 0;
        for (const size_t k : who)
          sum += ranks_of(k, v) * value_of(k, v, i);
        const bool wide = shape_.vectors[v].dtype == DType::f64;
        const ConstVec x = mean.vectors[v].vec();
        const double is = wide ? x.as<double>()[i] : static_cast<double>(x.as<float>()[i]);
        same &= std::abs(is - sum / std::max(1u, ranks)) < (wide ? 1e-14 : 1e-7);
      }
    }
    return same;
  }

  double now = 0;
  uint64_t pieces = 0, payload_bytes = 0, largest_payload = 0;  // sent

 private:
  using Event = std::function<void(MeanExchange&, double, MeanEffects&)>;
  struct Node {
    MeanMember record;
    std::unique_ptr<MeanExchange> exchange;
    bool alive = true, known = true, deaf = false, mute = false, diverged = false, x_alone = false;
    double lies_by = 0;
    std::set<std::string> left_out;
    double timer_at = std::numeric_limits<double>::infinity();
    std::optional<MeanEffects::Result> result;
  };

  void event(size_t k, const Event& what) {
    Node& n = nodes_[k];
    if (!n.alive || n.deaf) return;
    MeanEffects out;
    what(*n.exchange, now, out);
    for (const auto& ask : out.asks)
      carry(k, ask.to, 40,
            [from = n.record.node, ask = ask.ask](MeanExchange& e, double t, MeanEffects& o) {
              e.asked(t, from, ask, o);
            });
    for (const auto& piece : out.pieces) {
      ++pieces;
      payload_bytes += piece.payload.bytes();
      largest_payload = std::max<uint64_t>(largest_payload, piece.payload.bytes());
      carry(k, piece.to, piece.payload.bytes(),
            [from = n.record.node, piece](MeanExchange& e, double t, MeanEffects& o) {
              e.piece(t, from, piece.what, piece.payload, o);
            });
    }
    for (const std::string& other : out.cut)
      n.record.unreachable.push_back(name_hash(other));
    if (out.told && !n.mute) std::tie(n.record.told_number, n.record.told_hash) = *out.told;
    if (out.told || !out.cut.empty()) at(now + kNews_s, [this] { spread(); });
    if (out.result) n.result = std::move(out.result);
    for (const auto& [other, why] : out.left_out)
      n.left_out.insert(other);
    if (out.sample) at(now, [this, k, number = *out.sample] { sum(k, number); });
    if (out.timer_at < n.timer_at || n.timer_at <= now) {
      n.timer_at = out.timer_at;
      if (n.timer_at < 1e9) at(std::max(now, n.timer_at), [this, k] { ring(k); });
    }
  }

  uint32_t ranks_of(size_t k, uint32_t vector) const {
    const Node& n = nodes_[k];
    return n.diverged || (n.x_alone && vector > 0) ? 0 : n.record.ranks;
  }

  void ring(size_t k) {
    nodes_[k].timer_at = now;
    event(k, [](MeanExchange& e, double t, MeanEffects& out) { e.timer(t, out); });
  }

  void sum(size_t k, uint64_t number) {
    MeanSum sum;
    for (uint32_t v = 0; v < shape_.vectors.size(); ++v) {
      const int ranks = sum.ranks_in.emplace_back(static_cast<int>(ranks_of(k, v)));
      double* x = sum.vectors.emplace_back(shape_.vectors[v].count, DType::f64).vec().as<double>();
      for (size_t i = 0; i < shape_.vectors[v].count; ++i)
        x[i] = ranks * (value_of(k, v, i) + nodes_[k].lies_by);
    }
    sum.reach = reach_;
    auto shared = std::make_shared<MeanSum>(std::move(sum));
    event(k, [number, shared](MeanExchange& e, double t, MeanEffects& out) {
      e.own(t, number, std::move(*shared), out);
    });
  }

  void carry(size_t from, const std::string& to, size_t bytes, const Event& what) {
    const size_t receiver = std::stoul(to.substr(1)) - 1000;
    if (cuts_.count({from, receiver}) > 0 || random_.uniform() < loss_) return;
    double& busy = busy_until_[{from, receiver}];
    busy = std::max(now, busy) + static_cast<double>(bytes) / kBandwidth;
    at(busy + kLatency_s, [this, receiver, what] { event(receiver, what); });
  }

  void link(size_t k, size_t other, bool up) {
    at(now, [this, k, other, up] {
      event(k, [other, up](MeanExchange& e, double t, MeanEffects& out) {
        e.linked(t, name(other), up, out);
      });
    });
  }

  void tell_view(size_t k) {
    std::vector<MeanMember> all;
    for (const Node& n : nodes_)
      if (n.known) all.push_back(n.record);
    if (newcomer_) all.push_back(*newcomer_);
    event(k, [&](MeanExchange& e, double t, MeanEffects& out) { e.view(t, all, out); });
  }

  void spread() {
    for (size_t k = 0; k < nodes_.size(); ++k)
      tell_view(k);
  }

  MeanShape shape_;
  double loss_, reach_ = std::numeric_limits<double>::infinity();
  Random random_;
  std::vector<Node> nodes_;
  std::optional<MeanMember> newcomer_;
  uint64_t newcomers_ = 0;
  std::multimap<double, std::function<void()>> queue_;
  std::map<std::pair<size_t, size_t>, double> busy_until_;
  std::set<std::pair<size_t, size_t>> cuts_;
};

MeanShape small() { return {{{"x", 1000, DType::f64}}}; }
MeanShape large(uint64_t pieces) { return {{{"x", pieces * kMeanPieceElements, DType::f32}}}; }

std::vector<size_t> all_but(size_t nodes, const std::set<size_t>& without) {
  std::vector<size_t> who;
  for (size_t k = 0; k < nodes; ++k)
    if (without.count(k) == 0) who.push_back(k);
  return who;
}

// Those have one mean, theirs, and nobody misses anybody.
void check_one_mean(World& world, const std::vector<size_t>& who) {
  for (const size_t k : who) {
    INFO(World::name(k));
    REQUIRE(world.has_result(k));
    const MeanEffects::Result& end = world.end_of(k);
    CHECK(end.missing == std::vector<std::string>{});
    REQUIRE(end.mean);
    CHECK(end.mean->hash == world.end_of(who.front()).mean->hash);
    CHECK(end.mean->number == world.end_of(who.front()).mean->number);
    CHECK(world.is_mean_of(*end.mean, who));
  }
}

}  // namespace

TEST_CASE("all nodes end with one mean, which is that of all ranks") {
  for (const size_t nodes : {1u, 2u, 5u, 6u, 40u}) {
    World world(nodes, small());
    world.end();
    world.run();
    INFO(nodes << " nodes");
    check_one_mean(world, all_but(nodes, {}));
  }
}

TEST_CASE("a mean has every vector, in its own type, the last piece of each as short as it is") {
  const MeanShape shape{{{"x", 2 * kMeanPieceElements + 3, DType::f32},
                         {"none", 0, DType::f32},
                         {"statistics", 5, DType::f64}}};
  CHECK(shape.pieces() == 4);
  World world(7, shape);
  world.end();
  world.run();
  check_one_mean(world, all_but(7, {}));
}

TEST_CASE("a vector is the mean of the ranks that have it, and all nodes know of how many") {
  const MeanShape shape{{{"x", 3, DType::f32}, {"statistics", 5, DType::f32}}};
  for (const size_t without : {1u, 8u, 9u}) {  // of nine nodes
    World world(9, shape);
    for (size_t k = 0; k < without; ++k)
      world.give_x_alone(k);
    world.end();
    world.run();
    INFO(without << " nodes without statistics");
    check_one_mean(world, all_but(9, {}));
  }
}

TEST_CASE("every edge of the tree carries the model twice, once as a sum and once as the mean") {
  World world(30, large(3));
  world.end();
  world.run();
  check_one_mean(world, all_but(30, {}));
  CHECK(world.pieces == 2 * 29 * 3);
}

TEST_CASE("an edge of the tree carries at most 2.2 models, and no message more than 1 MiB") {
  constexpr uint64_t kCount = 3 * kMeanPieceElements + 5;
  for (const DType dtype : {DType::f32, DType::f64}) {
    World world(30, {{{"x", kCount, dtype}}});
    world.end();
    world.run();
    check_one_mean(world, all_but(30, {}));
    const auto model_bytes = static_cast<double>(kCount * size_of(dtype));
    const double models = static_cast<double>(world.payload_bytes) / 29 / model_bytes;
    WARN(models << " models of fp" << 8 * size_of(dtype) << " an edge, " << world.largest_payload
                << " bytes at most in a message");
    CHECK(models <= 2.2);
    CHECK(world.largest_payload <= 1 << 20);
  }
}

TEST_CASE("a node whose ranks have diverged is in no mean, and keeps nobody from it") {
  World world(9, small());
  world.diverge(1);  // with nodes below it
  world.end();
  world.run();
  for (size_t k = 0; k < 9; ++k) {
    REQUIRE(world.has_result(k));
    REQUIRE(world.end_of(k).mean);
    CHECK(world.is_mean_of(*world.end_of(k).mean, all_but(9, {1})));
  }
}

TEST_CASE(
    "a node whose sum is of no ranks near those of others is in no mean, nor missing where "
    "judged") {
  for (const size_t liar : {size_t{0}, size_t{1}, size_t{8}})  // the root, over others, a leaf
    for (const double far : {1e6, 1e30}) {
      World world(9, {{{"x", 2 * kMeanPieceElements, DType::f32}}});
      world.lie(liar, far);
      world.end();
      world.run();
      INFO("node " << liar << ", by " << far);
      for (const size_t k : all_but(9, {liar})) {
        REQUIRE(world.has_result(k));
        REQUIRE(world.end_of(k).mean);
        CHECK(world.is_mean_of(*world.end_of(k).mean, all_but(9, {liar})));
        // A liar over others refuses their sums before they have seen its own.
        // A liar over others refuses their sums before they have seen its own.
        const bool is_judged = world.left_out(k).contains(World::name(liar));
        CHECK((is_judged || liar != 8));
        CHECK(world.left_out(k).size() == (is_judged ? 1 : 0));
        CHECK(world.end_of(k).missing.size() == (is_judged ? 0 : 1));
      }
    }
}

TEST_CASE("where all ranks have diverged there is no mean, and all nodes say so") {
  World world(6, small());
  for (size_t k = 0; k < 6; ++k)
    world.diverge(k);
  world.end();
  world.run();
  for (size_t k = 0; k < 6; ++k) {
    REQUIRE(world.has_result(k));
    CHECK(world.end_of(k).mean == nullptr);
  }
}

TEST_CASE("depth costs latency and no bandwidth: pieces are handed on as they come") {
  constexpr uint64_t kPieces = 24;
  double took_s[2];
  int k = 0;
  for (const size_t nodes : {6u, 20u}) {  // depth 2 and 3, inner nodes of the same degree
    World world(nodes, large(kPieces));
    world.end();
    world.run();
    check_one_mean(world, all_but(nodes, {}));
    took_s[k++] = world.now;
  }
  const double piece_s = kMeanPieceElements * 4.5 / kBandwidth;
  CHECK(took_s[0] > kPieces * piece_s);
  CHECK(took_s[1] < took_s[0] + 6 * piece_s);  // and by no means by a whole model more
}

TEST_CASE("pieces and requests that are lost are asked for again") {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    World world(9, large(6), 0.1, seed);
    world.end();
    world.run();
    INFO("seed " << seed);
    check_one_mean(world, all_but(9, {}));
  }
}

TEST_CASE(
    "a snapshot is here as soon as all pieces are, and the next one has a number of its own") {
  World world(8, small());
  world.want(1);
  world.run();
  check_one_mean(world, all_but(8, {}));
  const uint64_t first = world.end_of(3).mean->number;
  for (size_t k = 0; k < 8; ++k)
    CHECK(world.exchange(k).idle());
  world.want(1);  // it is not newer
  CHECK(world.exchange(0).idle());
  world.want(2);
  world.run();
  check_one_mean(world, all_but(8, {}));
  CHECK(world.end_of(3).mean->number != first);
}

TEST_CASE("a mean at the end waits for nodes that are not there yet, as long as things move on") {
  World world(6, small());
  for (size_t k = 0; k < 5; ++k)
    world.end(k);
  world.run(kPatience_s / 2);
  for (size_t k = 0; k < 6; ++k)
    CHECK_FALSE(world.has_result(k));
  world.end(5);
  world.run();
  check_one_mean(world, all_but(6, {}));
}

TEST_CASE(
    "who dies is not in the mean, and the others still have one: an inner node, or the root") {
  for (const size_t dead : {0u, 1u, 19u}) {
    World world(20, large(8));
    world.want(1);
    world.run(0.017);
    REQUIRE_FALSE(world.has_result(2));
    world.kill(dead);
    world.run();
    INFO("node " << dead);
    check_one_mean(world, all_but(20, {dead}));
  }
}

TEST_CASE("who dies after the end has begun is named by those who end without it") {
  World world(5, large(8));
  world.end();
  world.run(0.017);
  world.kill(4);
  world.run();
  for (size_t k = 0; k < 4; ++k) {
    REQUIRE(world.has_result(k));
    CHECK(world.is_mean_of(*world.end_of(k).mean, all_but(5, {4})));
    CHECK(world.end_of(k).missing == std::vector<std::string>{World::name(4)});
  }
}

TEST_CASE("with pairs cut everybody has one mean, through whoever is linked") {
  for (const auto& pair : {std::pair<size_t, size_t>{0, 1}, {0, 3}, {1, 2}}) {
    World world(4, small());
    world.cut(pair.first, pair.second);
    world.end();
    world.run();
    INFO(pair.first << " and " << pair.second);
    check_one_mean(world, all_but(4, {}));
  }
  World world(12, large(4));  // the root sees one node alone
  for (size_t k = 1; k < 11; ++k)
    world.cut(0, k);
  world.end();
  world.run();
  check_one_mean(world, all_but(12, {}));
}

TEST_CASE("a node that never says a word is missing by name, and nobody waits for it for ever") {
  World world(6, small());
  world.deafen(5);
  world.end();
  world.run();
  for (size_t k = 0; k < 5; ++k) {
    REQUIRE(world.has_result(k));
    CHECK(world.end_of(k).missing.size() > 0);
  }
  // Its parent waits for its pieces, the others for what the parent has not got either.
  CHECK(world.end_of(1).missing == std::vector<std::string>{World::name(5)});
}

namespace {

constexpr double kLongestEnd_s = (kMeanRestarts + 5) * (kPatience_s + kOneRestart_s);

void run_until_all_end(World& world, size_t nodes) {
  bool all = false;
  for (double until_s = 0; !all && until_s < kLongestEnd_s; until_s += 0.5) {
    world.run(until_s);
    all = true;
    for (size_t k = 0; k < nodes; ++k)
      all &= world.has_result(k);
  }
}

}  // namespace

TEST_CASE("a member that changes what it says of itself without end keeps nobody from an end") {
  const auto takes_back = [](MeanMember& m) {
    m.unreachable.empty() ? m.unreachable.push_back(name_hash(World::name(0)))
                          : m.unreachable.clear();
  };
  for (const double every_s : {0.004, 0.03, 0.9 * kPatience_s})
    for (const auto& change : {std::function<void(MeanMember&)>(takes_back),
                               std::function([](MeanMember& m) { ++m.incarnation; }),
                               std::function([](MeanMember& m) { ++m.first_rank; }),
                               std::function([](MeanMember& m) { m.left = !m.left; })}) {
      World world(6, small());
      world.mute(5);
      world.keep_changing(5, every_s, change);
      world.end();
      run_until_all_end(world, 5);
      INFO("every " << every_s << " s");
      for (size_t k = 0; k < 5; ++k) {
        REQUIRE(world.has_result(k));
        REQUIRE(world.end_of(k).mean);
        CHECK(world.end_of(k).mean->hash == world.end_of(0).mean->hash);
      }
    }
}

TEST_CASE("a member that reports other means without end keeps nobody from an end") {
  World world(6, small());
  world.mute(5);
  world.keep_changing(5, kPatience_s / 2, [](MeanMember& m) { ++m.told_number; });
  world.end();
  world.run(3 * kPatience_s);
  for (size_t k = 0; k < 5; ++k) {
    REQUIRE(world.has_result(k));
    CHECK(world.is_mean_of(*world.end_of(k).mean, all_but(6, {})));
    CHECK(world.end_of(k).missing == std::vector<std::string>{World::name(5)});
  }
}

TEST_CASE("newcomers without end keep nobody from an end") {
  for (const double every_s : {0.03, 0.9 * kPatience_s}) {
    World world(5, small());
    world.keep_coming(every_s);
    world.end();
    run_until_all_end(world, 5);
    INFO("every " << every_s << " s");
    for (size_t k = 0; k < 5; ++k)
      CHECK(world.has_result(k));
  }
}

TEST_CASE("a mean waits anew after each death") {
  World world(12, large(4));
  for (size_t k = 11; k >= 4; --k) {
    world.deafen(k);
    world.at(0.9 * kPatience_s * static_cast<double>(12 - k), [&world, k] { world.kill(k); });
  }
  world.end();
  world.run();
  for (size_t k = 0; k < 4; ++k) {
    REQUIRE(world.has_result(k));
    REQUIRE(world.end_of(k).mean);
    CHECK(world.is_mean_of(*world.end_of(k).mean, {0, 1, 2, 3}));
  }
}

TEST_CASE("who has left having said that it had the mean has seen all others say so") {
  World world(3, small());
  world.mute(1);
  world.end();
  world.run(1);  // all have it, and nobody has heard so of one
  CHECK_FALSE(world.has_result(2));
  world.leave(0);
  world.run();
  for (const size_t k : {1u, 2u}) {
    REQUIRE(world.has_result(k));
    CHECK(world.end_of(k).mean->ranks == 4);
    CHECK(world.end_of(k).mean->nodes == 3);
    CHECK(world.end_of(k).missing == std::vector<std::string>{});
  }
}

namespace {

/// A sum of zeros on its way up, of a mean in fp32.
Buffer packed_zeros(uint64_t count) {
  const PackedShape shape = packed_shape(count, DType::f32);
  Buffer packed(shape.count, shape.dtype);
  pack(Buffer(count, DType::f64), 1, packed);
  return packed;
}

// The root of two nodes, whose child the test plays.
struct Root {
  MeanExchange exchange{"a", large(6), kPatience_s};
  uint64_t number = 0;

  /// `early`: what the child does before the number is known here.
  explicit Root(const std::function<void(MeanExchange&, MeanEffects&)>& early = linked) {
    std::vector<MeanMember> members(2);
    members[0].node = "a";
    members[1].node = "b";
    members[0].ranks = members[1].ranks = 2;
    MeanEffects out;
    exchange.view(0, members, out);
    early(exchange, out);
    exchange.end(0, {}, out);
    number = *out.sample;
    MeanSum sum;
    sum.ranks_in = {2};
    sum.vectors.emplace_back(6 * kMeanPieceElements, DType::f64);
    exchange.own(0, number, std::move(sum), out);
  }

  static void linked(MeanExchange& exchange, MeanEffects& out) {
    exchange.linked(0, "b", true, out);
  }
  MeanEffects piece(const std::string& from, const MeanPiece& p, const Buffer& payload) {
    MeanEffects out;
    exchange.piece(0, from, p, payload.vec(), out);
    return out;
  }
  MeanEffects ask(const std::string& from, const MeanAsk& a, double now = 0) {
    MeanEffects out;
    exchange.asked(now, from, a, out);
    return out;
  }
  /// The mean is whole here: the child may ask for it. How many pieces it has had on the way.
  size_t finish() {
    const Buffer zeros = packed_zeros(kMeanPieceElements);
    size_t sent = 0;
    for (uint64_t k = 0; k < 6; ++k)
      sent += piece("b", {MeanPiece::Way::up, number, 0, k * kMeanPieceElements, 2}, zeros)
                  .pieces.size();
    MeanEffects later;
    exchange.timer(0, later);  // the rest is divided
    return sent + later.pieces.size();
  }
};

}  // namespace

TEST_CASE(
    "what a peer may not send is refused and counted, and the third time it is done without") {
  using Way = MeanPiece::Way;
  const Buffer good = packed_zeros(kMeanPieceElements), small = packed_zeros(7),
               narrow(kMeanPieceElements, DType::f32);
  Buffer poisoned = packed_zeros(kMeanPieceElements);
  static_cast<float*>(poisoned.vec().data)[5] = std::numeric_limits<float>::quiet_NaN();
  struct Case {
    const char* reason;
    std::string from;
    MeanPiece piece;
    const Buffer* payload;
  };
  const uint64_t number = Root().number;
  const Case cases[] = {
      {"a piece from a node that is no neighbour in the tree",
       "c",
       {Way::up, number, 0, 0, 2},
       &good},
      {"a piece in the wrong direction of the tree", "b", {Way::down, number, 0, 0, 2}, &good},
      {"a piece of a vector that does not exist", "b", {Way::up, number, 1, 0, 2}, &good},
      {"a piece of another type", "b", {Way::up, number, 0, 0, 2}, &narrow},
      {"a piece of another size", "b", {Way::up, number, 0, 0, 2}, &small},
      {"a piece of more ranks than there are", "b", {Way::up, number, 0, 0, 3}, &good},
      {"a piece that is not finite", "b", {Way::up, number, 0, 0, 2}, &poisoned},
  };
  for (const Case& c : cases) {
    Root root;
    INFO(c.reason);
    CHECK(root.piece(c.from, c.piece, *c.payload).cut.empty());
    CHECK(root.exchange.refused().at(c.reason) == 1);
    root.piece(c.from, c.piece, *c.payload);
    const bool stranger = c.from == "c";
    CHECK(root.piece(c.from, c.piece, *c.payload).cut.empty() == stranger);
  }
  Root root;
  root.piece("b", {Way::up, number, 0, 0, 2}, good);
  root.piece("b", {Way::up, number, 0, kMeanPieceElements, 1}, good);
  CHECK(root.exchange.refused().at("pieces with different numbers of ranks") == 1);
  root.piece("b", {Way::up, number + 1, 0, 0, 2}, good);  // of another mean: nothing to refuse
  root.piece("b", {Way::up, number, 0, 0, 2}, good);      // repeated
  CHECK(root.exchange.refused().size() == 1);
}

TEST_CASE("a peer has one request open, whatever it asks for and however often") {
  using Way = MeanPiece::Way;
  Root root;
  root.finish();
  size_t sent = 0;
  for (int k = 0; k < 20'000; ++k)
    sent += root.ask("b", {Way::down, false, root.number, 0, 6}).pieces.size();
  CHECK(sent == kMeanWindow);  // it has not said that any came
  CHECK(root.ask("b", {Way::down, true, root.number, 0, 6}).pieces.size() == kMeanWindow);
  for (uint64_t k = 1; k < 20'000; ++k)
    CHECK(root.ask("b", {Way::down, false, root.number + k, 0, 6}).pieces.empty());
  CHECK(root.ask("b", {Way::up, false, root.number, 0, 6}).pieces.empty());
  CHECK(root.ask("b", {Way::down, false, root.number, 5, 7}).pieces.empty());
  CHECK(root.ask("b", {Way::down, false, root.number, 5, 4}).pieces.empty());
  CHECK(root.ask("c", {Way::down, false, root.number, 0, 6}).pieces.empty());
  CHECK(root.exchange.refused().at("a request in the wrong direction of the tree") == 2);
  CHECK(root.exchange.refused().at("a request for pieces that do not exist") == 2);
}

TEST_CASE("what is asked before its number is known is kept of who is linked, as long as it is") {
  const MeanAsk wanted{MeanPiece::Way::down, false, Root().number, 0, 6};
  const auto asks = [&](MeanExchange& exchange, MeanEffects& out) {
    exchange.asked(0, "b", wanted, out);
  };
  CHECK(Root().finish() == 0u);
  CHECK(Root([&](MeanExchange& exchange, MeanEffects& out) {
          exchange.linked(0, "b", true, out);
          asks(exchange, out);
        }).finish() > 0u);
  CHECK(Root([&](MeanExchange& exchange, MeanEffects& out) {
          asks(exchange, out);
          exchange.linked(0, "b", true, out);
        }).finish() == 0u);
  CHECK(Root([&](MeanExchange& exchange, MeanEffects& out) {
          exchange.linked(0, "b", true, out);
          asks(exchange, out);
          exchange.linked(0, "b", false, out);
          exchange.linked(0, "b", true, out);
        }).finish() == 0u);
}

TEST_CASE("what a peer asks for again goes out once as it moves on, and else four times a second") {
  using Way = MeanPiece::Way;
  Root root;
  root.finish();
  const auto again = [&](uint32_t from, double now) {
    return root.ask("b", {Way::down, true, root.number, from, 6}, now).pieces.size();
  };
  size_t sent = 0;
  for (int k = 0; k < 20'000; ++k)
    sent += again(0, 0);
  CHECK(sent == kMeanWindow);
  for (int round = 0; round < 1000; ++round)
    for (uint32_t from = 1; from < 6; ++from)
      sent += again(from, 0.01);
  CHECK(sent <= 6 * kMeanWindow);  // every piece as often as the window has it, and no more
  for (int k = 0; k < 20'000; ++k)
    sent += again(0, 0.01 + 1e-5 * k);
  CHECK(sent <= 6 * kMeanWindow);
  CHECK(again(0, 0.01 + kAgain_s) == kMeanWindow);  // it has lost them: time has passed
  CHECK(again(0, 0.01 + kAgain_s) == 0);
  CHECK(root.exchange.refused().empty());
}
