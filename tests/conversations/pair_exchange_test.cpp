// One end of an edge alone, event by event.
#include "actors/conversations/pair_exchange.hpp"
#include "kernels/memory/snapshot_pool.hpp"
#include "tests/catch.hpp"

using namespace grapevine;

namespace {

constexpr int kTimer = 1;

/// An end of rank 0 towards rank 1, in exchange 1, whose snapshot has left.
struct End {
  explicit End(double round_trip_s = 1e-3, double duration_s = 1e-2)
      : exchange(1, 0, 0, round_trip_s, duration_s) {
    own.least_timeout_s = 1e-6;
    open();
  }

  void open() {
    event([&](const Moment& m) { exchange.open(m, 1, false, 0); });
    event([&](const Moment& m) { exchange.taken(m, snapshot(), Limits{}, kTimer); });
  }

  /// Nothing has come until the timer rings.
  void repeat(double cap_s) {
    now = rings_at;
    event([&](const Moment& m) { exchange.repeat(m, kTimer, cap_s); });
  }

  template <class Event>
  void event(Event&& call) {
    Effects out;
    call(Moment{now, own, counts, out});
    for (const Arm& a : out.arms)
      rings_at = a.at;
    requests = out.requests.size();
    kinds.clear();
    for (const Send& s : out.sends)
      kinds.push_back(s.header.kind);
  }

  PairExchange::Next hear(FrameKind kind, uint64_t number) {
    auto next = PairExchange::Next::nothing;
    const Payload payload = kind == FrameKind::data ? snapshot() : Payload{};
    event([&](const Moment& m) {
      next = exchange.hear(m, header_of(kind, {1, 0}, {0, 0}, 1, number, payload), payload, kTimer);
    });
    return next;
  }

  Payload snapshot() {
    Payload payload{pool.take()};
    payload.writable(DType::f64, 2);
    return payload;
  }

  SnapshotPool pool{2, DType::f64, 8};
  PairRank own;
  Counts counts;
  PairExchange exchange;
  double now = 1, rings_at = kNever;
  std::vector<FrameKind> kinds;  // that the last event sent
  size_t requests = 0;
};

}  // namespace

TEST_CASE("an end leaves an exchange when it has applied it and knows that the peer has") {
  using Next = PairExchange::Next;
  End acked_first, data_first;
  CHECK(acked_first.hear(FrameKind::ack, 1) == Next::nothing);
  CHECK(acked_first.hear(FrameKind::data, 1) == Next::finished);
  CHECK(data_first.hear(FrameKind::data, 1) == Next::applied);
  CHECK(data_first.hear(FrameKind::ack, 1) == Next::finished);
  for (End* end : {&acked_first, &data_first}) {
    CHECK(end->exchange.done() == 1u);
    CHECK(end->counts.applied == 1u);
    CHECK(end->hear(FrameKind::data, 1) == Next::nothing);  // once more, and late
    CHECK(end->kinds == std::vector{FrameKind::ack});
    CHECK(end->counts.applied == 1u);
  }
}

TEST_CASE("a frame of the next number acknowledges what was applied, and nothing else") {
  using Next = PairExchange::Next;
  End applied, forged;
  applied.hear(FrameKind::data, 1);
  CHECK(applied.hear(FrameKind::offer, 2) == Next::finished);
  CHECK(applied.hear(FrameKind::offer, 2) == Next::answer);
  CHECK(forged.hear(FrameKind::offer, 2) == Next::nothing);  // its data have never come
  CHECK(forged.counts.protocol_errors == 1u);
  CHECK(forged.exchange.is_open());
  CHECK(forged.exchange.done() == 0u);
}

TEST_CASE("an answer to an offer of an earlier life acknowledges nothing, and is no error") {
  using Next = PairExchange::Next;
  End open, applied;  // the peer has taken this end for dead at numbers that it has lost since
  applied.hear(FrameKind::data, 1);
  for (End* end : {&open, &applied}) {
    for (int k = 0; k < 20; ++k)
      for (const uint64_t number : {2u, 3u, 17u})
        CHECK(end->hear(FrameKind::decline, number) == Next::nothing);
    CHECK(end->counts.protocol_errors == 0u);
    CHECK(end->counts.renewed == 0u);
    CHECK(end->exchange.is_open());
    CHECK(end->exchange.done() == 0u);
  }
  CHECK(applied.hear(FrameKind::ack, 1) == Next::finished);
}

TEST_CASE("an exchange that ends with its peer is dropped, or its half is named as missing") {
  End before, after;
  after.hear(FrameKind::data, 1);
  before.event([&](const Moment& m) { before.exchange.abandon(m); });
  after.event([&](const Moment& m) { after.exchange.abandon(m); });
  CHECK(before.counts.broken_before == 1u);
  CHECK(before.requests == 0u);
  CHECK(after.counts.broken_after == 1u);
  CHECK(after.requests == 1u);
}

TEST_CASE("waiting for what was lost does not teach an end to wait longer") {
  End end;
  end.own.most_timeout_s = 1;
  const double first_s = end.rings_at - end.now;
  for (uint64_t number = 1; number <= 20; ++number) {
    end.repeat(10);
    end.hear(FrameKind::data, number);
    CHECK(end.hear(FrameKind::ack, number) == PairExchange::Next::finished);
    end.open();
    CHECK(end.rings_at - end.now <= first_s);
  }
}

TEST_CASE("where answers take no time, what nobody answers is said again ever more seldom") {
  End end(0, 0);
  int repeats = 0;
  for (; end.rings_at < 11 && repeats < 1000; ++repeats)
    end.repeat(1);
  CHECK(repeats >= 10);  // one a second at least
  CHECK(repeats <= 40);
}
