#include "tests/run/device_town.hpp"

#include <cstring>

#include "kernels/base/descriptor.hpp"
#include "messages/control_codec.hpp"
#include "tests/catch.hpp"

namespace grapevine::testing {

End::~End() {
  *self = nullptr;
  tell_end();
}

bool End::send(const LineNote& said) {
  End* const to = *other;
  if (is_over || to == nullptr) return false;
  town.carry(owner, to->owner, [there = other, said] {
    if (*there == nullptr) return;
    (*there)->heard.push_back(said);
    if ((*there)->events.note) (*there)->events.note(said);
  });
  return true;
}

void End::finish() { tell_end(); }

void End::tell_end() {
  if (std::exchange(is_over, true) || *other == nullptr) return;
  town.carry(owner, (*other)->owner, [there = other] {
    if (*there == nullptr) return;
    ++(*there)->ends;
    if ((*there)->events.ended) (*there)->events.ended();
  });
}

std::pair<std::shared_ptr<End>, std::shared_ptr<End>> make_line(Town& town, const std::string& from,
                                                                const std::string& to) {
  const auto first = std::make_shared<End*>(nullptr), second = std::make_shared<End*>(nullptr);
  return {std::make_shared<End>(town, from, second, first),
          std::make_shared<End>(town, to, first, second)};
}

Home::Home(Town& town, const std::string& name, uint32_t rank, DeviceLink wish, int nccl_version)
    : town(town), name(name), rank(rank), device(std::make_unique<Adversary>(town.world, name)) {
  DeviceSizes sizes;
  sizes.exchange_bytes = 64 << 10;
  sizes.lent_bytes = SnapshotPool::bytes_for(kCount * sizeof(float), DType::bytes, kSlots);
  sizes.gradient_size = kCount;
  sizes.gradients = sizes.askings = 1;
  sizes.piece_bytes = sizes.dock_piece_bytes = 40;
  share = *DeviceShare::make(*device, sizes);
  pool = share->make_lent_pool(kCount * sizeof(float), DType::bytes, kSlots);
  transport = std::make_shared<LinkTransport>(
      [this](int, Frame frame) { came.push_back(std::move(frame)); },
      [](double, const LinkTransport::Held&) {}, 1);
  auto dock =
      std::make_shared<DeviceDock>(share, kCount * sizeof(float), 32, SnapshotPool::Memory::own);
  links = std::make_shared<DeviceLinks>(share, std::move(dock), wish, transport,
                                        [this](const std::string& line) { lines.push_back(line); });
  if (wish == DeviceLink::nccl) {
    links->use(std::make_shared<const Nccl>(town.nccl.of(*device, nccl_version)), name,
               kCount * sizeof(float));
    transport->hear_by([links = links.get()](const std::string& from, const NcclTalk& said) {
      links->hear(from, said);
    });
  }
  links->serve([&town](std::function<void()> task) { town.later(std::move(task)); },
               {[&town] { return town.world.now(); },
                [&town](double at_s, std::function<void()> task) {
                  town.world.at(at_s, [&town, task = std::move(task)] { town.later(task); });
                }});
  transport->carry_by(
      [links = links.get()](const std::string& to, const FrameHeader& h, Payload p, bool is_spoiled,
                            auto then) { links->leave(to, h, std::move(p), is_spoiled, then); },
      [links = links.get()](Payload p, auto then) { links->land(std::move(p), then); },
      [links = links.get()] { return links->edges(); });
  transport->use(this);
  std::vector<LinkTransport::Place> places;
  for (const char* node : {"a", "b", "c", Town::kEvil, Town::kLowEvil})
    places.push_back({static_cast<int>(places.size()), node == name ? "" : node});
  transport->place(std::move(places));
}

Payload Home::filled_with(float value, size_t count) {
  return payload_of(*share, *pool, count, value);
}

void Home::send(uint32_t to, float value, uint64_t number, size_t count) {
  FrameHeader h;
  h.kind = FrameKind::data;
  h.from = rank;
  h.to = to;
  h.number = number;
  h.count = count;
  Payload payload = filled_with(value, count);
  if (!payload) CHECK(device->lost());
  if (!payload) return;
  CHECK(transport->send(0, h, std::move(payload.lease)) > 0);
}

bool Home::send_frame(const std::string& node, const FrameHeader& h, const Payload& payload,
                      std::optional<uint64_t>) {
  ++sent_by_host;
  if (Town::is_evil(node)) return true;
  Lease copy = town[node].arrivals.take();
  REQUIRE(copy);
  std::memcpy(copy.writable().data, payload.vec().data, payload.vec().bytes());
  town.carry(name, node, [this, node, h, copy] {
    if (town[node].transport) town[node].transport->receive(name, {h, copy});
  });
  return true;
}

std::shared_ptr<MemoryLine> Home::lend(const std::string& node, const LentMemory& memory,
                                       LineEvents events) {
  auto [mine, theirs] = make_line(town, name, node);
  mine->events = std::move(events);
  if (Town::is_evil(node)) {
    town.evil = theirs.get();
    town.evil_kept = theirs;
    town.lent_to_evil = memory;
    return mine;
  }
  town.carry(name, node, [this, node, memory, theirs = theirs] {
    if (town[node].links) theirs->events = town[node].links->lent(name, memory, theirs);
  });
  return mine;
}

DeviceEdge Home::edge(const std::string& node) const {
  for (const DeviceEdge& e : links->edges())
    if (e.node == node) return e;
  return {};
}

void Home::check_value(const Frame& frame, float value) {
  const Payload payload = payload_of(frame.header, frame.payload);
  REQUIRE(payload);
  CHECK(payload.lease.on_device());
  bool is_right = false;
  const Access read[] = {{payload.vec().data, payload.vec().bytes(), Access::Mode::reads}};
  REQUIRE(device->launch(
              share->rules(), read,
              [&is_right, value, count = payload.count](void*, void* const* at) {
                is_right = true;
                for (size_t k = 0; k < count; ++k)
                  is_right = is_right && static_cast<float*>(at[0])[k] == value;
              },
              grapevine::Where::current()) == Fate::ok);
  REQUIRE(device->drain() == Fate::ok);
  CHECK(is_right);
}

bool Home::send(const std::string& node, const ControlMessage& said) {
  if (takes_no_messages) return false;
  const auto* const talk = std::get_if<NcclTalk>(&said);
  REQUIRE(talk != nullptr);
  REQUIRE(validate(said));
  if (Town::is_evil(node)) {
    town.said_to_evil.push_back({name, node, *talk});
    return true;
  }
  town.carry(name, node, [this, node, what = *talk] {
    if (town[node].transport) town[node].transport->hear(name, what);
  });
  return true;
}

Town::Town(uint64_t seed, const Wishes& wishes, int version_of_c) : world(seed) {
  for (uint32_t k = 0; k < 3; ++k)
    homes.push_back(std::make_unique<Home>(*this, std::string(1, static_cast<char>('a' + k)), k,
                                           wishes[k], k == 2 ? version_of_c : NcclWorld::kVersion));
}

Town::~Town() {
  for (const auto& home : homes)  // as SpawnedNode::stop
    home->transport = nullptr, home->links = nullptr, home->came.clear();
  go_on();
  nccl.clear();
  go_on();
  for (const auto& home : homes)
    home->pool = nullptr, home->share = nullptr;
  go_on();
}

void Town::tell(const std::string& from, const std::string& to, const NcclTalk& what) {
  later([this, from, to, what] { (*this)[to].transport->hear(from, what); });
}

void Town::cut(const std::string& one, const std::string& other) {
  // Behind what each has been sent so far.
  if (!is_evil(one)) later([this, one, other] { (*this)[one].links->down(other); });
  if (!is_evil(other)) later([this, one, other] { (*this)[other].links->down(one); });
}

}  // namespace grapevine::testing
