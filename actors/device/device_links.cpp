#include "actors/device/device_links.hpp"

#include <algorithm>
#include <utility>

#include "kernels/base/descriptor.hpp"

namespace grapevine {

namespace {

constexpr char kCannotOpen[] = "the other end cannot open the memory of this device";
constexpr char kNoLine[] = "the connection that passes its memory ended";
constexpr char kErrs[] = "it released memory that was not lent to it";
constexpr char kNotOpened[] = "its memory cannot be opened here";
constexpr char kWrongFrame[] = "it lent memory that it does not have";
constexpr char kByWish[] = "--link host";
constexpr char kNoNccl[] = "this device has no NCCL";

}  // namespace

/// Memory of this device that is lent to one process.
struct DeviceLinks::Lending {
  std::string node;
  std::shared_ptr<MemoryLine> line;
  std::unique_ptr<SnapshotLender> lender;
  enum class Stage : uint8_t { offered, open, over } stage = Stage::offered;

  /// Lends nothing more. The present loans last until the other end has finished with them.
  void finish() {
    if (std::exchange(stage, Stage::over) != Stage::over) line->finish();
  }
};

/// Memory of one process that is read here.
struct DeviceLinks::Borrowing {
  std::string node;
  std::shared_ptr<MemoryLine> line;
  std::unique_ptr<SnapshotBorrower> borrower;
  uint64_t slot_bytes = 0;
  bool ends = false;

  ~Borrowing() { borrower->abandon(); }  // nothing is in flight now: DeviceShare::keep
};

DeviceLinks::DeviceLinks(std::shared_ptr<DeviceShare> device, std::shared_ptr<DeviceDock> dock,
                         DeviceLink choice, const std::shared_ptr<LinkTransport>& transport,
                         std::function<void(const std::string& line)> say)
    : device_(std::move(device)),
      dock_(std::move(dock)),
      choice_(choice),
      transport_(transport),
      say_(std::move(say)) {}

// The device keeps the loans. Edges by NCCL are abandoned on the owner's thread, or here if there
// is no owner any more.
DeviceLinks::~DeviceLinks() {
  if (nccl_ && to_owner_) to_owner_([last = std::move(nccl_)] {});
}

void DeviceLinks::use(std::shared_ptr<const Nccl> nccl, const std::string& self, size_t largest) {
  const auto transport = transport_.lock();
  nccl_ = std::make_shared<NcclLinks>(
      self, largest, std::move(nccl), device_, dock_, transport,
      NcclLinks::Told{[me = weak_from_this()](const std::string& node, const auto& change) {
                        if (const auto here = me.lock())
                          here->note(node, [&](Edge& edge) { change(edge.told); });
                      },
                      say_});
}

void DeviceLinks::serve(ToOwner to_owner, OwnerTime time) {
  to_owner_ = to_owner;
  if (nccl_) nccl_->serve(to_owner, std::move(time));
  dock_->serve(std::move(to_owner));
}

void DeviceLinks::hear(const std::string& node, const NcclTalk& said) {
  posting()([node, said](DeviceLinks& self) {
    if (self.nccl_) self.nccl_->hear(node, said);
  });
}

/// For events that links report on their threads: the owner handles them, if there is one.
std::function<void(std::function<void(DeviceLinks&)>)> DeviceLinks::posting() {
  return [self = weak_from_this(), to_owner = to_owner_](std::function<void(DeviceLinks&)> what) {
    to_owner([self, what = std::move(what)] {
      if (const auto here = self.lock()) what(*here);
    });
  };
}

// --- the state of edges, which any thread reads

template <class Change>
void DeviceLinks::note(const std::string& node, Change&& change) {
  const Lock lock(mutex_);
  Edge& edge = edges_[node];
  edge.told.node = node;
  change(edge);
}

void DeviceLinks::turn(const std::string& node, Way way, const std::string& why) {
  note(node, [&](Edge& edge) {
    edge.way = way;
    edge.told.sends_in_place = way == Way::in_place;
    edge.told.why = why;
  });
  if (way == Way::in_place) say_("snapshots for " + node + " are read in place");
  if (way == Way::host && choice_ == DeviceLink::vmm)
    say_("snapshots for " + node + " go through the host's memory: " + why);
}

std::vector<DeviceEdge> DeviceLinks::edges() const {
  const Lock lock(mutex_);
  std::vector<DeviceEdge> edges;
  for (const auto& [node, edge] : edges_)
    edges.push_back(edge.told);
  return edges;
}

void DeviceLinks::down(const std::string& node) {
  posting()([node](DeviceLinks& self) {
    if (self.nccl_) self.nccl_->down(node);
    for (const auto& [id, lending] : self.lendings_)
      if (lending->node == node) lending->finish();
    std::vector<uint64_t> borrowed;
    for (const auto& [id, borrowing] : self.borrowings_)
      if (borrowing->node == node) borrowed.push_back(id);
    for (const uint64_t id : borrowed)
      self.end_borrowing(id);
    const Lock lock(self.mutex_);
    self.edges_.erase(node);
  });
}

// --- payloads that leave

void DeviceLinks::leave(const std::string& node, const FrameHeader& header, Payload payload,
                        bool is_spoiled, DeviceDock::Then then) {
  const bool by_nccl = choice_ == DeviceLink::nccl, by_host = choice_ == DeviceLink::host;
  bool may_stay = !by_host && !is_spoiled && (!by_nccl || nccl_);
  note(node, [&](Edge& edge) {
    may_stay = may_stay && (edge.way == Way::untried || edge.way == Way::in_place);
    if (by_host) edge.told.why = kByWish;
    if (by_nccl && !nccl_) edge.told.why = kNoNccl;
  });
  if (!may_stay) return dock_->leave(std::move(payload), std::move(then));
  to_owner_([self = shared_from_this(), node, header, payload = std::move(payload),
             then = std::move(then)] { self->leave_now(node, header, payload, then); });
}

DeviceLinks::Lending* DeviceLinks::current(const std::string& node) {
  for (const auto& [id, lending] : lendings_)
    if (lending->node == node && lending->stage != Lending::Stage::over) return lending.get();
  return nullptr;
}

bool DeviceLinks::has_room(const Lending& lending) const {
  const size_t slots = device_->lent().slots;
  size_t lent = 0;
  for (const auto& [id, one] : lendings_)
    lent += one->lender->lent();
  const size_t most = std::min(std::max<size_t>(1, slots / 4), MemoryLine::kMostLent);
  return lending.lender->lent() < most && lent < std::max<size_t>(1, slots / 2);
}

void DeviceLinks::leave_now(const std::string& node, const FrameHeader& header, Payload payload,
                            DeviceDock::Then then) {
  if (nccl_) return nccl_->leave(node, header, std::move(payload), std::move(then));
  Lending* const lending = current(node);
  if (lending == nullptr) offer(node);
  const bool is_lent = lending != nullptr && lending->stage == Lending::Stage::open &&
                       device_->lent().holds(payload.lease) && has_room(*lending);
  if (!is_lent) return dock_->leave(std::move(payload), std::move(then));
  lending->lender->lend(payload.lease, [self = weak_from_this(), node, header, payload, then,
                                        to = std::weak_ptr(lending->line),
                                        lender = lending->lender.get()](LentSlot lent) {
    const auto here = self.lock();
    const auto line = to.lock();
    if (!here || !line) return;
    if (line->send({LineNote::Kind::frame, header, lent})) {
      here->note(node, [](Edge& edge) { ++edge.told.lent; });
    } else {
      lender->released(lent);
      here->dock_->leave(payload, then);
    }
  });
}

void DeviceLinks::offer(const std::string& node) {
  const DeviceShare::LentPool& pool = device_->lent();
  const auto transport = transport_.lock();
  if (pool.slots == 0 || !transport) return;
  if (!exported_) {
    int descriptor = -1;
    if (device_->device().share(pool.block, descriptor) != Fate::ok) return;
    exported_ = std::make_shared<const Descriptor>(descriptor);
  }
  const uint64_t id = ++ids_;
  LineEvents events;
  events.note = [post = posting(), id](const LineNote& said) {
    post([id, said](DeviceLinks& self) { self.lender_hears(id, said); });
  };
  events.ended = [post = posting(), id] {
    post([id](DeviceLinks& self) { self.lending_ended(id); });
  };
  auto line = transport->lend(node, {exported_, pool.slots, pool.slot_bytes}, std::move(events));
  if (!line) return;
  const auto lending = std::make_shared<Lending>();
  lending->node = node;
  lending->line = std::move(line);
  lending->lender = std::make_unique<SnapshotLender>(device_->fences(), pool.block, pool.slot_bytes,
                                                     DType::bytes, to_owner_);
  lending->lender->written_on(device_->rules());
  lendings_[id] = lending;
  device_->keep(lending);
  turn(node, Way::offered, "");
}

void DeviceLinks::lender_hears(uint64_t id, const LineNote& said) {
  const auto found = lendings_.find(id);
  if (found == lendings_.end()) return;
  Lending& lending = *found->second;
  const auto give_up = [&](const char* why) {
    if (lending.stage != Lending::Stage::over) turn(lending.node, Way::host, why);
    lending.finish();
  };
  switch (said.kind) {
    case LineNote::Kind::taken:
      if (lending.stage != Lending::Stage::offered) return give_up(kErrs);
      lending.stage = Lending::Stage::open;
      return turn(lending.node, Way::in_place, "");
    case LineNote::Kind::refused:
      return give_up(lending.stage == Lending::Stage::offered ? kCannotOpen : kErrs);
    case LineNote::Kind::released:
      if (!lending.lender->released(said.lent)) give_up(kErrs);
      return;
    case LineNote::Kind::frame: return;  // a line never sends this to a lender
  }
}

/// The other end has stopped reading.
void DeviceLinks::lending_ended(uint64_t id) {
  const auto found = lendings_.extract(id);
  if (found.empty()) return;
  Lending& lending = *found.mapped();
  if (lending.stage != Lending::Stage::over)
    turn(lending.node, Way::host, lending.stage == Lending::Stage::offered ? kCannotOpen : kNoLine);
  lending.lender->ended();
  device_->let_go(found.mapped());
}

// --- payloads that arrive

LineEvents DeviceLinks::lent(const std::string& node, const LentMemory& memory,
                             std::shared_ptr<MemoryLine> line) {
  const uint64_t id = ++ids_;
  posting()([id, node, memory, line = std::move(line)](DeviceLinks& self) {
    self.accept(id, node, memory, line);
  });
  LineEvents events;
  events.note = [post = posting(), id](const LineNote& said) {
    post([id, said](DeviceLinks& self) { self.borrower_hears(id, said); });
  };
  events.ended = [post = posting(), id] {
    post([id](DeviceLinks& self) { self.end_borrowing(id); });
  };
  return events;
}

void DeviceLinks::accept(uint64_t id, const std::string& node, const LentMemory& memory,
                         const std::shared_ptr<MemoryLine>& line) {
  const auto refuse = [&](const char* why) {
    line->send({LineNote::Kind::refused, {}, {}});
    note(node, [&](Edge& edge) { edge.told.not_read = why; });
  };
  if (choice_ == DeviceLink::host) return refuse(kByWish);
  auto borrower =
      std::make_unique<SnapshotBorrower>(device_->device(), device_->fences(), memory.slot_bytes,
                                         DType::bytes, to_owner_, [line](const LentSlot& read) {
                                           line->send({LineNote::Kind::released, {}, read});
                                         });
  borrower->read_on(device_->rules());
  if (borrower->open(memory.descriptor->fd(), memory.slots) != Fate::ok) return refuse(kNotOpened);
  const auto borrowing = std::make_shared<Borrowing>();
  borrowing->node = node;
  borrowing->line = line;
  borrowing->borrower = std::move(borrower);
  borrowing->slot_bytes = memory.slot_bytes;
  borrowings_[id] = borrowing;
  device_->keep(borrowing);
  note(node, [](Edge& edge) { edge.told.receives_in_place = true; });
  line->send({LineNote::Kind::taken, {}, {}});
}

void DeviceLinks::borrower_hears(uint64_t id, const LineNote& said) {
  const auto found = borrowings_.find(id);
  if (found == borrowings_.end() || said.kind != LineNote::Kind::frame || found->second->ends)
    return;
  Borrowing& borrowing = *found->second;
  Lease lease = borrowing.borrower->borrow(said.lent);
  const auto transport = transport_.lock();
  if (!lease || payload_bytes(said.header) > borrowing.slot_bytes) {
    note(borrowing.node, [](Edge& edge) { edge.told.not_read = kWrongFrame; });
    return end_borrowing(id);
  }
  note(borrowing.node, [](Edge& edge) { ++edge.told.borrowed; });
  if (transport) transport->receive(borrowing.node, {said.header, std::move(lease)});
}

/// The line stays open until the device has finished with the payloads that it read.
void DeviceLinks::end_borrowing(uint64_t id) {
  const auto found = borrowings_.find(id);
  if (found == borrowings_.end() || std::exchange(found->second->ends, true)) return;
  note(found->second->node, [](Edge& edge) { edge.told.receives_in_place = false; });
  found->second->borrower->end([self = weak_from_this(), id] {
    const auto here = self.lock();
    if (!here) return;
    const auto ended = here->borrowings_.extract(id);
    here->device_->let_go(ended.mapped());
  });
}

}  // namespace grapevine
