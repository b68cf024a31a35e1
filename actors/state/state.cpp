#include "actors/state/state.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <new>
#include <optional>
#include <stdexcept>
#include <utility>

#include "actors/guests/guest_seat.hpp"
#include "actors/state/device_sample.hpp"
#include "actors/state/rank_record.hpp"
#include "kernels/base/check.hpp"
#include "kernels/memory/snapshot_pool.hpp"

namespace grapevine {

namespace {

template <class Holders, class Of>
std::vector<Buffer*> pointers_to(Holders& holders, Of of) {
  std::vector<Buffer*> pointers;
  for (auto& holder : holders)
    pointers.push_back(of(holder));
  return pointers;
}

void add_far_edges(int rank, const Guard& guard, std::vector<FarEdge>& far) {
  if (const auto by = guard.apart_by()) far.push_back({rank, Guard::kAll, true, true, *by, *by});
  for (const Guard::Edge& e : guard.edges()) {
    const bool is_finite = e.verdict != Guard::Verdict::not_finite;
    if (!is_finite || Guard::is_spent(e))
      far.push_back({rank, e.peer, is_finite, false, static_cast<double>(e.distance),
                     static_cast<double>(e.peer_distance)});
  }
}

}  // namespace

State::State(caf::actor_config& config, StateDependencies deps)
    : StateActor::base(config),
      deps_(std::move(deps)),
      method_(method_named(deps_.method)),
      execution_{deps_.pool.get()},
      turns_(deps_.device.get(), turns_owner()),
      fronts_(deps_.device.get(), turns_) {
  if (deps_.device) execution_ = deps_.device->execution();
  const ParameterLayout& layout = deps_.objective->layout();
  snapshots_ =
      deps_.device
          ? deps_.device->make_pool(layout.size(), layout.dtype(), deps_.pools.snapshots)
          : std::make_unique<SnapshotPool>(layout.size(), layout.dtype(), deps_.pools.snapshots);
  if (is(Pattern::collective)) have_chunks(deps_.pools.parts);
  expected_ = Buffer(execution_, deps_.audits ? layout.size() : 0, DType::f64);
}

// What goes to other ranks. A small payload is copied sooner than handed over where it lies.
std::unique_ptr<SnapshotPool> State::pool_of(size_t size, DType dtype, size_t capacity,
                                             SnapshotPool::Memory memory) const {
  if (deps_.device) return deps_.device->make_lent_pool(size, dtype, capacity);
  constexpr size_t kLeastSharedBytes = 64 << 10;
  if (size * size_of(dtype) < kLeastSharedBytes) memory = SnapshotPool::Memory::own;
  return std::make_unique<SnapshotPool>(size, dtype, capacity, memory);
}

// For good: ranks hear of a ring at different times, and it may be as large again later.
void State::have_chunks(const RingParts& parts) {
  for (const Chunks& chunks : chunks_)
    if (chunks.parts.most == parts.most) return;
  const DType dtype = deps_.objective->layout().dtype();
  chunks_.push_back({parts, pool_of(parts.size, dtype, parts.count, deps_.memory)});
}

Lease State::chunk(size_t count) {
  Chunks* best = nullptr;
  for (Chunks& chunks : chunks_) {
    const bool fits = chunks.parts.size >= count;
    if (fits && (best == nullptr || chunks.parts.size < best->parts.size)) best = &chunks;
  }
  GV_CHECK(best != nullptr);  // who takes a part has heard of its ring
  return slot(*best->pool);
}

State::Member* State::find(int rank) {
  const auto place = static_cast<size_t>(rank / deps_.groups);
  return place < members_.size() && members_[place].rule ? &members_[place] : nullptr;
}

// --- what waits

DeviceTurns::Owner State::turns_owner() {
  constexpr double kLook_s = 1;
  DeviceTurns::Owner owner;
  owner.on_fence = [this](uint64_t ticket) {
    return [self = caf::actor_cast<StateActor>(this), ticket](Fate fate) {
      caf::anon_send(self, Arrived{ticket, fate != Fate::ok});
    };
  };
  owner.guarded = [this](int rank, const std::function<void()>& work) { guarded(rank, work); };
  owner.look_later = [this] {
    scheduled_send(caf::actor_cast<StateActor>(this),
                   deps_.clock.instant(deps_.clock.now() + kLook_s), Tick{});
  };
  return owner;
}

// then(member), in which all sums are known that ask() has asked for.
template <class Ask, class Then>
void State::foresee(Member& member, Ask&& ask, Then&& then) {
  turns_.foresee(member.rank, ask, [this, rank = member.rank, then] {
    if (Member* m = find(rank)) then(*m);
  });
}

// What is done for no rank in particular, where a device may be full.
template <class Work>
void State::within_memory(Work&& work) {
  try {
    work();
  } catch (const std::bad_alloc&) {
    if (!deps_.device || !deps_.on_throw) throw;
    lose_ranks("it has too little memory left");
  }
}

void State::lose_device() {
  deps_.device->set_lost();
  turns_.close(true);
  lose_ranks("it is lost, and its ranks with it");
}

// Whoever waits is told: with a rank that is gone, or with nothing.
void State::lose_ranks(const char* why) {
  turns_.close(false);
  for (const Member& member : members_) {
    if (!member.rule) continue;
    send(member.communicator, Order::leave);  // no exchange of theirs is answered any more
    drop(member.rank);
  }
  turns_.dismiss();
  if (deps_.on_throw) deps_.on_throw("the device of this process", why);
}

// Empty: all are out.
Lease State::slot(SnapshotPool& pool, Where where) {
  return deps_.device ? pool.take(execution_.stream, where) : pool.take();
}

// All that is queued on a device so far; null: it has happened.
Fence State::queued(Where where) {
  Fence fence;
  if (deps_.device)
    static_cast<void>(deps_.device->fences().record(execution_.stream, fence, where));
  return fence;
}

Lease State::read(Member& member) {
  Lease lease = slot(*snapshots_);
  if (!lease) return lease;
  member.rule->read(deps_.clock.now(), lease.writable());
  if (deps_.device) lease.set_ready(queued());
  return lease;
}

// Whoever asks is told in any case.
void State::take_in_turn(const TakeRequest& r) {
  const auto serve = [this, r](const CommunicatorActor& asker) {
    const bool served = guarded(r.rank, [&] {
      if (Member* member = find(r.rank)) return take(*member, r);
      send(asker, Taken{r.take.ticket, {}, 0});  // not attached yet, or gone
    });
    if (!served) send(asker, Taken{r.take.ticket, {}, 0});
  };
  const auto asker = caf::actor_cast<CommunicatorActor>(current_sender());
  if (!turns_.is_held(r.rank)) return serve(asker);
  turns_.wait(r.rank, [serve, asker] { serve(asker); });
}

void State::take(Member& member, const TakeRequest& request) {
  Payload payload;
  if (is(Pattern::pairwise)) {
    payload.lease = slot(*messages_);
    if (payload) pairwise(member).snapshot(deps_.clock.now(), request.take.exchange, payload);
  } else {
    payload.lease = chunk(request.take.count);
    const Vec part = collective(member).part(request.take.offset, request.take.count);
    if (payload) scale(execution_, 1, part, payload.writable(part.dtype, part.size));
  }
  const Limits limits = member.guard.limits(request.take.exchange.peer);
  send(member.communicator, Taken{request.take.ticket, std::move(payload), limits});
}

void State::write_phase(WriteRequest& r) {
  if (Member* member = find(r.rank)) write(*member, r.write.phase);
}

// The messages of a phase, to whoever holds the conversation; empty where no buffer is left.
void State::write(Member& member, int phase) {
  Messages messages{member.epoch, phase, {}};
  bool has_room = true;
  const auto written = [&](size_t edge) {
    Payload payload{slot(*messages_)};
    has_room = has_room && payload;
    if (payload) rounds(member).write(phase, edge, payload);
    return payload;
  };
  const auto& neighbours = rounds(member).neighbourhood().neighbours;
  const Payload for_all = rounds(member).broadcasts() ? written(0) : Payload{};
  std::vector<Limits>& told = told_[member.rank];
  told.clear();
  for (size_t edge = 0; edge < neighbours.size(); ++edge) {
    const int peer = neighbours[edge].rank;
    told.push_back(member.guard.limits(peer));
    messages.outgoing.push_back(
        {peer, rounds(member).broadcasts() ? for_all : written(edge), told.back()});
  }
  if (method_.one_peer) messages.outgoing.assign(1, {-1, for_all, {}});  // whose turn it is
  if (method_.waits) note_room(member.rank, has_room);
  send(member.communicator, std::move(messages));
}

// Who waits for a buffer asks again every now and then. It comes when others go on; where each of
// them waits for one too, the graph of this epoch is too much for the pool.
void State::note_room(int rank, bool has_room) {
  constexpr int kMost = 1000;
  if (has_room) return void(without_room_.erase(rank));
  if (++without_room_[rank] <= kMost) return;
  throw std::runtime_error(
      "no room for its messages: the graph has more edges than that of the "
      "start, for which memory was taken");
}

// --- rounds

// Where the method's schedule says who sends, it is nobody's edge.
int State::sender(Member& member, size_t places, size_t k) {
  const auto& near = rounds(member).neighbourhood().neighbours;
  return near.size() == places ? near[k].rank : Guard::kAll;
}

void State::combine(Member& member, Apply& a) {
  const Limits of_all = member.guard.limits(Guard::kAll);
  std::vector<Received> received = judge_messages(member, a);
  if (!rounds(member).pulls()) return end_phase(member, a.phase, received);
  if (!deps_.device) return judge_pull(member, a.phase, std::move(received), of_all);
  turns_.afterwards([this, rank = member.rank, phase = a.phase, received, of_all] {
    if (Member* m = find(rank)) judge_pull(*m, phase, received, of_all);
  });
}

std::vector<Received> State::judge_messages(Member& member, Apply& a) {
  RoundRule& rule = rounds(member);
  const std::vector<Limits>& told = told_[member.rank];
  std::vector<Received> received(a.incoming.size());
  for (size_t k = 0; k < received.size(); ++k) {
    Payload& payload = a.incoming[k];
    if (!payload) continue;
    const int peer = sender(member, received.size(), k);
    const bool agree = rule.ends_agree() && k < told.size();
    const Limits own = agree ? told[k] : member.guard.limits(peer, rule.ranks_in(k, payload));
    const Limits theirs = agree ? a.limits[k] : Limits{};
    const double share =
        share_of(member, peer, member.guard.judge(peer, rule.distance(k, payload), own, theirs));
    const bool is_finite = member.guard.at(peer).verdict != Guard::Verdict::not_finite;
    if (is_finite) received[k] = {std::move(payload), share};
  }
  return received;
}

// Of methods whose messages cannot be judged one by one: what the phase moves x by.
void State::judge_pull(Member& member, int phase, std::vector<Received> received,
                       const Limits& of_all) {
  const Vec pull = rounds(member).pull(phase, received);
  foresee(
      member, [&] { dot(execution_, pull, pull); },
      [this, pull, phase, of_all, received = std::move(received)](Member& m) {
        const double norm = std::sqrt(dot(execution_, pull, pull));
        const double share = share_of(m, Guard::kAll, m.guard.judge(Guard::kAll, norm, of_all, {}));
        if (share < 1) moves_alone_ = true;
        if (share == 0) fill(execution_, 0, pull);
        if (share > 0 && share < 1) scale(execution_, share, pull, pull);
        end_phase(m, phase, received);
      });
}

void State::end_phase(Member& member, int phase, std::span<const Received> received) {
  rounds(member).combine(deps_.clock.now(), phase, received);
  if (phase + 1 < rounds(member).phases()) return write(member, phase + 1);
  if (!method_.waits) write(member, 0);
  ++member.gradients;
  count_exchange(member);
  if (member.owes_copy) pay_copy(member);
}

// --- how long this rank's own steps are, and what its guard says

// step() moves x; its length is |x afterwards - x before|, both as gradients see x. `x_after`:
// where the step itself writes x. Then(member) once the guard knows the step.
template <class Step, class Then>
void State::measured(Member& member, double now, Step&& step, ConstVec x_after, Then&& then) {
  if (is(Pattern::collective)) {  // its own gradient is judged instead
    step();
    return then(member);
  }
  const ParameterLayout& layout = deps_.objective->layout();
  if (before_.size() == 0) before_ = Buffer(execution_, layout.size(), layout.dtype());
  member.rule->read(now, before_);
  step();
  foresee(
      member, [&] { step_length(member, x_after); },
      [this, x_after, then](Member& m) {
        m.guard.stepped(step_length(m, x_after));
        if (!deps_.device) return then(m);
        turns_.afterwards([this, rank = m.rank, then] {
          if (Member* later = find(rank)) then(*later);
        });
      });
}

double State::step_length(Member& member, ConstVec x_after) {
  if (is(Pattern::rounds)) {
    const ConstVec u = rounds(member).step();
    if (u) return std::sqrt(dot(execution_, u, u));
  }
  if (x_after) return std::sqrt(square_distance(execution_, x_after, before_));
  const ParameterLayout& layout = deps_.objective->layout();
  if (after_.size() == 0) after_ = Buffer(execution_, layout.size(), layout.dtype());
  const bool reads = !deps_.device || !execution_.workspace->answers();
  if (reads) member.rule->read(deps_.clock.now(), after_);
  return std::sqrt(square_distance(execution_, after_, before_));
}

double State::share_of(Member& member, int peer, const Guard::Judgement& judged) {
  const bool is_told = judged.verdict == Guard::Verdict::not_finite ||
                       (judged.verdict == Guard::Verdict::far && judged.share < 1);
  if (is_told) send(member.communicator, Judged{peer, judged.verdict});
  return judged.share;
}

void State::note(int rank, const ExchangeKey& exchange, double moved) {
  RankRecord::Edge& end = histories_[{rank, exchange.peer}];
  const bool same =
      end.incarnation == exchange.incarnation && end.peer_incarnation == exchange.peer_incarnation;
  end = {exchange.peer,
         exchange.incarnation,
         exchange.peer_incarnation,
         exchange.number,
         (same ? end.moved : 0.0) + moved,
         moved};
}

// Both ends judge the same two snapshots by the same limits, so both take the same share.
void State::jump(Member& member, Apply& a) {
  const ExchangeKey& exchange = a.exchange;
  const double distance = std::sqrt(square_distance(execution_, a.sent.vec(), a.received.vec()));
  // Low-rank messages of ends that differ say no distance: the rule begins anew and nothing moves.
  const bool alike = a.sent.version == a.received.version;
  const double share = alike
                           ? share_of(member, exchange.peer,
                                      member.guard.judge(exchange.peer, distance, a.own, a.theirs))
                           : 1;
  const double moved = share > 0 ? share * (0.5 + a.alpha_tilde) * distance : 0;
  Guard::Edge& edge = member.guard.at(exchange.peer);
  edge.last_jump = static_cast<float>(moved);
  if (deps_.recorded) note(member.rank, exchange, moved);
  if (share == 0) return;
  pairwise(member).jump(deps_.clock.now(), exchange, a.sent, a.received, a.alpha_tilde, share);
  count_exchange(member);
  // What is sent may be less than the parameters: a part of low rank says no distance.
  if (deps_.measures_distance && a.sent.count == deps_.objective->layout().size())
    edge.seen = static_cast<float>(distance);
}

// A gradient that is far off what this rank's own were before is scaled before it is added.
void State::begin(Member& member, const Apply& a) {
  collective(member).begin(deps_.clock.now(), a.vector);
  if (a.vector != 0 || a.contributions == 1) return;
  const Vec own = collective(member).part(0, deps_.objective->layout().size());
  foresee(
      member, [&] { dot(execution_, own, own); },
      [this, own](Member& m) {
        const double norm = std::sqrt(dot(execution_, own, own));
        const double share = share_of(m, m.rank, m.guard.judge_own(norm));
        if (share == 0) fill(execution_, 0, own);
        if (share > 0 && share < 1) scale(execution_, share, own, own);
      });
}

double State::norm_of_sum(Member& member) {
  const Vec sum = collective(member).part(0, deps_.objective->layout().size());
  return std::sqrt(dot(execution_, sum, sum));
}

// All ranks have the same sum, so all drop a round that is not finite or none does.
void State::finish(Member& member, const Apply& a) {
  const bool gradient = a.vector == 0;
  int contributions = a.contributions;
  if (contributions > 1 && !std::isfinite(norm_of_sum(member))) {
    contributions = 0;
    if (gradient) send(member.communicator, Judged{Guard::kAll, Guard::Verdict::not_finite});
  }
  const Guest* guest = this->guest(member);
  const bool is_guests = guest != nullptr && guest->owed != nullptr;
  const bool leases = gradient && member.owes_copy && !is_guests;
  Lease copy = leases ? slot(*snapshots_) : Lease{};
  audited(member, -1, 1, [&] {
    collective(member).finish(deps_.clock.now(), a.vector, contributions,
                              copy ? copy.writable() : Vec{});
  });
  if (copy && deps_.device) copy.set_ready(queued());
  member.gradients += gradient;
  if (gradient) count_exchange(member);
  if (copy) send_copy(member, std::move(copy));
  if (gradient && is_guests) pay_copy(member);
}

void State::apply(ApplyRequest& request) {
  Member* member = find(request.rank);
  if (member == nullptr) return;
  Apply& a = request.apply;
  const bool part = a.operation == Apply::Operation::add || a.operation == Apply::Operation::assign;
  if (part && a.count == 0) return;  // more ranks than numbers: nothing has crossed a link
  if (!deps_.device) return carry_out(*member, a);
  const auto kept = std::make_shared<Apply>(std::move(a));
  foresee(
      *member, [&] { ask_sums(*member, *kept); },
      [this, kept](Member& now) { carry_out(now, *kept); });
}

// What carry_out will want to know.
void State::ask_sums(Member& member, const Apply& a) {
  switch (a.operation) {
    case Apply::Operation::jump:
      square_distance(execution_, a.sent.vec(), a.received.vec());
      return;
    case Apply::Operation::combine:
      for (size_t k = 0; k < a.incoming.size(); ++k) {
        if (!a.incoming[k]) continue;
        rounds(member).distance(k, a.incoming[k]);
        rounds(member).ranks_in(k, a.incoming[k]);
      }
      return;
    case Apply::Operation::finish:
      if (a.contributions > 1) norm_of_sum(member);
      return;
    default: return;
  }
}

void State::carry_out(Member& member, Apply& a) {
  switch (a.operation) {
    case Apply::Operation::jump: return jump(member, a);
    case Apply::Operation::missing:
      broken_after_norm_ += static_cast<double>(member.guard.at(a.exchange.peer).last_jump);
      return;
    case Apply::Operation::add:
      return axpy(execution_, 1, a.received.vec(), collective(member).part(a.offset, a.count));
    case Apply::Operation::assign:
      return scale(execution_, 1, a.received.vec(), collective(member).part(a.offset, a.count));
    case Apply::Operation::combine: return combine(member, a);
    case Apply::Operation::begin: return begin(member, a);
    case Apply::Operation::finish: return finish(member, a);
  }
}

ConstVec State::read(const Gradient& gradient) {
  if (gradient.g) return gradient.g.vec();
  const ParameterLayout& layout = deps_.objective->layout();
  if (nothing_.size() == 0) {
    nothing_ = Buffer(execution_, layout.size(), layout.dtype());
    fill(execution_, 0, nothing_);
  }
  return nothing_.vec();
}

void State::gradient(Gradient& g) {
  Member* member = find(g.rank);
  if (member == nullptr) return;
  const double now = deps_.clock.now();
  if (!is(Pattern::pairwise)) {
    const bool together = member->rule->communicates(member->gradients);
    const auto step = [&] {
      audited(*member, -1, 1, [&] { member->rule->on_gradient(now, g.lr, read(g), {}); });
    };
    measured(*member, now, step, {}, [this, together, wants_copy = g.wants_copy](Member& m) {
      m.owes_copy = wants_copy;
      if (together) return step_together(m);
      ++m.gradients;
      if (wants_copy) send_copy(m, read(m));
    });
    if (deps_.device && g.g) g.g.read_by(queued());
    return;
  }
  Lease copy = g.wants_copy ? slot(*snapshots_) : Lease{};
  const Vec x_after = copy ? copy.writable() : Vec{};
  const auto step = [&] {
    audited(*member, -1, 1, [&] { member->rule->on_gradient(now, g.lr, read(g), x_after); });
  };
  measured(*member, now, step, x_after, [](Member&) {});
  if (deps_.device) {
    const Fence stepped = queued();
    g.g.read_by(stepped);
    if (copy) copy.set_ready(stepped);
  }
  ++member->gradients;
  if (g.wants_copy) send_copy(*member, std::move(copy));
}

// The local part of a round is done.
void State::step_together(Member& member) {
  if (is(Pattern::rounds) && method_.waits) return write(member, 0);
  send(member.communicator, Messages{member.epoch, 0, {}});
}

void State::fetch(Fetch& f) {
  Member* member = find(f.rank);
  if (member == nullptr) return;
  // None is left: a worker behind its clock has asked before, and those wait for it.
  if (Lease copy = read(*member)) send_copy(*member, std::move(copy));
}

// --- what guests do

State::Guest* State::guest(const Member& member) {
  const auto found = guests_.find(member.rank);
  return found == guests_.end() ? nullptr : &found->second;
}

void State::count_exchange(const Member& member) {
  if (guests_.empty()) return;
  if (Guest* known = guest(member)) ++known->exchanges;
}

void State::take_step(TakeStep& step) {
  Member* member = find(step.rank);
  if (member == nullptr) return;
  Guest& guest = guests_[step.rank];
  if (guest.owed != nullptr) {  // a round is open, of one who has gone
    guest.owed = std::move(step.seat);
    return;
  }
  if (!std::exchange(step.seat->steps, false)) {
    fill(execution_, 1, fronts_.of(step.seat).finite);
    return show(*member, std::move(step.seat));
  }
  fronts_.bring(step.rank, step.seat, [this, rank = step.rank, seat = step.seat] {
    if (Member* m = find(rank)) step_from(*m, seat);
  });
}

// The front is where the rank lives.
void State::step_from(Member& member, std::shared_ptr<GuestSeat> seat) {
  const auto fronts = [this, seat] { return fronts_.of(seat); };
  const auto length = [this, fronts] {
    const auto [front, base, finite] = fronts();
    return std::sqrt(square_distance(execution_, front, base));
  };
  if (is(Pattern::collective)) return take_front(member, std::move(seat));
  foresee(member, length, [this, length, seat](Member& m) {
    m.guard.stepped(length());
    if (!deps_.device) return take_front(m, seat);
    turns_.afterwards([this, rank = m.rank, seat] {
      if (Member* now = find(rank)) take_front(*now, seat);
    });
  });
}

void State::take_front(Member& member, std::shared_ptr<GuestSeat> seat) {
  Guest& guest = guests_[member.rank];
  const bool together = !is(Pattern::pairwise) && member.rule->communicates(member.gradients);
  audited(member, -1, 1, [&] {
    const auto [front, base, finite] = fronts_.of(seat);
    member.rule->take(deps_.clock.now(), front, base, finite);
  });
  if (together) {
    member.owes_copy = true;
    guest.owed = std::move(seat);
    return step_together(member);
  }
  ++member.gradients;
  is(Pattern::pairwise) ? hand_over(member, std::move(seat)) : show(member, std::move(seat));
}

void State::show(Member& member, std::shared_ptr<GuestSeat> seat) {
  const double now = deps_.clock.now();
  const auto [front, base, finite] = fronts_.of(seat);
  member.rule->read(now, front);
  member.rule->read(now, base);
  hand_over(member, std::move(seat));
}

// The front as it is now, which nobody touches before the script has answered.
void State::hand_over(Member& member, std::shared_ptr<GuestSeat> seat) {
  fronts_.hand_over(seat, [this, rank = member.rank, seat, gradients = member.gradients] {
    const Member* m = find(rank);
    if (m == nullptr) return;
    send(m->worker, Parameters{{}, gradients, seat, guests_[rank].exchanges});
  });
}

void State::pay_copy(Member& member) {
  Guest* known = guest(member);
  if (known != nullptr && known->owed != nullptr)
    return show(member, std::exchange(known->owed, nullptr));
  send_copy(member, read(member));
}

void State::send_copy(Member& member, Lease copy) {
  GV_CHECK(static_cast<bool>(copy));  // the pool is sized for one per rank beside the exchanges'
  send(member.worker, Parameters{std::move(copy), member.gradients, {}, 0});
}

template <class Answer>
State::Reply<Answer> State::owe(Answer nothing) {
  auto promise = make_response_promise<Answer>();
  const auto answer = [promise, nothing]() mutable { promise.deliver(nothing); };
  return {this, turns_.owe(answer), promise};
}

template <class Answer, class Message>
caf::typed_response_promise<Answer> State::answered(const Message& message, Answer nothing,
                                                    void (State::*answer)(Member&, const Message&,
                                                                          Reply<Answer>)) {
  const Reply<Answer> reply = owe(nothing);
  const auto serve = [this, message, nothing, answer, reply] {
    bool done = false;
    guarded(message.rank, [&] {
      Member* member = find(message.rank);
      if (member == nullptr) return;
      (this->*answer)(*member, message, reply);
      done = true;
    });
    if (!done) reply(nothing);
  };
  const auto take_turn = [this, rank = message.rank, serve] {
    turns_.hold(rank);
    turns_.with_room([this, rank, serve] {
      serve();
      turns_.release(rank);
    });
  };
  turns_.is_held(message.rank) ? turns_.wait(message.rank, take_turn) : take_turn();
  return reply.promise;
}

State::behavior_type State::make_behavior() {
  if (deps_.device) {
    deps_.device->device().on_lost(
        [self = caf::actor_cast<caf::weak_actor_ptr>(ctrl()), objective = deps_.objective] {
          objective->lose_gpu();  // also of a run that has ended
          if (const auto alive = caf::actor_cast<caf::strong_actor_ptr>(self))
            caf::anon_send(caf::actor_cast<StateActor>(alive), DeviceLost{});
        });
  }
  return {
      [this](TakeRequest& r) { take_in_turn(r); },
      [this](WriteRequest& r) { in_turn(r, &State::write_phase); },
      [this](ApplyRequest& r) { in_turn(r, &State::apply); },
      [this](Gradient& g) { in_turn(g, &State::gradient); },
      [this](TakeStep& step) { in_turn(step, &State::take_step); },
      [this](Fetch& f) { in_turn(f, &State::fetch); },
      [this](SetView& s) { in_turn(s, &State::set_view_of); },
      [this](Attach& a) { in_turn(a, &State::attach); },
      [this](Detach& d) { in_turn(d, &State::detach); },
      [this](Arrived arrived) {
        const auto then = turns_.arrived(arrived.ticket);
        if (then && !arrived.lost) within_memory(then);
      },
      [this](DeviceLost) { lose_device(); },
      [this](DeviceTask& t) {
        t.task();
        turns_.look_soon();
      },
      [this](Tick) { turns_.look(deps_.clock.now()); },
      [this](CopyState d) { return answered(d, RankStatePtr(), &State::copy_state); },
      [this](RecordRank r) { return answered(r, RankRecordPtr(), &State::record); },
      [this](Sample& s) {
        const auto reply = owe(SampleReply());
        turns_.with_room([this, s, reply] { within_memory([&] { sample(s, reply); }); });
        return reply.promise;
      },
      [this](ReadRank r) {
        return answered(r, RankParameters{r.rank, {}, nullptr}, &State::tell);
      },
      [this](Collect) {
        const auto reply = owe(Collected());
        turns_.when_free([this, reply] {
          turns_.with_room([this, reply] { within_memory([&] { collect(reply); }); });
        });
        return reply.promise;
      },
      [this](Report) { return report(); },
  };
}

void State::on_exit() {
  turns_.clear();
  guests_.clear();
  fronts_.clear();
  members_.clear();
  resumed_.clear();
  before_ = Buffer();
  after_ = Buffer();
  common_start_ = Buffer();
  expected_ = Buffer();
  deps_.device.reset();
  deps_.objective.reset();
}

// --- ranks that come, go on elsewhere, and go

void State::copy_state(Member& member, const CopyState& d, Reply<RankStatePtr> reply) {
  const RuleState state = member.rule->state(deps_.clock.now());
  const auto copy = std::make_shared<RankState>(
      RankState{save(execution_, state, d.whole), member.gradients, member.guard.record()});
  turns_.lower(pointers_to(copy->vectors, [](Buffer& b) { return &b; }),
               [copy, reply]() mutable { reply(RankStatePtr(copy)); });
}

void State::attach(Attach& a) {
  if (Member* known = find(a.rank)) {  // only its worker is new
    known->worker = a.worker;
    return;
  }
  if (turns_.is_closed()) return;  // on_throw has been told
  const ParameterLayout& layout = deps_.objective->layout();
  if (!deps_.device) {
    Buffer start(layout.size(), layout.dtype());
    deps_.objective->initial_point(a.rank % deps_.ranks, start);
    return settle_in(a, start, a.state.get(), std::move(a.record));
  }
  turns_.hold(a.rank);
  turns_.with_room([this, a, &layout] {
    const auto leave = [this, rank = a.rank] {
      turns_.release(rank);
      turns_.leave_room();
    };
    if (turns_.is_closed()) return leave();
    std::shared_ptr<Buffer> start;  // null: it is there
    if (!common_start_) {
      start = std::make_shared<Buffer>(layout.size(), layout.dtype());
      deps_.objective->initial_point(a.rank % deps_.ranks, *start);
    }
    std::vector<ConstVec> host;
    if (start) host.push_back(*start);
    if (a.state)
      for (const Buffer& v : a.state->vectors)
        host.push_back(v);
    if (a.record)
      for (const RankRecord::Vector& v : a.record->vectors)
        host.push_back(v.values);
    turns_.lift(host, [this, start, a, leave](std::vector<Buffer>& lifted) mutable {
      guarded(a.rank, [&] { settle_in_lifted(a, start != nullptr, lifted); });
      lifted.clear();
      leave();
    });
  });
}

// As settle_in, of copies on the device.
void State::settle_in_lifted(Attach& a, bool brings_start, std::vector<Buffer>& lifted) {
  auto next = lifted.begin();
  if (brings_start && deps_.objective->starts_alike()) common_start_ = std::move(lifted.front());
  const ConstVec start = common_start_ ? common_start_ : lifted.front();
  if (brings_start) ++next;
  std::optional<RankState> state;
  if (a.state) {
    state.emplace();
    state->numbers = a.state->numbers;
    state->whole = a.state->whole;
    state->gradients = a.state->gradients;
    state->guard = a.state->guard;
    for (size_t k = 0; k < a.state->vectors.size(); ++k)
      state->vectors.push_back(std::move(*next++));
  }
  std::shared_ptr<RankRecord> record;
  if (a.record) {
    record = std::make_shared<RankRecord>();
    record->rank = a.record->rank;
    record->gradients = a.record->gradients;
    record->numbers = a.record->numbers;
    record->edges = a.record->edges;
    for (const RankRecord::Vector& v : a.record->vectors)
      record->vectors.push_back({v.name, std::move(*next++)});
  }
  settle_in(a, start, state ? &*state : nullptr, record);
}

// REQUIRES: the vectors are where the ranks live.
void State::settle_in(Attach& a, ConstVec x, const RankState* state, RankRecordPtr record) {
  const ParameterLayout& layout = deps_.objective->layout();
  const auto place = static_cast<size_t>(a.rank / deps_.groups);
  if (members_.size() <= place) members_.resize(place + 1);
  Member& member = members_[place];
  member.rank = a.rank;
  member.guard = Guard(deps_.guarded && deps_.objective->has_workers());
  member.rule = method_.make({a.rank, deps_.seed, layout, execution_, deps_.rule, x});
  if (!messages_ && !is(Pattern::collective)) {
    const size_t bytes =
        is(Pattern::pairwise) ? pairwise(member).snapshot_bytes() : rounds(member).message_bytes();
    messages_ = pool_of(bytes, DType::bytes, deps_.pools.messages, deps_.memory);
  }
  member.communicator = a.communicator;
  member.worker = a.worker;
  if (state != nullptr) take_over(member, *state);
  if (record && record->gradients >= member.gradients) {
    const Buffer& statistics = a.record ? a.record->statistics : record->statistics;
    deps_.objective->set_statistics(a.rank % deps_.ranks, record->gradients, statistics);
    go_on_from(member, std::move(record));
  }
  audited(member, 0, 1, [] {});
}

void State::take_over(Member& member, const RankState& copied) {
  const double now = deps_.clock.now();
  member.rule->reset(now, copied.vectors.front().vec());
  restore(execution_, copied, member.rule->state(now));
  member.gradients = copied.gradients;
  copied.whole ? member.guard.recall(copied.guard) : member.guard.inherit(copied.guard.usual);
}

void State::go_on_from(Member& member, RankRecordPtr record) {
  const double now = deps_.clock.now();
  member.rule->reset(now, record->vectors.front().values);
  recall(execution_, *record, member.rule->state(now), Recalled::rank);
  member.gradients = record->gradients;
  member.guard.recall(guard_of(*record));
  resumed_[member.rank] = std::move(record);
}

// Of edges whose ends are those of the record. In rounds what an edge has fits its other end's
// round alone, and the ends have been recorded in different ones: only a rank without any goes on.
void State::recall_edges(Member& member, const View& view) {
  const auto resumed = resumed_.extract(member.rank);
  if (resumed.empty()) return;
  const RankRecordPtr& record = resumed.mapped();
  if (!is(Pattern::pairwise) && !view.edges.empty()) return;
  for (const RankRecord::Edge& known : record->edges) {
    const auto is_same = [&](const EdgeView& e) {
      return e.peer == known.peer && e.peer_incarnation == known.peer_incarnation &&
             view.incarnation == known.incarnation;
    };
    if (std::any_of(view.edges.begin(), view.edges.end(), is_same))
      member.rule->meet({known.peer, known.incarnation, known.peer_incarnation, 0});
  }
  recall(execution_, *record, member.rule->state(deps_.clock.now()), Recalled::graph);
}

void State::record(Member& member, const RecordRank&, Reply<RankRecordPtr> reply) {
  const int rank = member.rank;
  const RuleState state = member.rule->state(deps_.clock.now());
  const auto record = std::make_shared<RankRecord>(record_of(execution_, state));
  record->rank = rank;
  record->gradients = member.gradients;
  add_guard(*record, member.guard.record());
  const ParameterLayout& statistics = deps_.objective->statistics();
  record->statistics = Buffer(statistics.size(), statistics.dtype());
  deps_.objective->read_statistics(rank % deps_.ranks, record->statistics);
  for (const auto& [ends, history] : histories_)
    if (ends.first == rank) record->edges.push_back(history);
  turns_.lower(pointers_to(record->vectors, [](RankRecord::Vector& v) { return &v.values; }),
               [record, reply]() mutable { reply(RankRecordPtr(record)); });
}

void State::set_view_of(SetView& s) {
  if (Member* member = find(s.rank)) set_view(*member, *s.view);
}

void State::set_view(Member& member, const View& view) {
  if (is(Pattern::pairwise)) pairwise(member).set_eta(deps_.clock.now(), view.eta);
  std::vector<int> peers;
  for (const EdgeView& edge : view.edges)
    peers.push_back(edge.peer);
  member.guard.meet(peers);
  if (is(Pattern::collective) && !view.ring.empty()) {
    member.epoch = view.epoch;
    const ParameterLayout& layout = deps_.objective->layout();
    const auto all = static_cast<size_t>(deps_.ranks);
    have_chunks(RingParts::of(layout.size(), view.ring.size(), all, deps_.pools.ranks));
  }
  if (!is(Pattern::rounds)) {
    recall_edges(member, view);
    return;
  }
  Neighbourhood near;
  near.self_weight = view.self_weight;
  near.ranks = view.ranks;
  near.relay_delay = view.relay_delay;
  for (const EdgeView& e : view.edges)
    near.neighbours.push_back({e.peer, e.weight, e.trees});
  rounds(member).enter(near);
  member.epoch = view.epoch;
  recall_edges(member, view);
}

void State::detach(Detach& d) {
  Member* member = find(d.rank);
  if (member == nullptr) return;
  audited(*member, -1, 0, [] {});
  drop(d.rank);
}

void State::drop(int rank) {
  std::erase_if(histories_, [rank](const auto& of_edge) { return of_edge.first.first == rank; });
  resumed_.erase(rank);
  guests_.erase(rank);
  told_.erase(rank);
  without_room_.erase(rank);
  if (Member* member = find(rank)) *member = {};
}

// --- what it tells of its ranks

// see(member, x) of every rank from `place` on, x its parameters in the host's memory, then done().
void State::read_all(size_t place, Seen see, std::function<void()> done) {
  const ParameterLayout& layout = deps_.objective->layout();
  std::shared_ptr<Buffer> x;
  for (; place < members_.size(); ++place) {
    const int rank = members_[place].rank;
    if (!members_[place].rule) continue;
    if (!x || x.use_count() > 1)
      x = std::make_shared<Buffer>(execution_, layout.size(), layout.dtype());
    if (!guarded(rank, [&] { members_[place].rule->read(deps_.clock.now(), *x); })) continue;
    const auto tell = [this, rank, x, see] {
      guarded(rank, [&] {
        if (Member* member = find(rank)) see(*member, x);
      });
    };
    if (deps_.device)
      return turns_.lower({x.get()}, [this, place, tell, see, done] {
        tell();
        read_all(place + 1, see, done);
      });
    tell();
  }
  done();
}

/// Whether a sample has the rank in it: of ranks that are apart only where all are.
bool State::counts_in_sample(const Member& member) const {
  const auto is_apart = [](const Member& m) { return !m.rule || m.guard.apart_by().has_value(); };
  return !is_apart(member) || std::ranges::all_of(members_, is_apart);
}

void State::sample(const Sample& request, Reply<SampleReply> reply) {
  if (deps_.device) return sample_there(request, reply);
  const size_t size = deps_.objective->layout().size();
  const auto sum = std::make_shared<Buffer>(size, DType::f64);
  const auto all = std::make_shared<SampleReply>();
  const auto see = [this, sum, all, reference = request.reference](Member& member, const auto& x) {
    add_far_edges(member.rank, member.guard, all->far);
    if (!counts_in_sample(member)) return;
    const ConstVec center(reference->data(), reference->size(), DType::f64);
    all->squares += add_deviation({}, *x, center, *sum);
    ++all->ranks;
  };
  read_all(0, see, [sum, all, reply, size]() mutable {
    const auto* first = std::as_const(*sum).vec().as<double>();
    all->sum = std::make_shared<const std::vector<double>>(first, first + size);
    reply(std::move(*all));
  });
}

void State::sample_there(const Sample& request, Reply<SampleReply> reply) {
  const auto sample = std::make_shared<DeviceSample>(execution_, deps_.objective->layout());
  SampleReply all;
  for (const Member& member : members_) {
    if (!member.rule) continue;
    add_far_edges(member.rank, member.guard, all.far);
    if (!counts_in_sample(member)) continue;
    const auto look = [&] { member.rule->read(deps_.clock.now(), sample->place()); };
    if (guarded(member.rank, look)) sample->add();
  }
  auto answer = [sample, reply, all, reference = request.reference]() mutable {
    DeviceSample::About about = sample->about(*reference);
    all.ranks = about.ranks;
    all.squares = about.squares;
    all.sum = std::make_shared<const std::vector<double>>(std::move(about.sum));
    reply(std::move(all));
  };
  sample->is_empty() ? answer() : turns_.lower(sample->found(), answer);
}

StateReport State::report() {
  StateReport report;
  report.broken_after_norm = broken_after_norm_;
  for (Member& member : members_) {
    if (!member.rule) continue;
    for (const Guard::Edge& e : member.guard.edges())
      report.distances.push_back({member.rank, e.peer, static_cast<double>(e.seen),
                                  1 - static_cast<double>(e.used) / Guard::kAllowance});
    guarded(member.rank, [&] { report.counts.push_back({member.rank, member.rule->counts()}); });
  }
  return report;
}

void State::tell(Member& member, const ReadRank& r, Reply<RankParameters> reply) {
  const ParameterLayout& layout = deps_.objective->layout();
  auto x = std::make_shared<Buffer>(execution_, layout.size(), layout.dtype());
  member.rule->read(deps_.clock.now(), *x);
  const RankParameters told{r.rank, member.rule->counts(), x, member.guard.apart_by().has_value(),
                            member.guard.reach()};
  turns_.lower({x.get()}, [told, reply]() mutable { reply(RankParameters(told)); });
}

// The sum over all ranks of what gossip conserves; null: it is not audited, or they have none.
std::shared_ptr<Buffer> State::conserved() {
  auto sum = std::make_shared<Buffer>(execution_, deps_.objective->layout().size(), DType::f64);
  bool audited = deps_.audits && !turns_.is_closed() && !moves_alone_;
  for (Member& member : members_) {
    if (!member.rule || !audited) continue;
    // Ranks in the middle of different rounds have no common sum.
    const bool halfway = is(Pattern::rounds) && member.gradients != members_[0].gradients;
    guarded(member.rank, [&] {
      audited = member.rule->conserves() && !halfway;
      if (audited) member.rule->add_conserved(deps_.clock.now(), *sum);
    });
  }
  return audited ? sum : nullptr;
}

void State::collect(Reply<Collected> reply) {
  const auto result = std::make_shared<Collected>();
  result->broken_after_norm = broken_after_norm_;
  const std::shared_ptr<Buffer> sum = conserved();
  const auto expected = std::make_shared<Buffer>(execution_, expected_.size(), DType::f64);
  if (sum) scale(execution_, 1, expected_, *expected);
  const auto see = [result](Member& member, const std::shared_ptr<Buffer>& x) {
    result->ranks.push_back({member.rank, member.rule->counts(), x,
                             member.guard.apart_by().has_value(), member.guard.reach()});
  };
  read_all(0, see, [this, result, sum, expected, reply] {
    std::vector<Buffer*> both;
    if (sum) both = {sum.get(), expected.get()};
    turns_.lower(both, [result, sum, expected, reply]() mutable {
      result->conserved_error = sum ? 0 : std::numeric_limits<double>::quiet_NaN();
      for (size_t k = 0; sum && k < sum->size(); ++k) {
        const double off = sum->vec().as<double>()[k] - expected->vec().as<double>()[k];
        result->conserved_error = std::max(result->conserved_error, std::abs(off));
      }
      reply(std::move(*result));
    });
  });
}

}  // namespace grapevine
