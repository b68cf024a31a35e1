// What a plan does to frames between real nodes: at the half of a link that LinkTransport is.
#include <cmath>

#include "actors/transport/link_transport.hpp"
#include "tests/catch.hpp"

using namespace grapevine;

namespace {

/// Links that keep what they are given.
class KeptLinks final : public Links {
 public:
  uint64_t id() const override { return 1; }
  const std::string& address() const override { return address_; }
  void dial(const std::string&) override {}
  bool send(const std::string&, const ControlMessage&) override { return true; }
  bool send_frame(const std::string&, const FrameHeader&, const Payload&) override {
    return ++sent, true;
  }
  void reply(uint64_t, const ConsoleReply&) override {}
  void close(const std::string&) override {}
  LinkCounts counts(const std::string&) const override { return {}; }
  int sent = 0;

 private:
  std::string address_;
};

/// A node with the ranks 0 and 1; ranks 2 and 3 are at the node "other".
struct Half {
  explicit Half(std::vector<LinkFault> faults)
      : transport([this](int, Frame) { held_s.push_back(0); },
                  [this](double at, int, Frame) { held_s.push_back(at - now); }, 1) {
    transport.use(&links);
    transport.place({{0, ""}, {1, ""}, {2, "other"}, {3, "other"}});
    transport.set_faults(std::move(faults));
  }
  void receive(const FrameHeader& h) { transport.receive(now, "other", {h, {}}); }

  double now = 1;
  std::vector<double> held_s;  // what was delivered here, and how late
  KeptLinks links;
  LinkTransport transport;
};

FrameHeader header(uint32_t from, uint32_t to, uint64_t count = 0) {
  FrameHeader h;
  h.kind = count > 0 ? FrameKind::data : FrameKind::ack;
  h.from = from;
  h.to = to;
  h.count = count;
  return h;
}

LinkFault fault(LinkFaultKind kind) {
  LinkFault f;
  f.kind = kind;
  return f;
}

}  // namespace

TEST_CASE("what arrives over a link of limited bandwidth is held until it would have come") {
  LinkFault narrow = fault(LinkFaultKind::bandwidth);
  narrow.bytes_per_second = 1000;
  Half half({narrow});
  for (int k = 0; k < 3; ++k)
    half.receive(header(2, 0));
  half.receive(header(2, 1));
  half.transport.send(half.now, header(0, 1), {});  // ranks of one process have a link, too
  REQUIRE(half.held_s.size() == 5);
  for (size_t k = 0; k < 3; ++k)
    CHECK(half.held_s[k] == Approx(0.08 * static_cast<double>(k + 1)));
  CHECK(half.held_s[3] == Approx(0.08));
  CHECK(half.held_s[4] == Approx(0.08));
  half.transport.send(half.now, header(0, 2), {});  // the other end holds it
  CHECK(half.links.sent == 1);
}

TEST_CASE("a payload to another node is spoiled on its way, all else is dropped here") {
  LinkFault corrupt = fault(LinkFaultKind::corrupt);
  corrupt.probability = 0.3;
  Half half({corrupt});
  int spoiled = 0;
  for (int k = 0; k < 4000; ++k) {
    const auto bit = half.transport.spoils(half.now, header(0, 2, 10));
    spoiled += bit.has_value();
    if (bit) REQUIRE(*bit < 320);
    CHECK_FALSE(half.transport.spoils(half.now, header(0, 2)));
    half.transport.send(half.now, header(0, 2), {});
  }
  const double deviation = std::sqrt(4000 * 0.3 * 0.7);
  CHECK(spoiled == Approx(1200).margin(5 * deviation));
  CHECK(half.links.sent == Approx(2800).margin(5 * deviation));
  CHECK(half.transport.counts().corrupt == 4000u - static_cast<uint64_t>(half.links.sent));
  CHECK(half.transport.counts().lost == 0);
}

TEST_CASE("repeat sends a frame twice, delay holds it, a cut drops it") {
  LinkFault repeat = fault(LinkFaultKind::repeat), delay = fault(LinkFaultKind::delay);
  LinkFault cut = fault(LinkFaultKind::cut);
  delay.seconds = 0.5;
  delay.links = {{0, 2}};
  cut.links = {{1, 3}};
  Half half({repeat, delay, cut});
  half.transport.send(half.now, header(0, 2), {});
  CHECK(half.links.sent == 2);
  half.transport.send(half.now, header(1, 3), {});
  CHECK(half.links.sent == 2);
  CHECK(half.transport.counts().lost == 1);
  half.receive(header(2, 0));
  half.receive(header(2, 1));
  CHECK(half.held_s == std::vector<double>{0.5, 0});
}
