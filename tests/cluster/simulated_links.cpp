#include "tests/cluster/simulated_links.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "kernels/memory/hash.hpp"
#include "messages/control_codec.hpp"

namespace grapevine::test {

struct Happening {
  std::function<void()> what;
};

}  // namespace grapevine::test

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(grapevine::test::Happening)

namespace grapevine::test {

namespace {

constexpr double kSilence_s = 3, kStall_s = 2;  // without an acknowledgement
constexpr double kRetransmit_s = 0.2;           // at most, once a path is open again
constexpr size_t kControlQueue = 1 << 14, kPayloadQueue = 64;

}  // namespace

uint64_t bytes_after(const std::variant<FrameHeader, Parcel>& header) {
  return std::visit([](const auto& one) { return payload_bytes(one); }, header);
}

/// The end of all links at one process.
class SimulatedLinks final : public Links {
 public:
  SimulatedLinks(SimulatedNetwork& network, int process)
      : network_(network), process_(process), address_(network.process(process).address) {}
  ~SimulatedLinks() override { network_.leave(process_); }

  const std::string& address() const override { return address_; }
  const PublicKey& key() const override { return network_.process(process_).options.self.key; }
  void know(const std::string& node, uint64_t id) override {
    network_.at(network_.now(), [n = &network_, p = process_, node, id] { n->know(p, node, id); });
  }
  void dial(const std::string& address) override { network_.dial(process_, address); }
  bool send(const std::string& node, const ControlMessage& m) override {
    return network_.send(process_, node, m);
  }
  bool send_frame(const std::string& node, const FrameHeader& header, const Payload& payload,
                  std::optional<uint64_t> spoiled_bit) override {
    if (header.count == 0) return send(node, header);
    if (spoiled_bit) return network_.spoil(process_, node);
    return network_.send_payload(process_, node, header, payload);
  }
  bool send_parcel(const std::string& node, const Parcel& parcel, const Payload& payload) override {
    return network_.send_payload(process_, node, parcel, payload);
  }
  std::shared_ptr<MemoryLine> lend(const std::string& node, const LentMemory& memory,
                                   LineEvents events) override {
    return network_.lend(process_, node, memory, std::move(events));
  }
  void reply(uint64_t console, const ConsoleReply& answer) override {
    network_.reply(process_, console, answer);
  }
  void close(const std::string& node) override {
    network_.at(network_.now(),
                [n = &network_, p = process_, node] { n->close(p, node, kClosedHere); });
  }
  LinkRefusals refusals() const override { return {}; }
  LinkCounts counts(const std::string& node) const override {
    const auto& standing = network_.process(process_).standing;
    const auto found = standing.find(node);
    if (found == standing.end()) return {};
    const auto& link = network_.link(found->second);
    return link.counts[SimulatedNetwork::side_of(link, process_)];
  }
  LinkCounts totals() const override { return network_.totals(process_); }

 private:
  SimulatedNetwork& network_;
  int process_;
  std::string address_;
};

SimulatedNetwork::SimulatedNetwork(caf::actor_system& world, NetworkModel model, uint64_t seed)
    : clock_(world),
      world_(world),
      model_(model),
      random_(seed, 1, Purpose::test),
      hash_(kHashStart) {
  calendar_ = world.spawn(
      [](caf::event_based_actor*, int) -> caf::behavior {
        return {[](Happening& happening) { std::exchange(happening.what, {})(); }};
      },
      0);
}

SimulatedNetwork::~SimulatedNetwork() {
  caf::anon_send_exit(calendar_, caf::exit_reason::user_shutdown);
}

void SimulatedNetwork::at(double seconds, std::function<void()> what) {
  world_.clock().schedule_message(
      clock_.instant(std::max(seconds, now())), caf::actor_cast<caf::strong_actor_ptr>(calendar_),
      caf::make_mailbox_element(nullptr, caf::make_message_id(), {}, Happening{std::move(what)}));
}

std::shared_ptr<Links> SimulatedNetwork::open(int host, const std::string& address,
                                              LinksOptions options, LinkEvents events) {
  auto made = std::make_unique<Process>();
  made->host = host;
  made->address = options.self.address = address;
  options.self.key = options.own_key->public_key();
  made->options = std::move(options);
  made->events = std::move(events);
  at_address_[address] = static_cast<int>(processes_.size());
  processes_.push_back(std::move(made));
  return std::make_shared<SimulatedLinks>(*this, static_cast<int>(processes_.size()) - 1);
}

bool SimulatedNetwork::blocked(int from, int to) {
  return cuts_.count({process(from).host, process(to).host}) > 0;
}

/// An event of a process: at once, or when it goes on.
void SimulatedNetwork::tell(int p, std::function<void()> what) {
  Process& to = process(p);
  if (!to.alive) return;
  if (to.stopped) return to.inbox.push_back(std::move(what));
  what();
}

void SimulatedNetwork::fold(double value, uint64_t word) {
  const std::pair<double, uint64_t> both{value, word};
  hash_ = fnv1a(std::as_bytes(std::span(&both.first, 1)), hash_);
  hash_ = fnv1a(std::as_bytes(std::span(&both.second, 1)), hash_);
}

// --- streams

bool SimulatedNetwork::send(int p, const std::string& node, const ControlMessage& m) {
  const auto found = process(p).standing.find(node);
  if (found == process(p).standing.end()) return false;
  auto bytes = encode_control(m);
  if (!bytes) check_detail::fail(__FILE__, __LINE__, "a valid message", bytes.error().message);
  Link& l = link(found->second);
  const int side = side_of(l, p);
  if (l.control[side].under_way >= kControlQueue) {
    ++l.counts[side].refused;
    return false;
  }
  ++l.counts[side].messages_sent;
  l.counts[side].message_bytes_sent += bytes->size();
  message_bytes_ += bytes->size();
  fold(now(), fnv1a(std::span<const std::byte>(*bytes)));
  push(found->second, side, {Item::Kind::control, std::move(*bytes), {}, {}, {}});
  return true;
}

bool SimulatedNetwork::send_payload(int p, const std::string& node,
                                    const std::variant<FrameHeader, Parcel>& header,
                                    const Payload& payload) {
  GV_CHECK(payload.lease.vec().bytes() >= bytes_after(header));
  const auto found = process(p).standing.find(node);
  if (found == process(p).standing.end()) return false;
  Link& l = link(found->second);
  const int side = side_of(l, p);
  if (l.payloads[side].under_way >= kPayloadQueue) {
    ++l.counts[side].refused;
    return false;
  }
  const bool parcel = std::holds_alternative<Parcel>(header);
  ++(parcel ? l.counts[side].parcels_sent : l.counts[side].frames_sent);
  (parcel ? l.counts[side].parcel_bytes_sent : l.counts[side].frame_bytes_sent) +=
      kHeaderBytes + bytes_after(header);
  fold(now(), fnv1a(payload.vec()));
  push(found->second, side, {Item::Kind::payload, {}, header, payload, {}});
  return true;
}

/// A payload whose sum does not hold at the other end: it is dropped there.
bool SimulatedNetwork::spoil(int p, const std::string& node) {
  const auto found = process(p).standing.find(node);
  if (found == process(p).standing.end()) return false;
  Link& l = link(found->second);
  ++l.counts[1 - side_of(l, p)].corrupt;
  return true;
}

SimulatedNetwork::Stream& SimulatedNetwork::stream(int id, int side, Item::Kind kind) {
  Link& l = link(id);
  return kind == Item::Kind::payload ? l.payloads[side] : l.control[side];
}

void SimulatedNetwork::push(int id, int side, Item item) {
  Link& l = link(id);
  Stream& s = stream(id, side, item.kind);
  const int from = l.ends[side], to = l.ends[1 - side];
  ++s.under_way;
  if ((blocked(from, to) || blocked(to, from)) && s.unacked_since == kNotWaiting) {
    s.unacked_since = now();
    const double patience_s = item.kind == Item::Kind::payload ? kStall_s : kSilence_s;
    at(now() + patience_s, [this, id, side, kind = item.kind, since = s.unacked_since] {
      watch(id, side, kind, since);
    });
  }
  if (blocked(from, to) || !s.held.empty()) return s.held.push_back(std::move(item));
  const double took_s = static_cast<double>(bytes_after(item.header)) / model_.bandwidth;
  dispatch(id, side, std::move(item), delay() + took_s);
}

/// Nothing was acknowledged since: payloads are lost, a control link ends.
void SimulatedNetwork::watch(int id, int side, Item::Kind kind, double since) {
  Stream& s = stream(id, side, kind);
  if (s.unacked_since != since) return;
  s.unacked_since = kNotWaiting;
  if (kind != Item::Kind::payload) return end(id, side, "no answer for 3 s");
  lost_ += s.held.size();
  link(id).counts[side].lost += s.held.size();
  s.under_way -= s.held.size();
  s.held.clear();
}

void SimulatedNetwork::dispatch(int id, int side, Item item, double delay_s) {
  Stream& s = stream(id, side, item.kind);
  s.last_at = std::max(s.last_at, now() + delay_s);
  auto shared = std::make_shared<Item>(std::move(item));
  at(s.last_at, [this, id, side, shared] { arrive(id, side, *shared); });
}

void SimulatedNetwork::arrive(int id, int side, Item& item) {
  Stream& s = stream(id, side, item.kind);
  Link& l = link(id);
  --s.under_way;
  if (now() > s.lost_after && item.kind != Item::Kind::end) return;
  const int to = l.ends[1 - side];
  const bool nobody = !process(to).alive || (l.was_up[1 - side] && !l.up[1 - side]);
  if (!nobody) {
    auto shared = std::make_shared<Item>(std::move(item));
    return tell(to, [this, id, side, shared] { receive(id, side, *shared); });
  }
  if (item.kind == Item::Kind::end || blocked(to, l.ends[side])) return;
  at(now() + delay(), [this, id, side] { end(id, side, "connection reset"); });
}

void SimulatedNetwork::receive(int id, int side, Item& item) {
  Link& l = link(id);
  const int here = 1 - side, to = l.ends[here];
  if (item.kind == Item::Kind::agree) return stand(id, here);
  if (!l.up[here]) return;
  const LinkEvents& events = process(to).events;
  const std::string from = name(l.ends[side]);
  switch (item.kind) {
    case Item::Kind::end: return end(id, here, item.reason);
    case Item::Kind::control: {
      auto message = decode_control(item.bytes);
      GV_CHECK(static_cast<bool>(message));
      ++l.counts[here].messages_received;
      if (const auto* header = std::get_if<FrameHeader>(&*message))
        return events.frame(from, {*header, {}});
      return events.control(from, std::move(*message));
    }
    default: break;
  }
  const auto* parcel = std::get_if<Parcel>(&item.header);
  const auto* header = std::get_if<FrameHeader>(&item.header);
  Lease lease = parcel != nullptr ? events.parcel_buffer(from, *parcel) : events.buffer(*header);
  const uint64_t bytes = bytes_after(item.header);
  if (!lease || lease.vec().bytes() < bytes) return void(++l.counts[here].discarded);
  std::memcpy(lease.writable().data, item.payload.lease.vec().data, bytes);
  if (parcel != nullptr) {
    ++l.counts[here].parcels_received;
    events.parcel(from, *parcel, {std::move(lease), parcel->dtype, item.payload.count, 0});
  } else {
    ++l.counts[here].frames_received;
    events.frame(from, {*header, std::move(lease)});
  }
}

void SimulatedNetwork::end(int id, int side, const std::string& reason) {
  Link& l = link(id);
  if (!l.up[side]) return;
  l.up[side] = false;
  const int here = l.ends[side];
  const std::string other = name(l.ends[1 - side]);
  auto& standing = process(here).standing;
  if (const auto found = standing.find(other); found != standing.end() && found->second == id)
    standing.erase(found);
  for (Stream* s : {&l.control[side], &l.payloads[side]}) {
    s->under_way -= s->held.size();
    s->held.clear();
  }
  const uint32_t incarnation = process(l.ends[1 - side]).options.self.incarnation;
  tell(here, [this, here, other, incarnation, reason] {
    process(here).events.down(other, incarnation, reason);
  });
}

void SimulatedNetwork::flush(int id, int side, Stream& s) {
  Link& l = link(id);
  const int from = l.ends[side], to = l.ends[1 - side];
  if (!blocked(from, to) && !blocked(to, from)) s.unacked_since = kNotWaiting;
  if (blocked(from, to)) return;
  const double again_s = kRetransmit_s * random_.uniform();
  for (Item& item : std::exchange(s.held, {}))
    dispatch(id, side, std::move(item), again_s + delay());
}

LinkCounts SimulatedNetwork::totals(int p) {
  LinkCounts sum;
  for (const auto& link : links_)
    for (const int side : {0, 1})
      if (link->ends[side] == p) sum += link->counts[side];
  return sum;
}

void SimulatedNetwork::heal() {
  cuts_.clear();
  for (int id = 0; id < static_cast<int>(links_.size()); ++id) {
    for (const int side : {0, 1}) {
      flush(id, side, link(id).control[side]);
      flush(id, side, link(id).payloads[side]);
    }
  }
}

// --- memory that is lent; the sockets of one host are cut by nothing but the end of a process

class SimulatedLine final : public MemoryLine {
 public:
  SimulatedLine(SimulatedNetwork& network, size_t id, int side)
      : network_(network), id_(id), side_(side) {}
  ~SimulatedLine() override { network_.let_go(id_, side_); }
  bool send(const LineNote& n) override { return network_.note(id_, side_, n); }
  void finish() override { network_.over(id_, side_); }

 private:
  SimulatedNetwork& network_;
  const size_t id_;
  const int side_;
};

std::shared_ptr<MemoryLine> SimulatedNetwork::lend(int p, const std::string& node,
                                                   const LentMemory& memory, LineEvents events) {
  const auto found = process(p).standing.find(node);
  if (!carries_ || found == process(p).standing.end()) return nullptr;
  const Link& l = link(found->second);
  const size_t id = lines_.size();
  lines_.push_back(std::make_unique<Line>());
  line(id).ends[0] = p;
  line(id).ends[1] = l.ends[1 - side_of(l, p)];
  line(id).events[0] = std::move(events);
  on_line(id, 0, [this, id, memory] {
    const int borrower = line(id).ends[1];
    auto handle = std::make_shared<SimulatedLine>(*this, id, 1);
    if (process(borrower).events.lent)
      line(id).events[1] = process(borrower).events.lent(name(line(id).ends[0]), memory, handle);
  });
  at(line(id).last_at[0], [this, id] {  // or there is nobody any more
    if (!process(line(id).ends[1]).alive) let_go(id, 1);
  });
  return std::make_shared<SimulatedLine>(*this, id, 0);
}

/// Something that the other end hears, in the order in which it was said.
void SimulatedNetwork::on_line(size_t id, int side, std::function<void()> what) {
  Line& l = line(id);
  const int to = l.ends[1 - side];
  l.last_at[side] = std::max(l.last_at[side], now() + 0.1 * delay());
  at(l.last_at[side], [this, to, knows = carries_(l.ends[side]), what = std::move(what)] {
    tell(to, [to, knows, what] {
      knows(to);
      what();
    });
  });
}

bool SimulatedNetwork::note(size_t id, int side, const LineNote& n) {
  Line& l = line(id);
  if (l.over[side] || !l.held[1 - side]) return false;
  if (n.kind == LineNote::Kind::frame && l.out >= MemoryLine::kMostLent) return false;
  l.out += n.kind == LineNote::Kind::frame;
  l.out -= n.kind == LineNote::Kind::released;
  on_line(id, side, [this, id, side, n] {
    if (line(id).held[1 - side] && line(id).events[1 - side].note)
      line(id).events[1 - side].note(n);
  });
  return true;
}

void SimulatedNetwork::over(size_t id, int side) {
  if (std::exchange(line(id).over[side], true)) return;
  on_line(id, side, [this, id, side] {
    if (line(id).held[1 - side] && line(id).events[1 - side].ended)
      line(id).events[1 - side].ended();
  });
}

void SimulatedNetwork::let_go(size_t id, int side) {
  line(id).held[side] = false;
  over(id, side);
}

size_t SimulatedNetwork::lines() const {
  size_t standing = 0;
  for (const auto& l : lines_)
    standing += l->held[0] || l->held[1];
  return standing;
}

}  // namespace grapevine::test
