#include "tests/device/nccl_world.hpp"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

namespace grapevine::testing {

Nccl NcclWorld::of(Adversary& device, int version) {
  Nccl out;
  out.version = version;
  out.make_id = [this]() -> Result<NcclId> {
    NcclId id = {};
    ++ids_;
    std::memcpy(id.data(), &ids_, sizeof ids_);
    return id;
  };
  out.calls.init = [this, &device](const NcclId& id, int rank, NcclComm& comm) {
    return begin(device, id, rank, comm);
  };
  out.calls.poll = [this](NcclComm comm) { return used(comm, "polled").state; };
  out.calls.exchange = [this](NcclComm comm, const NcclTransfer& t) { return exchange(comm, t); };
  out.calls.abort = [this](NcclComm comm, std::function<void()> ended) {
    give_up(comm, std::move(ended), false);
  };
  out.calls.destroy = [this](NcclComm comm, std::function<void()> ended) {
    give_up(comm, std::move(ended), true);
  };
  return out;
}

void NcclWorld::after(double least_s, double most_s, std::function<void()> what) {
  world_.after(world_.chance(least_s, most_s),
               [life = std::weak_ptr(life_), what = std::move(what)] {
                 if (!life.expired()) what();
               });
}

NcclWorld::Comm& NcclWorld::used(NcclComm comm, const char* call) {
  Comm& c = *static_cast<Comm*>(comm);
  if (c.is_given_up && c.device)  // a dead process is still taken apart
    world_.judge().find(std::string("NCCL: ") + call + " after it has been given up");
  return c;
}

// --- two ends meet

NcclAnswer NcclWorld::begin(Adversary& device, const NcclId& id, int rank, NcclComm& out) {
  for (const auto& c : comms_)
    if (c->device == &device && c->flies)
      world_.judge().find("NCCL: it allocates while an exchange is under way");
  if (often(begins_not)) return NcclAnswer::system_error;
  comms_.push_back(std::make_unique<Comm>());
  Comm& c = *comms_.back();
  c.device = &device;
  c.id = id;
  c.rank = rank;
  out = &c;
  for (const auto& other : comms_) {
    if (other.get() == &c || other->id != id || other->is_given_up || other->other) continue;
    if (other->rank == rank || other->device == &device) {  // one GPU twice, say
      c.state = other->state = NcclAnswer::invalid_usage;
      return NcclAnswer::in_progress;
    }
    c.other = other.get();
    other->other = &c;
    if (!often(meets_never)) after(1e-4, 1e-1, [this, &c] { meet(c); });
  }
  return NcclAnswer::in_progress;
}

/// Each hears of it in its own time.
void NcclWorld::meet(Comm& c) {
  if (c.is_given_up || c.other->is_given_up || !c.device || !c.other->device) return;
  ++connected;
  for (Comm* end : {&c, c.other}) {
    after(1e-6, 1e-1, [end] {
      if (end->is_given_up) return;
      end->connects = false;
      if (end->state == NcclAnswer::in_progress) end->state = NcclAnswer::success;
    });
  }
}

// --- an exchange

/// The body of a pass: with the memory of the golden twin when it is queued, twice, and with the
/// real one when it has been let go.
NcclAnswer NcclWorld::exchange(NcclComm comm, const NcclTransfer& t) {
  Comm& c = *static_cast<Comm*>(comm);
  const NcclAnswer answer = c.last.number == t.number ? c.answer : first(c, t);
  receive(c, t.received);
  return answer;
}

void NcclWorld::receive(Comm& c, void* into) const {
  if (c.last.received_bytes == 0) return;
  if (c.has_come) {
    std::memcpy(into, c.other->sent.data(), c.last.received_bytes);
  } else {
    std::memset(into, 0, c.last.received_bytes);
  }
}

NcclAnswer NcclWorld::first(Comm& c, const NcclTransfer& t) {
  used(reinterpret_cast<NcclComm>(&c), "asked to exchange");
  c.last = t;
  c.has_come = false;
  c.answer = c.state;
  if (c.state != NcclAnswer::success && c.state != NcclAnswer::in_progress) return c.state;
  if (c.state == NcclAnswer::in_progress || c.flies)
    world_.judge().find("NCCL: an exchange before the last call has ended");
  for (const auto& other : comms_) {
    if (other->device != c.device || other->is_given_up) continue;
    if (other->connects) world_.judge().find("NCCL: an exchange while it allocates");
    if (other->flies) world_.judge().find("NCCL: two exchanges of one device");
  }
  const auto* const from = static_cast<const std::byte*>(t.sent);
  c.sent.assign(from, from + t.sent_bytes);
  c.stream = c.device->queueing();
  c.device->hold(c.stream);
  c.flies = true;
  c.answer = c.state = NcclAnswer::in_progress;
  if (world_.random().below(2) == 0) c.answer = c.state = NcclAnswer::success;
  Comm& other = *c.other;
  if (other.flies && !other.is_given_up && other.device) both_are_there(c, other);
  return c.answer;
}

void NcclWorld::both_are_there(Comm& c, Comm& other) {
  const NcclTransfer &mine = c.last, &theirs = other.last;
  if (mine.number != theirs.number || mine.sent_bytes != theirs.received_bytes ||
      theirs.sent_bytes != mine.received_bytes)
    return world_.judge().find("NCCL: two ends are in two exchanges");
  c.has_come = other.has_come = true;
  receive(other, theirs.received);  // as if it had been the second: its golden twin knows now
  bytes += mine.sent_bytes + mine.received_bytes;
  ++exchanged;
  if (often(queues_never)) return;
  const bool fails = often(errs);
  for (Comm* end : {&c, &other}) {
    after(1e-5, 5e-2, [this, end, number = mine.number, fails] {
      if (end->is_given_up || end->last.number != number || !end->device) return;
      if (fails) return void(end->state = NcclAnswer::remote_error);
      if (end->state == NcclAnswer::in_progress) end->state = NcclAnswer::success;
      after(1e-6, 5e-2, [this, end, number] {
        if (end->last.number == number && !end->is_given_up) let_go(*end);
      });
    });
  }
}

void NcclWorld::let_go(Comm& c) {
  if (!std::exchange(c.flies, false) || !c.device) return;
  c.device->let_go(c.stream);
}

// --- the end

void NcclWorld::give_up(NcclComm comm, std::function<void()> ended, bool was_idle) {
  Comm& c = used(comm, "given up");
  if (!c.device) return;
  if (was_idle && (c.flies || c.state != NcclAnswer::success))
    world_.judge().find("NCCL: destroyed while it is at work");
  c.is_given_up = true;
  c.ended = std::move(ended);
  tell_of(c);
  if (often(lets_go_never)) return;
  after(1e-4, 1, [this, &c] {
    let_go(c);
    if (c.ended) std::exchange(c.ended, {})();
  });
}

/// The other end hears of it, or it does not.
void NcclWorld::tell_of(Comm& gone) {
  if (!gone.other || world_.random().below(2) == 0) return;
  after(1e-4, 1, [end = gone.other] {
    if (!end->is_given_up) end->state = NcclAnswer::remote_error;
  });
}

void NcclWorld::kill(Adversary& device) {
  for (const auto& c : comms_) {
    if (c->device != &device) continue;
    if (!c->is_given_up) tell_of(*c);
    c->device = nullptr;
    c->is_given_up = true;
    c->flies = false;
    c->ended = {};
  }
}

void NcclWorld::clear() {
  for (const auto& c : comms_) {
    if (!c->is_given_up) continue;
    let_go(*c);
    c->ended = {};
  }
}

bool NcclWorld::exchanges(const Adversary& device) const {
  return std::any_of(comms_.begin(), comms_.end(),
                     [&](const auto& c) { return c->device == &device && c->flies; });
}

size_t NcclWorld::standing() const {
  return static_cast<size_t>(
      std::count_if(comms_.begin(), comms_.end(), [](const auto& c) { return !c->is_given_up; }));
}

size_t NcclWorld::stuck() const {
  return static_cast<size_t>(std::count_if(comms_.begin(), comms_.end(), [](const auto& c) {
    return c->is_given_up && c->device && c->ended;
  }));
}

}  // namespace grapevine::testing
