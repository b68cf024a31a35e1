#include "tests/device/adversary.hpp"

#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "kernels/base/check.hpp"

namespace grapevine::testing {
namespace {

constexpr int kPoison = 0xFF;  // a NaN as fp32 and as fp64

bool writes(const Access& a) { return a.mode != Access::Mode::reads; }

/// An address of its own, with nothing behind it.
std::byte* no_access(size_t bytes) {
  void* data =
      mmap(nullptr, std::max<size_t>(1, bytes), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  GV_CHECK((data != MAP_FAILED));
  return static_cast<std::byte*>(data);
}

void release(const Block& block) {
  if (block.kind != Block::Kind::pinned) munmap(block.data, std::max<size_t>(1, block.bytes));
}

/// The identity of a descriptor's file, equal in all processes.
std::pair<uint64_t, uint64_t> inode_of(int descriptor) {
  struct stat about {};
  if (::fstat(descriptor, &about) != 0) return {};
  return {about.st_dev, about.st_ino};
}

/// Eight bytes or more of poison that no pass meant to write.
bool has_poison(const std::byte* first, const uint8_t* written, size_t bytes) {
  for (size_t i = 0; i + 8 <= bytes; i += 4) {
    if (std::memcmp(first + i, "\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF", 8) == 0 &&
        std::memcmp(written + i, "\0\0\0\0\0\0\0\0", 8) == 0)
      return true;
  }
  return false;
}

}  // namespace

Adversary::Adversary(AdverseWorld& world, std::string name)
    : world_(world), name_(std::move(name)), host_(world.judge().add("the host of " + name_)) {
  world_.judge().tick(host_);
}

Adversary::~Adversary() {
  for (auto& [first, area] : areas_)
    release(area.block);
}

// --- failures

/// Counts a call. True: the device is lost, maybe by this call.
bool Adversary::refused(bool fails) {
  if (in_callback_) world_.judge().find("a function that may only post called the device");
  if (!lost_ && ++calls == fail_call && fails) lose();
  return lost_;
}

void Adversary::drop_all() {
  for (Queue& q : queues_) {
    q.work.clear();
    q.busy = false;
  }
  working_ = std::make_shared<int>();
}

void Adversary::lose() {
  lost_ = true;
  std::vector<std::shared_ptr<Record>> open = events_;
  for (const Queue& q : queues_)
    for (const Work& w : q.work)
      open.push_back(w.record);
  drop_all();
  if (on_lost_) post([then = std::exchange(on_lost_, {})](Fate) { then(); }, Fate::lost, {});
  for (const auto& record : open) {
    if (!record) continue;
    for (auto& then : std::exchange(record->awaited, {}))
      post(std::move(then), Fate::lost, {});
  }
}

void Adversary::kill() {
  drop_all();
  for (const auto& record : events_)
    if (record) record->awaited.clear();
  process_ = std::make_shared<int>();
  on_lost_ = {};
  lost_ = true;
  for (auto& [first, area] : areas_) {
    Judge::merge(area.backing->closed, all());
    release(area.block);
  }
  areas_.clear();  // what others have open stays with them
}

void Adversary::later(double delay_s, const std::shared_ptr<int>& life,
                      std::function<void()> what) {
  world_.after(delay_s, [life = std::weak_ptr(life), what = std::move(what)] {
    if (!life.expired()) what();
  });
}

/// Imitates a thread of the device: it tells the host that the event has happened.
void Adversary::post(std::function<void(Fate)> then, Fate fate, std::shared_ptr<Record> record) {
  later(world_.chance(1e-6, 1e-3), process_, [this, then = std::move(then), fate, record] {
    if (record) world_.judge().learn(host_, record->clock);
    in_callback_ = true;
    then(fate);
    in_callback_ = false;
  });
}

// --- memory

Fate Adversary::allocate(size_t bytes, Block::Kind kind, Block& out) {
  if (kind == Block::Kind::shared && !shares) return Fate::out_of_memory;
  if (!lost_ && calls + 1 == fail_call) {
    ++calls;
    return Fate::out_of_memory;
  }
  if (refused(false)) return Fate::lost;
  auto backing = std::make_shared<Backing>();
  backing->real.assign(std::max<size_t>(1, bytes), std::byte{kPoison});
  backing->golden = backing->real;
  backing->written.assign(backing->real.size(), 0);
  out = {kind == Block::Kind::pinned ? backing->real.data() : no_access(bytes), bytes, kind};
  world_.judge().begin(host_, backing->first(), bytes, Where::current());
  areas_[out.data] = {out, std::move(backing)};
  return Fate::ok;
}

Fate Adversary::free(const Block& block, Where where) {
  if (refused(true)) return Fate::lost;
  const auto found = areas_.find(block.data);
  if (found == areas_.end()) {
    world_.judge().find("free of what is not allocated at " + at(where));
    return Fate::ok;
  }
  Judge& judge = world_.judge();
  Backing& backing = *found->second.backing;
  judge.tick(host_);
  const auto opens_it = [&](const auto& one) { return one.second.backing.get() == &backing; };
  if (std::count_if(areas_.begin(), areas_.end(), opens_it) == 1)  // else it goes on elsewhere
    judge.close(host_, backing.first(), block.bytes, own(), where);
  if (found->second.backing.use_count() == 1) {  // the pages go with the last who has them open
    judge.learn(host_, backing.closed);
    judge.touch(host_, backing.first(), block.bytes, true, "frees", where);
  } else {
    Judge::merge(backing.closed, judge.clock(host_));
  }
  release(found->second.block);
  areas_.erase(found);
  return Fate::ok;
}

Fate Adversary::pin(const Access& a, Where where) {
  if (!pins) return Fate::out_of_memory;
  if (refused(true)) return Fate::lost;
  auto* const first = static_cast<std::byte*>(const_cast<void*>(a.data));
  const size_t bytes = a.bytes;
  if (area_of(first, 1) != nullptr) world_.judge().find("memory is pinned twice at " + at(where));
  Area area{{first, bytes, Block::Kind::pinned}, std::make_shared<Backing>()};
  area.backing->outside = first;
  area.backing->golden.assign(first, first + bytes);
  area.backing->written.assign(bytes, 1);
  area.only_read = a.mode == Access::Mode::reads;
  world_.judge().begin(host_, first, bytes, where);
  areas_[first] = std::move(area);
  return Fate::ok;
}

void Adversary::unpin(void* data) {
  const auto found = areas_.find(static_cast<std::byte*>(data));
  if (found == areas_.end()) return;  // its process is dead
  world_.judge().close(host_, data, found->second.block.bytes, own(), Where::current());
  areas_.erase(found);
}

size_t Adversary::pinned_bytes() const {
  size_t bytes = 0;
  for (const auto& [first, area] : areas_)
    if (area.block.kind == Block::Kind::pinned) bytes += area.block.bytes;
  return bytes;
}

Fate Adversary::share(const Block& block, int& descriptor) {
  GV_CHECK((block.kind == Block::Kind::shared));
  if (refused(true)) return Fate::lost;
  descriptor = ::memfd_create("adversary", MFD_CLOEXEC);
  GV_CHECK(descriptor >= 0);
  world_.shared[inode_of(descriptor)] = areas_.at(block.data).backing;
  return Fate::ok;
}

Fate Adversary::open(int descriptor, size_t bytes, Block& out) {
  if (refused(true)) return Fate::lost;
  const auto known = world_.shared.find(inode_of(descriptor));
  if (known == world_.shared.end()) return Fate::out_of_memory;
  auto backing = std::static_pointer_cast<Backing>(known->second.lock());
  const bool there = backing != nullptr;  // somebody has it open yet
  if (!there || backing->real.size() < bytes) return Fate::out_of_memory;
  out = {no_access(bytes), bytes, Block::Kind::device};
  areas_[out.data] = {out, std::move(backing), true};
  return Fate::ok;
}

Adversary::Area* Adversary::area_of(const void* data, size_t bytes) {
  const auto* first = static_cast<const std::byte*>(data);
  const auto next = areas_.upper_bound(first);
  if (next == areas_.begin()) return nullptr;
  Area& area = std::prev(next)->second;
  return first + bytes <= area.block.data + area.block.bytes ? &area : nullptr;
}

std::byte* Adversary::real(const Access& a) {
  Area* area = area_of(a.data, a.bytes);
  return area->backing->first() + (static_cast<const std::byte*>(a.data) - area->block.data);
}

std::byte* Adversary::golden(const Access& a) {
  Area* area = area_of(a.data, a.bytes);
  return area->backing->golden.data() + (static_cast<const std::byte*>(a.data) - area->block.data);
}

uint8_t* Adversary::written(const Access& a) {
  Area* area = area_of(a.data, a.bytes);
  return area->backing->written.data() + (static_cast<const std::byte*>(a.data) - area->block.data);
}

std::set<int> Adversary::own() const {
  std::set<int> mine{host_};
  for (const Queue& q : queues_)
    mine.insert(q.who);
  return mine;
}

Judge::Clock Adversary::all() const {
  Judge::Clock out;
  for (const int who : own())
    Judge::merge(out, world_.judge().clock(who));
  return out;
}

void Adversary::touch(const Access& a, Where where) {
  if (lost_ || area_of(a.data, a.bytes) == nullptr) return;
  world_.judge().tick(host_);
  world_.judge().touch(host_, real(a), a.bytes, writes(a), writes(a) ? "writes" : "reads", where);
  if (writes(a)) {
    std::memcpy(golden(a), real(a), a.bytes);
    std::memset(written(a), 1, a.bytes);
  } else if (std::memcmp(golden(a), real(a), a.bytes) != 0) {
    world_.judge().find("value: the host reads what is not there yet, at " + at(where));
  }
}

// --- order

Fate Adversary::make_stream(bool, Stream& out) {
  if (refused(true)) return Fate::lost;
  out.id = static_cast<uint32_t>(queues_.size());
  const int who = world_.judge().add("stream " + std::to_string(out.id) + " of " + name_);
  queues_.push_back({who, false, {}});
  return Fate::ok;
}

Fate Adversary::make_event(Event& out) {
  if (refused(true)) return Fate::lost;
  out.id = static_cast<uint32_t>(events_.size());
  events_.emplace_back();
  return Fate::ok;
}

Fate Adversary::record(Event event, Stream stream, Where where) {
  if (refused(true)) return Fate::lost;
  if (world_.leaves_out("record", where)) return Fate::ok;
  Queue& q = queues_.at(stream.id);
  world_.judge().learn(q.who, world_.judge().clock(host_));
  auto record = std::make_shared<Record>();
  record->clock = world_.judge().clock(q.who);
  if (const auto& before = events_.at(event.id); before && !before->awaited.empty())
    world_.judge().find("an event that is awaited is recorded anew at " + at(where));
  events_.at(event.id) = record;
  q.work.push_back({.kind = Work::Kind::record, .record = std::move(record), .where = where});
  go_on();
  return Fate::ok;
}

Fate Adversary::wait(Stream stream, Event event, Where where) {
  if (refused(true)) return Fate::lost;
  if (world_.leaves_out("wait", where)) return Fate::ok;
  const auto record = events_.at(event.id);  // as it is now
  if (!record) return Fate::ok;
  Queue& q = queues_.at(stream.id);
  world_.judge().learn(q.who, record->clock);
  q.work.push_back({.kind = Work::Kind::wait, .record = record, .where = where});
  go_on();
  return Fate::ok;
}

Fate Adversary::query(Event event, Where where) {
  if (refused(true)) return Fate::lost;
  if (world_.leaves_out("query", where)) return Fate::ok;  // as if it had come
  const auto& record = events_.at(event.id);
  if (!record) return Fate::ok;
  if (!record->done) return Fate::later;
  world_.judge().learn(host_, record->clock);
  return Fate::ok;
}

void Adversary::when(Event event, std::function<void(Fate)> then, Where where) {
  if (refused(true)) return post(std::move(then), Fate::lost, {});
  const auto& record = events_.at(event.id);
  if (world_.leaves_out("when", where) || !record) return post(std::move(then), Fate::ok, {});
  if (record->done) return post(std::move(then), Fate::ok, record);
  record->awaited.push_back(std::move(then));
}

Fate Adversary::drain() {
  if (refused(true)) return Fate::lost;
  if (is_silent())
    world_.judge().find("the host stands still in a wait for a device that is silent");
  const auto works = [](const Queue& q) { return !q.work.empty(); };
  while (std::any_of(queues_.begin(), queues_.end(), works))
    if (!world_.step()) break;  // what is left waits for what nobody has queued
  if (lost_) return Fate::lost;
  for (const Queue& q : queues_)
    if (q.work.empty()) world_.judge().learn(host_, world_.judge().clock(q.who));
  return Fate::ok;
}

void Adversary::give_up() {
  if (!lost_) lose();
}

void Adversary::on_lost(std::function<void()> then) {
  if (lost_ && then) return post([then = std::move(then)](Fate) { then(); }, Fate::lost, {});
  on_lost_ = std::move(then);
}

// --- work

/// Memory of the host that is neither pinned nor on the device is read and written late; its golden
/// twin keeps what the caller meant to send.
void Adversary::lend_pageable(const void* data, size_t bytes, Where where) {
  if (area_of(data, bytes) != nullptr) return;
  world_.judge().find("pageable or freed memory in a copy at " + at(where));
  auto* first = static_cast<std::byte*>(const_cast<void*>(data));
  Area area{{first, bytes, Block::Kind::pinned}, std::make_shared<Backing>()};
  area.backing->outside = first;
  area.backing->golden.assign(first, first + bytes);
  area.backing->written.assign(bytes, 1);
  areas_[first] = std::move(area);
}

Fate Adversary::copy(Stream s, void* to, const void* from, size_t bytes, Where where) {
  if (!lost_) {
    lend_pageable(to, bytes, where);
    lend_pageable(from, bytes, where);
    if (area_of(to, bytes)->only_read)
      world_.judge().find("a copy to memory that may only be read, at " + at(where));
  }
  return enqueue(
      s, {{from, bytes, Access::Mode::reads}, {to, bytes, Access::Mode::writes}},
      [bytes](void*, void* const* p) { std::memcpy(p[1], p[0], bytes); }, "copies", where);
}

Fate Adversary::launch(Stream s, std::span<const Access> accesses, Body body, Where where) {
  for (const Access& a : accesses) {
    if (lost_ || a.data == nullptr || area_of(a.data, a.bytes) != nullptr) continue;
    world_.judge().find("a pass over memory that is not there, at " + at(where));
    return Fate::ok;
  }
  return enqueue(s, {accesses.begin(), accesses.end()}, std::move(body), "passes", where);
}

Fate Adversary::enqueue(Stream s, std::vector<Access> accesses, Body body, const char* what,
                        Where where) {
  if (refused(true)) return Fate::lost;
  Queue& q = queues_.at(s.id);
  Judge& judge = world_.judge();
  judge.learn(q.who, judge.clock(host_));
  judge.tick(q.who);
  for (const bool writing : {false, true})
    for (const Access& a : accesses)
      if (a.data != nullptr && writes(a) == writing)
        judge.touch(q.who, real(a), a.bytes, writing, what, where);
  q.work.push_back({.accesses = std::move(accesses),
                    .body = std::move(body),
                    .where = where,
                    .number = ++works});
  queueing_ = s;
  run_golden(q.work.back());
  go_on();
  return Fate::ok;
}

/// Also holds the pass to its word.
void Adversary::run_golden(const Work& w) {
  std::vector<void*> where;
  std::vector<std::vector<std::byte>> before;
  for (const Access& a : w.accesses) {
    std::byte* const first = a.data != nullptr ? golden(a) : nullptr;
    where.push_back(first);
    before.emplace_back(first, first + (first != nullptr ? a.bytes : 0));
    if (a.mode == Access::Mode::reads && first != nullptr && has_poison(first, written(a), a.bytes))
      world_.judge().find("value: what nobody has written is read at " + at(w.where));
  }
  for (size_t k = 0; k < where.size(); ++k)
    if (w.accesses[k].mode == Access::Mode::writes && where[k] != nullptr)
      std::memset(where[k], kPoison, before[k].size());
  w.body(nullptr, where.data());
  for (size_t k = 0; k < where.size(); ++k) {
    if (where[k] == nullptr) continue;
    const bool is_written = std::any_of(w.accesses.begin(), w.accesses.end(), [&](const Access& a) {
      return writes(a) && a.data == w.accesses[k].data;
    });
    const auto* const now = static_cast<const std::byte*>(where[k]);
    if (!is_written && !std::equal(before[k].begin(), before[k].end(), now))
      world_.judge().find("a pass wrote what it said it reads, at " + at(w.where));
    note_written(w.accesses[k]);
  }
  check_written(w, where, before);
}

/// A pass may leave updated memory as it was, and this may be poison.
void Adversary::note_written(const Access& a) {
  if (a.mode == Access::Mode::writes) std::memset(written(a), 1, a.bytes);
  if (a.mode != Access::Mode::updates) return;
  const std::byte* const now = golden(a);
  uint8_t* const is_written = written(a);
  for (size_t i = 0; i < a.bytes; ++i)
    is_written[i] |= now[i] != std::byte{kPoison};
}

/// Finds bytes that a pass announced to write and did not write: the pass runs once more over other
/// bytes, and none of those may be left.
void Adversary::check_written(const Work& w, const std::vector<void*>& where,
                              const std::vector<std::vector<std::byte>>& before) {
  std::vector<std::vector<std::byte>> after;
  for (size_t k = 0; k < where.size(); ++k) {
    auto* const first = static_cast<std::byte*>(where[k]);
    after.emplace_back(first, first + before[k].size());
    if (w.accesses[k].mode == Access::Mode::updates)
      std::copy(before[k].begin(), before[k].end(), first);
    if (w.accesses[k].mode == Access::Mode::writes)
      std::fill_n(first, before[k].size(), std::byte{0x55});
  }
  w.body(nullptr, where.data());
  for (size_t k = 0; k < where.size(); ++k)
    if (!std::equal(after[k].begin(), after[k].end(), static_cast<const std::byte*>(where[k])))
      world_.judge().find("a pass left out some of what it said it writes, at " + at(w.where));
}

/// Begins all work that the events allow.
void Adversary::go_on() {
  for (size_t k = 0; k < queues_.size(); ++k) {
    Queue& q = queues_[k];
    if (q.busy || q.work.empty()) continue;
    const Work& w = q.work.front();
    if (w.kind == Work::Kind::wait && !w.record->done) continue;
    if (w.kind == Work::Kind::pass && held_.count(static_cast<uint32_t>(k)) != 0) continue;
    q.busy = true;
    later(world_.chance(1e-7, 1e-5), working_, [this, k] { begin(k); });
  }
}

void Adversary::let_go(Stream stream) {
  held_.erase(stream.id);
  go_on();
}

bool Adversary::gone(const Work& w) {
  return std::any_of(w.accesses.begin(), w.accesses.end(), [this](const Access& a) {
    return a.data != nullptr && area_of(a.data, a.bytes) == nullptr;
  });
}

void Adversary::begin(size_t stream) {
  if (is_silent()) return;
  Work& w = queues_[stream].work.front();
  if (w.kind != Work::Kind::pass || gone(w)) return finish(stream);
  for (const Access& a : w.accesses) {
    w.saved.emplace_back();
    if (a.data == nullptr || !writes(a)) continue;
    if (a.mode == Access::Mode::updates) w.saved.back().assign(real(a), real(a) + a.bytes);
    std::memset(real(a), kPoison, a.bytes);
  }
  const auto factor = slow.find(static_cast<uint32_t>(stream));
  const double times = factor != slow.end() ? factor->second : 1;
  later(times * world_.chance(1e-6, 1e-2), working_, [this, stream] { finish(stream); });
}

void Adversary::finish(size_t stream) {
  if (is_silent()) return;
  Queue& q = queues_[stream];
  Work w = std::move(q.work.front());
  q.work.pop_front();
  q.busy = false;
  if (w.kind == Work::Kind::pass) {
    if (w.number == fail_work) return lose();
    run_real(w);
  } else if (w.kind == Work::Kind::record) {
    w.record->done = true;
    for (auto& then : std::exchange(w.record->awaited, {}))
      post(std::move(then), Fate::ok, w.record);
  }
  go_on();
}

void Adversary::run_real(Work& w) {
  if (gone(w)) return world_.judge().find("work on freed memory at " + at(w.where));
  std::vector<void*> where;
  for (size_t k = 0; k < w.accesses.size(); ++k) {
    const Access& a = w.accesses[k];
    where.push_back(a.data != nullptr ? real(a) : nullptr);
    if (a.mode == Access::Mode::updates && a.data != nullptr && !w.saved.empty())
      std::copy(w.saved[k].begin(), w.saved[k].end(), static_cast<std::byte*>(where[k]));
  }
  w.body(nullptr, where.data());
}

void Adversary::finish_all() {
  if (lost_) return;
  for (const Queue& q : queues_) {
    if (q.work.empty()) continue;
    return world_.judge().find("what was queued is not all done");
  }
  for (auto& [first, area] : areas_) {
    if (area.opened) continue;
    if (std::memcmp(area.backing->first(), area.backing->golden.data(), area.block.bytes) != 0)
      world_.judge().find("value: memory is not what the order of the calls makes it");
  }
}

}  // namespace grapevine::testing
