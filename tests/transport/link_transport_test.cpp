// The faults of a plan on frames between real nodes, in LinkTransport, one half of a link.
#include <cmath>
#include <utility>

#include "actors/transport/link_transport.hpp"
#include "kernels/memory/snapshot_pool.hpp"
#include "tests/catch.hpp"

using namespace grapevine;

namespace {

/// Links that keep what they are given, and hand it to the transport at the other end.
class KeptLinks final : public Links {
 public:
  const PublicKey& key() const override { return own_key; }
  void know(const std::string&, uint64_t) override {}
  const std::string& address() const override { return name; }
  void dial(const std::string&) override {}
  bool send(const std::string&, const ControlMessage&) override { return true; }
  bool send_frame(const std::string&, const FrameHeader& h, const Payload& payload,
                  std::optional<uint64_t> bit) override {
    ++sent;
    if (bit) {
      spoiled_bits.push_back(*bit);
    } else if (there != nullptr) {
      there->receive(name, {h, payload.lease});
    }
    return true;
  }
  bool send_parcel(const std::string&, const Parcel&, const Payload&) override { return true; }
  std::shared_ptr<MemoryLine> lend(const std::string&, const LentMemory&, LineEvents) override {
    return nullptr;
  }
  void reply(uint64_t, const ConsoleReply&) override {}
  void close(const std::string&) override {}
  LinkCounts counts(const std::string&) const override { return {}; }
  LinkCounts totals() const override { return {}; }
  LinkRefusals refusals() const override { return {}; }

  PublicKey own_key = {1};
  std::string name;  // of the node here
  LinkTransport* there = nullptr;
  int sent = 0;
  std::vector<uint64_t> spoiled_bits;
};

/// The node "even" has the ranks 0 and 2, "odd" has 1 and 3.
struct Half {
  Half(bool even, std::vector<LinkFault> faults, uint64_t seed = 1)
      : transport([this](int, Frame frame) { came.push_back(frame.header); },
                  [this](double at, LinkTransport::Held held) {
                    held_s.push_back(at - now);
                    waiting.push_back(std::move(held));
                  },
                  seed) {
    links.name = even ? "even" : "odd";
    transport.use(&links);
    const std::string here, other = even ? "odd" : "even";
    transport.place({{0, even ? here : other},
                     {1, even ? other : here},
                     {2, even ? here : other},
                     {3, even ? other : here}});
    transport.set_faults(std::move(faults));
  }
  void pass_on_what_was_held() {
    for (LinkTransport::Held& held : std::exchange(waiting, {}))
      transport.pass_on(std::move(held));
  }

  double now = 1;
  std::vector<FrameHeader> came;  // in mailboxes here
  std::vector<double> held_s;     // how long what left here was held
  std::vector<LinkTransport::Held> waiting;
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

TEST_CASE("a frame is held once, by the node that sends it, as long as the plan says") {
  LinkFault delay = fault(LinkFaultKind::delay);
  delay.seconds = 0.5;
  Half even(true, {delay}), odd(false, {delay});
  even.links.there = &odd.transport;
  even.transport.send(even.now, header(0, 1), {});
  CHECK(even.held_s == std::vector<double>{0.5});
  CHECK(odd.came.empty());
  even.pass_on_what_was_held();
  CHECK(odd.came == std::vector<FrameHeader>{header(0, 1)});  // not held again
  CHECK(odd.held_s.empty());
  even.transport.send(even.now, header(0, 2), {});  // ranks of one process have a link, too
  CHECK(even.came.empty());
  even.pass_on_what_was_held();
  CHECK(even.came.size() == 1);
}

TEST_CASE("what leaves by a link of limited bandwidth is held until what was before it has left") {
  LinkFault narrow = fault(LinkFaultKind::bandwidth);
  narrow.bytes_per_second = 1000;
  Half even(true, {narrow});
  for (int k = 0; k < 3; ++k)
    even.transport.send(even.now, header(0, 1), {});
  even.transport.send(even.now, header(0, 3), {});
  even.transport.send(even.now, header(0, 2), {});
  REQUIRE(even.held_s.size() == 5);
  constexpr double kHeader_s = kHeaderBytes / 1000.0;
  for (size_t k = 0; k < 3; ++k)
    CHECK(even.held_s[k] == Approx(kHeader_s * static_cast<double>(k + 1)));
  CHECK(even.held_s[3] == Approx(kHeader_s));
  CHECK(even.held_s[4] == Approx(kHeader_s));
}

TEST_CASE(
    "of frames to another node the stated shares are lost, spoiled and held, each drawn once") {
  LinkFault loss = fault(LinkFaultKind::loss), corrupt = fault(LinkFaultKind::corrupt);
  LinkFault delay = fault(LinkFaultKind::delay);
  loss.probability = 0.3;
  corrupt.probability = 0.2;
  corrupt.frames = FrameClass::bulk;
  delay.seconds = 2;
  delay.links = {{2, 3}};
  const std::vector<LinkFault> plan{loss, corrupt, delay};
  Half even(true, plan, 1), odd(false, plan, 2);  // all nodes of a run have the plan
  even.links.there = &odd.transport;
  SnapshotPool pool(10, DType::f32, 1);
  const Lease payload = pool.take();
  constexpr int kFrames = 4000;
  for (int k = 0; k < kFrames; ++k) {
    even.transport.send(even.now, header(0, 1, 10), payload);
    even.transport.send(even.now, header(2, 3), {});
  }
  const auto margin = [](double share) { return 5 * std::sqrt(kFrames * share * (1 - share)); };
  CHECK(odd.came.size() == Approx(kFrames * 0.7 * 0.8).margin(margin(0.56)));
  CHECK(even.links.spoiled_bits.size() == Approx(kFrames * 0.7 * 0.2).margin(margin(0.14)));
  CHECK(even.waiting.size() == Approx(kFrames * 0.7).margin(margin(0.7)));
  CHECK(even.transport.counts().lost ==
        2u * kFrames - even.waiting.size() - static_cast<size_t>(even.links.sent));
  CHECK(odd.transport.counts().lost == 0);
  for (const uint64_t bit : even.links.spoiled_bits)
    REQUIRE(bit < 320);
  const size_t held = even.waiting.size();
  even.pass_on_what_was_held();
  CHECK(even.held_s == std::vector<double>(held, 2));
}

TEST_CASE("a payload to another node is spoiled on its way, all else is dropped here") {
  LinkFault corrupt = fault(LinkFaultKind::corrupt);
  Half even(true, {corrupt});
  SnapshotPool pool(10, DType::f32, 1);
  const Lease payload = pool.take();
  even.transport.send(even.now, header(0, 1, 10), payload);
  CHECK(even.links.spoiled_bits.size() == 1);
  even.transport.send(even.now, header(0, 1), {});
  even.transport.send(even.now, header(0, 2, 10), payload);
  CHECK(even.links.sent == 1);
  CHECK(even.came.empty());
  CHECK(even.transport.counts().corrupt == 2);
  CHECK(even.transport.counts().lost == 0);
}

TEST_CASE("repeat sends a frame twice, a cut drops it") {
  LinkFault repeat = fault(LinkFaultKind::repeat), cut = fault(LinkFaultKind::cut);
  cut.links = {{0, 3}};
  Half even(true, {repeat, cut});
  even.transport.send(even.now, header(0, 1), {});
  CHECK(even.links.sent == 2);
  even.transport.send(even.now, header(0, 3), {});
  CHECK(even.links.sent == 2);
  CHECK(even.transport.counts().lost == 1);
}

TEST_CASE("what arrives for another's rank, or in the name of one, is dropped and counted apart") {
  Half even(true, {});
  even.transport.receive("odd", {header(1, 0), {}});
  CHECK(even.came.size() == 1);
  even.transport.receive("odd", {header(2, 0), {}});   // a rank of this node's own
  even.transport.receive("eve", {header(1, 0), {}});   // a node that serves none
  even.transport.receive("odd", {header(77, 0), {}});  // nobody's
  CHECK(even.transport.counts().strangers == 3);
  even.transport.receive("odd", {header(1, 3), {}});
  even.transport.receive("odd", {header(1, 77), {}});
  CHECK(even.transport.counts().misdirected == 2);
  CHECK(even.came.size() == 1);
}
