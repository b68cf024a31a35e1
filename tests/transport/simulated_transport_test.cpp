// Links: what a frame meets on its way, and that a run is a function of its seed.
#include <algorithm>
#include <cmath>

#include "actors/transport/simulated.hpp"
#include "kernels/memory/snapshot_pool.hpp"
#include "tests/catch.hpp"

using namespace grapevine;

namespace {

struct Arrival {
  double delay;
  int to;
  Frame frame;
};

FrameHeader header(FrameKind kind, int from, int to, uint64_t count = 0) {
  FrameHeader h;
  h.kind = kind;
  h.from = static_cast<uint32_t>(from);
  h.to = static_cast<uint32_t>(to);
  h.dtype = DType::f64;
  h.count = count;
  return h;
}

/// 4 ranks, and everything that has arrived.
class Links {
 public:
  Links(const LinkModel& model, std::vector<LinkFault> faults = {}, uint64_t seed = 1)
      : transport_(model, std::move(faults), seed, 4, [this](double at, int to, Frame frame) {
          arrivals_.push_back({at - now_, to, std::move(frame)});
        }) {}

  /// Returns the number of copies that arrive.
  size_t send(double now, const FrameHeader& h, const Lease& payload = {}) {
    now_ = now;
    const size_t before = arrivals_.size();
    transport_.send(now, h, payload);
    return arrivals_.size() - before;
  }
  bool passes(double now, FrameKind kind, int from, int to, uint64_t count = 0) {
    return send(now, header(kind, from, to, count)) == 1;
  }

  const std::vector<Arrival>& arrivals() const { return arrivals_; }
  uint64_t hash() const { return transport_.event_log_hash(); }
  uint64_t lost() const { return transport_.lost(); }
  uint64_t corrupt() const { return transport_.corrupt(); }

 private:
  SimulatedTransport transport_;
  std::vector<Arrival> arrivals_;
  double now_ = 0;
};

LinkFault fault(LinkFaultKind kind, double at, double until) {
  LinkFault f;
  f.kind = kind;
  f.at = at;
  f.until = until;
  return f;
}

std::pair<double, double> range_of(const std::vector<Arrival>& arrivals) {
  const auto [low, high] = std::minmax_element(arrivals.begin(), arrivals.end(),
                                               [](auto& a, auto& b) { return a.delay < b.delay; });
  return {low->delay, high->delay};
}

/// Each frame leaves when the one before has arrived.
uint64_t hash_of_run(uint64_t seed, double value, double start) {
  Links links({0.02, 0.5, 0.1, 1e6}, {}, seed);
  SnapshotPool pool(3, DType::f64, 1);
  Lease payload = pool.take();
  for (size_t k = 0; k < 3; ++k)
    payload.writable().as<double>()[k] = k == 2 ? value : 1;
  double now = start;
  for (int k = 0; k < 100; ++k) {
    links.send(now, header(FrameKind::data, k % 4, (k + 1) % 4, 3), payload);
    now += links.arrivals().back().delay;
  }
  return links.hash();
}

}  // namespace

TEST_CASE("a control frame takes latency (1 +- jitter), a bulk frame transfer and bytes more") {
  Links control({0.02, 0.5, 0.1, 1e6}), bulk({0.02, 0.5, 0.1, 1e6});
  SnapshotPool pool(1000, DType::f64, 1);
  const Lease payload = pool.take();
  for (int k = 0; k < 2000; ++k) {
    control.send(k, header(FrameKind::offer, 0, 1));
    bulk.send(k, header(FrameKind::data, 0, 1, 1000), payload);
  }
  const auto [least, most] = range_of(control.arrivals());
  CHECK(least >= 0.01);
  CHECK(least < 0.0102);
  CHECK(most < 0.03);
  CHECK(most > 0.0298);
  const double transfer = 0.1 + (8000 + kHeaderBytes) / 1e6;
  const auto [least_bulk, most_bulk] = range_of(bulk.arrivals());
  CHECK(least_bulk >= 0.01 + 0.9 * transfer);
  CHECK(most_bulk < 0.03 + 1.1 * transfer);
  CHECK(most_bulk - least_bulk > 0.02);  // frames overtake each other
}

TEST_CASE("links without latency deliver at once, and what arrives passes the codec") {
  Links links({});
  SnapshotPool pool(2, DType::f64, 1);
  Lease payload = pool.take();
  payload.writable().as<double>()[1] = 7;
  FrameHeader h = header(FrameKind::data, 2, 3, 2);
  h.number = 12;
  h.alpha_tilde = 1.25;
  REQUIRE(links.send(5, h, payload) == 1u);
  const Arrival& a = links.arrivals()[0];
  CHECK(a.delay == 0);
  CHECK(a.to == 3);
  CHECK(a.frame.header == h);
  CHECK(a.frame.payload.vec().data == payload.vec().data);  // passed, not copied
}

TEST_CASE("loss takes the stated share, of the stated frames, and only while it lasts") {
  LinkFault loss = fault(LinkFaultKind::loss, 10, 20);
  loss.probability = 0.3;
  loss.frames = FrameClass::control;
  Links links({0.01, 0, 0, 0}, {loss});
  int control = 0, bulk = 0, before = 0;
  for (int k = 0; k < 4000; ++k) {
    control += links.passes(10 + k / 400.5, FrameKind::ack, 0, 1);
    bulk += links.passes(15, FrameKind::data, 0, 1, 2);
    before += links.passes(k % 2 == 0 ? 9.99 : 20, FrameKind::ack, 0, 1);
  }
  CHECK(control == Approx(2800).margin(5 * std::sqrt(4000 * 0.3 * 0.7)));
  CHECK(bulk == 4000);
  CHECK(before == 4000);
  CHECK(links.lost() == 4000u - static_cast<uint64_t>(control));
}

TEST_CASE("a cut stops both directions of its links, one_way only the stated one") {
  LinkFault cut = fault(LinkFaultKind::cut, 1, 2), one_way = fault(LinkFaultKind::one_way, 3, 4);
  cut.links = one_way.links = {{0, 1}};
  LinkFault island = fault(LinkFaultKind::cut, 5, 6);
  island.ranks = {2};
  Links links({}, {cut, one_way, island});
  for (const double now : {0.5, 2.0, 4.5, 7.0}) {
    CHECK(links.passes(now, FrameKind::offer, 0, 1));
    CHECK(links.passes(now, FrameKind::offer, 1, 0));
  }
  CHECK_FALSE(links.passes(1.5, FrameKind::offer, 0, 1));
  CHECK_FALSE(links.passes(1.5, FrameKind::offer, 1, 0));
  CHECK(links.passes(1.5, FrameKind::offer, 0, 2));
  CHECK_FALSE(links.passes(3.5, FrameKind::offer, 0, 1));
  CHECK(links.passes(3.5, FrameKind::offer, 1, 0));
  CHECK_FALSE(links.passes(5.5, FrameKind::offer, 3, 2));
  CHECK_FALSE(links.passes(5.5, FrameKind::offer, 2, 0));
  CHECK(links.passes(5.5, FrameKind::offer, 0, 1));
}

TEST_CASE("repeat delivers a second copy, and delay stretches and adds") {
  LinkFault repeat = fault(LinkFaultKind::repeat, 0, 1);
  LinkFault delay = fault(LinkFaultKind::delay, 2, 3);
  delay.factor = 10;
  delay.seconds = 4;
  Links links({0.02, 0, 0, 0}, {repeat, delay});
  CHECK(links.send(0, header(FrameKind::offer, 0, 1)) == 2u);
  CHECK(links.send(1, header(FrameKind::offer, 0, 1)) == 1u);
  CHECK(links.arrivals().back().delay == Approx(0.02));
  links.send(2, header(FrameKind::offer, 0, 1));
  CHECK(links.arrivals().back().delay == Approx(4.2));
}

TEST_CASE("a corrupted frame is dropped and counted apart from lost ones") {
  LinkFault corrupt = fault(LinkFaultKind::corrupt, 0, 1);
  corrupt.probability = 0.25;
  corrupt.frames = FrameClass::bulk;
  Links links({}, {corrupt});
  int came = 0;
  for (int k = 0; k < 4000; ++k) {
    came += links.passes(0.5, FrameKind::data, 0, 1, 2);
    CHECK(links.passes(0.5, FrameKind::ack, 0, 1));
    CHECK(links.passes(1.5, FrameKind::data, 0, 1, 2));
  }
  CHECK(came == Approx(3000).margin(5 * std::sqrt(4000 * 0.25 * 0.75)));
  CHECK(links.corrupt() == 4000u - static_cast<uint64_t>(came));
  CHECK(links.lost() == 0u);
}

TEST_CASE("on a link of limited bandwidth frames leave one after the other, each way of its own") {
  LinkFault narrow = fault(LinkFaultKind::bandwidth, 0, 10), narrower = narrow;
  narrow.bytes_per_second = 1e6;
  narrower.bytes_per_second = 1000;
  narrower.links = {{0, 1}};
  Links links({}, {narrow, narrower});
  const auto delay = [&](double now, int from, int to) {
    REQUIRE(links.send(now, header(FrameKind::offer, from, to)) == 1u);
    return links.arrivals().back().delay;
  };
  constexpr double kHeader_s = kHeaderBytes / 1000.0;
  CHECK(delay(1, 0, 1) == Approx(kHeader_s));
  CHECK(delay(1, 0, 1) == Approx(2 * kHeader_s));
  CHECK(delay(1.1, 0, 1) == Approx(3 * kHeader_s - 0.1));
  CHECK(delay(1.1, 1, 0) == Approx(kHeader_s));
  CHECK(delay(1.1, 2, 1) == Approx(kHeaderBytes / 1e6));
  CHECK(delay(3, 0, 1) == Approx(kHeader_s));  // the others have left
  CHECK(delay(11, 0, 1) == 0);
}

TEST_CASE("equal runs have one hash; another seed, value or time has another") {
  const uint64_t hash = hash_of_run(1, 2, 0);
  CHECK(hash_of_run(1, 2, 0) == hash);
  CHECK(hash_of_run(2, 2, 0) != hash);
  CHECK(hash_of_run(1, std::nextafter(2, 3), 0) != hash);
  CHECK(hash_of_run(1, 2, 1e-9) != hash);
}

TEST_CASE("the draws of one sender do not depend on what others send") {
  Links alone({0.02, 0.5, 0, 0}), together({0.02, 0.5, 0, 0});
  for (int k = 0; k < 50; ++k) {
    alone.send(k, header(FrameKind::offer, 1, 2));
    together.send(k, header(FrameKind::offer, 0, 2));
    together.send(k, header(FrameKind::offer, 1, 2));
    CHECK(together.arrivals().back().delay == alone.arrivals().back().delay);
  }
}

TEST_CASE("inside a process a frame is in the receiver's hands when send returns") {
  std::vector<int> receivers;
  LocalTransport transport([&](int to, Frame frame) {
    receivers.push_back(to);
    CHECK(frame.header == header(FrameKind::ack, 1, 3));
  });
  CHECK(transport.send(0, header(FrameKind::ack, 1, 3), {}) == kHeaderBytes);
  CHECK(receivers == std::vector<int>{3});
}
