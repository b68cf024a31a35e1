// The ring all-reduce: exact sums whatever the links do, on any number of ranks.
#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>

#include "actors/conversations/collective.hpp"
#include "actors/state/ring_parts.hpp"
#include "actors/transport/simulated.hpp"
#include "kernels/memory/snapshot_pool.hpp"
#include "kernels/passes/ops.hpp"
#include "tests/catch.hpp"
#include "tests/conversations/event_queue.hpp"

using namespace grapevine;

namespace {

struct RingSettings {
  int ranks = 4;
  size_t size = 10;
  uint64_t seed = 1;
  std::vector<LinkFault> faults;
  double patience_s = 0.5;
  double late_s = 0;     // a rank begins its next round within this time
  double empty = 0;      // probability that no buffer is left when a part is taken
  size_t buffers = 256;  // of a rank
};

/// n ranks that sum whole numbers, so that every order of adding gives the same sum.
class Ring {
 public:
  explicit Ring(const RingSettings& s)
      : settings_(s),
        random_(s.seed, 0, Purpose::test),
        transport_({0.01, 0.9, 0.05, 0}, s.faults, s.seed, s.ranks,
                   [this](double at, int to, Frame f) {
                     queue_.schedule(at, [this, to, f = std::move(f)] { deliver(to, f); });
                   }) {
    View view;
    view.epoch = 1;
    for (int rank = 0; rank < s.ranks; ++rank)
      view.ring.push_back({rank, 0, 0, 0});
    for (int rank = 0; rank < s.ranks; ++rank) {
      Node& node = *nodes_.emplace_back(std::make_unique<Node>(rank, s));
      event(rank, [&](Effects& out) { node.conversation.view(0, view, out); });
      begin(rank);
    }
  }

  /// Runs until every rank has finished `rounds` rounds. False: it came to a stop before.
  bool run(uint64_t rounds) {
    rounds_ = rounds;
    return queue_.run_until([&] {
      return std::ranges::all_of(
          nodes_, [&](const auto& node) { return node->conversation.counts().applied >= rounds; });
    });
  }

  uint64_t wrong_sums() const { return wrong_; }
  uint64_t protocol_errors() const {
    uint64_t errors = 0;
    for (const auto& node : nodes_)
      errors += node->conversation.counts().protocol_errors;
    return errors;
  }
  uint64_t chunks_sent() const { return chunks_; }
  uint64_t refused() const { return refused_; }  // parts for which no buffer was left

 private:
  struct Node {
    Node(int rank, const RingSettings& s)
        : conversation({rank, s.size, DType::f64, 1, s.patience_s}),
          pool(s.size, DType::f64, s.buffers),
          vector(s.size, DType::f64) {}
    Collective conversation;
    SnapshotPool pool;
    Buffer vector;
    uint64_t round = 0;
    test::Timers timers;
  };

  static double value(int rank, uint64_t round, size_t k) {
    return (rank + 1) * 1000 + static_cast<double>(round * 17 + k);
  }

  void begin(int rank) {
    queue_.schedule(queue_.now() + settings_.late_s * random_.uniform(), [this, rank] {
      Node& node = *nodes_[static_cast<size_t>(rank)];
      for (size_t k = 0; k < settings_.size; ++k)
        node.vector.vec().as<double>()[k] = value(rank, node.round, k);
      event(rank, [&](Effects& out) { node.conversation.step_ready(queue_.now(), {}, out); });
    });
  }

  void deliver(int to, const Frame& frame) {
    const Payload payload = payload_of(frame.header, frame.payload);
    event(to, [&](Effects& out) {
      nodes_[static_cast<size_t>(to)]->conversation.frame(queue_.now(), frame.header, payload, out);
    });
  }

  void event(int rank, const std::function<void(Effects&)>& call) {
    Effects out;
    call(out);
    for (const Send& s : out.sends) {
      chunks_ += s.header.kind == FrameKind::chunk;
      transport_.send(queue_.now(), s.header, s.payload.lease);
    }
    for (const auto& request : out.requests)
      std::visit([&](const auto& r) { serve(rank, r); }, request);
    Node& node = *nodes_[static_cast<size_t>(rank)];
    for (const Arm& a : out.arms) {
      node.timers.arm(queue_, a, [this, rank, id = a.timer, &node] {
        event(rank, [&](Effects& more) { node.conversation.timer(queue_.now(), id, more); });
      });
    }
  }

  void serve(int rank, const Take& take) {
    Node& node = *nodes_[static_cast<size_t>(rank)];
    Payload payload;
    if (settings_.empty == 0 || random_.uniform() >= settings_.empty)
      payload.lease = node.pool.take();
    refused_ += !payload;
    if (payload) {
      scale({}, 1, node.vector.vec().part(take.offset, take.count),
            payload.writable(DType::f64, take.count));
    }
    // An answer of another actor's: after all that was asked for together with it.
    queue_.schedule(queue_.now(), [this, rank, &node, ticket = take.ticket, payload] {
      event(rank, [&](Effects& out) {
        node.conversation.taken(queue_.now(), ticket, payload, Limits{}, out);
      });
    });
  }

  void serve(int, const Write&) { FAIL("a collective round has no messages to neighbours"); }

  void serve(int rank, const Apply& apply) {
    Node& node = *nodes_[static_cast<size_t>(rank)];
    if (apply.operation == Apply::Operation::begin) return;
    if (apply.operation == Apply::Operation::finish) return finish(rank, node, apply.contributions);
    const Vec part = node.vector.vec().part(apply.offset, apply.count);
    const ConstVec received = apply.received.vec().part(0, apply.count);
    if (apply.operation == Apply::Operation::add) {
      axpy({}, 1, received, part);
    } else {
      scale({}, 1, received, part);
    }
  }

  void finish(int rank, Node& node, int contributions) {
    wrong_ += contributions != settings_.ranks;
    for (size_t k = 0; k < settings_.size; ++k) {
      double sum = 0;
      for (int other = 0; other < settings_.ranks; ++other)
        sum += value(other, node.round, k);
      wrong_ += node.vector.vec().as<double>()[k] != sum;
    }
    ++node.round;
    if (node.round < rounds_) begin(rank);
  }

  RingSettings settings_;
  Random random_;
  SimulatedTransport transport_;
  std::vector<std::unique_ptr<Node>> nodes_;
  test::EventQueue queue_;
  uint64_t rounds_ = 0, wrong_ = 0, chunks_ = 0, refused_ = 0;
};

LinkFault fault(LinkFaultKind kind, double probability) {
  LinkFault f;
  f.kind = kind;
  f.probability = probability;
  return f;
}

}  // namespace

TEST_CASE("an all-reduce sums exactly for 1 to 9 ranks, in 2 (n-1) parts per rank and round") {
  for (int ranks = 1; ranks <= 9; ++ranks) {
    for (const size_t size : {1, 2, 7, 10, 64, 101}) {
      INFO(ranks << " ranks, " << size << " numbers");
      RingSettings settings;
      settings.ranks = ranks;
      settings.size = size;
      settings.patience_s = 100;  // nothing is asked for twice
      Ring ring(settings);
      REQUIRE(ring.run(3));
      CHECK(ring.wrong_sums() == 0u);
      CHECK(ring.protocol_errors() == 0u);
      CHECK(ring.chunks_sent() == 3u * static_cast<uint64_t>(ranks * 2 * (ranks - 1)));
    }
  }
}

TEST_CASE("lost, repeated and overtaking parts, and ranks that are late, do not change the sum") {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    RingSettings settings;
    settings.ranks = 2 + static_cast<int>(seed % 8);
    settings.size = 1 + seed % 23;
    settings.seed = seed;
    settings.late_s = seed % 3 == 0 ? 5 : 0;
    settings.faults = {fault(LinkFaultKind::loss, 0.3), fault(LinkFaultKind::repeat, 0.3)};
    if (seed % 2 == 0) {
      LinkFault cut = fault(LinkFaultKind::cut, 1);
      cut.links = {{0, 1}};
      cut.at = 0.1;
      cut.until = 3;
      settings.faults.push_back(cut);
    }
    INFO(settings.ranks << " ranks, " << settings.size << " numbers, seed " << seed);
    Ring ring(settings);
    REQUIRE(ring.run(10));
    CHECK(ring.wrong_sums() == 0u);
    CHECK(ring.protocol_errors() == 0u);
  }
}

TEST_CASE("a part for which no buffer is left is taken later, and the sum is the same") {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    RingSettings settings;
    settings.ranks = 2 + static_cast<int>(seed % 8);
    settings.size = 1 + seed % 23;
    settings.seed = seed;
    settings.late_s = seed % 3 == 0 ? 5 : 0;
    settings.empty = 0.5;
    if (seed % 2 == 0) settings.faults = {fault(LinkFaultKind::loss, 0.3)};
    INFO(settings.ranks << " ranks, " << settings.size << " numbers, seed " << seed);
    Ring ring(settings);
    REQUIRE(ring.run(10));
    CHECK(ring.wrong_sums() == 0u);
    CHECK(ring.protocol_errors() == 0u);
  }
}

TEST_CASE("of a rank little more parts are out than there are ranks, and a lost one comes again") {
  for (int ranks = 2; ranks <= 9; ++ranks) {
    for (const bool loses : {false, true}) {
      INFO(ranks << " ranks, parts are lost: " << loses);
      RingSettings settings;
      settings.ranks = ranks;
      settings.size = 20;
      settings.late_s = 5;
      settings.buffers = static_cast<size_t>(ranks) + 3;
      if (loses) settings.faults = {fault(LinkFaultKind::loss, 0.3)};
      Ring ring(settings);
      REQUIRE(ring.run(20));
      CHECK(ring.wrong_sums() == 0u);
      if (!loses) CHECK(ring.refused() == 0u);
    }
  }
}

TEST_CASE("one pool of parts serves all rings from half of the ranks on") {
  for (const size_t all : {1, 2, 3, 5, 6, 16, 63, 64}) {
    for (size_t ring = 1; ring <= 5 * all; ++ring) {
      for (const size_t here : {size_t{1}, (all + 2) / 3, all}) {
        INFO(ring << " of " << all << " ranks, " << here << " here");
        const RingParts parts = RingParts::of(1000, ring, all, here);
        CHECK(parts.most >= ring);
        if (ring > 1) CHECK((parts.most + 1) / 2 <= ring);
        for (size_t r = (parts.most + 1) / 2 + 1; r <= parts.most; ++r)
          CHECK(RingParts::of(1000, r, all, here).most == parts.most);
        CHECK(parts.size * ring >= 1000);
        CHECK(parts.count >= std::min(here, ring) * (ring + 1));
      }
    }
  }
}

namespace {

/// Rank 1 of three that sum nine numbers has its first view.
void begin_in_the_middle(Collective& middle, Effects& out) {
  View view;
  view.epoch = 1;
  for (int rank = 0; rank < 3; ++rank)
    view.ring.push_back({rank, 0, 0, 0});
  middle.view(0, view, out);
}

FrameHeader chunk_for_the_middle() {
  FrameHeader h;
  h.kind = FrameKind::chunk;
  h.epoch = 1;
  h.from = 0;
  h.to = 1;
  h.dtype = DType::f64;
  h.count = 3;
  return h;
}

}  // namespace

TEST_CASE("of rounds to come the next one is kept, and no more than that") {
  Collective middle({1, 9, DType::f64, 1, 0.5});
  Effects out;
  begin_in_the_middle(middle, out);
  SnapshotPool pool(3, DType::f64, 1000);
  for (uint64_t round = 0; round < 200; ++round) {
    for (uint32_t part = 0; part < 4; ++part) {
      FrameHeader h = chunk_for_the_middle();
      h.number = round;
      h.part = part;
      middle.frame(0, h, payload_of(h, pool.take()), out);
    }
  }
  CHECK(pool.in_use() == 8);
  CHECK(middle.counts().lost == 4 * 198u);
  CHECK(middle.counts().protocol_errors == 0u);
}

TEST_CASE("a part of another size, place or sender is a counted error") {
  Collective middle({1, 9, DType::f64, 1, 0.5});
  Effects out;
  begin_in_the_middle(middle, out);
  const FrameHeader good = chunk_for_the_middle();
  SnapshotPool pool(9, DType::f64, 2);
  const auto hear = [&](auto&& spoil) {
    FrameHeader h = good;
    spoil(h);
    middle.frame(0, h, payload_of(h, pool.take()), out);
    return middle.counts().protocol_errors;
  };
  CHECK(hear([](FrameHeader& h) { h.count = 4; }) == 1u);
  CHECK(hear([](FrameHeader& h) { h.part = 4; }) == 2u);
  CHECK(hear([](FrameHeader& h) { h.from = 2; }) == 3u);
  CHECK(hear([](FrameHeader& h) { h.dtype = DType::f32; }) == 4u);
  CHECK(hear([](FrameHeader& h) { h.kind = FrameKind::offer; }) == 5u);
  const auto hear_before_a_view = [](FrameHeader h, Payload payload) {
    Collective early({1, 9, DType::f64, 1, 0.5});
    Effects nothing;
    h.epoch = 0;
    early.frame(0, h, payload, nothing);
    return early.counts().protocol_errors;
  };
  FrameHeader negative = good;
  negative.part = 1u << 31;
  CHECK(hear_before_a_view(negative, payload_of(negative, pool.take())) == 1u);
  middle.frame(0, good, {}, out);  // it says three numbers and brings none
  CHECK(middle.counts().protocol_errors == 6u);
  FrameHeader asks = good;
  asks.kind = FrameKind::ask;  // of its left neighbour
  middle.frame(0, asks, {}, out);
  CHECK(middle.counts().protocol_errors == 7u);
  CHECK(hear([](FrameHeader&) {}) == 7u);
  CHECK(out.requests.empty());  // its own gradient is not in yet
}

TEST_CASE("a gradient that is there before the first view begins its round with the view") {
  CollectiveOptions options;
  options.size = 10;
  Collective conversation(options);
  Effects early, begun;
  conversation.step_ready(0, {}, early);
  CHECK(early.requests.empty());
  CHECK(early.sends.empty());
  CHECK(conversation.counts().opened == 0);
  View view;
  view.epoch = 1;
  view.ring = {{0, 0, 0, 0}, {1, 0, 0, 0}};
  conversation.view(1, view, begun);
  CHECK(conversation.counts().opened == 1);
  CHECK(begun.requests.size() == 2);  // what is combined, and its first chunk
}
