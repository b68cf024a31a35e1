#include "actors/state.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "actors/guest_seat.hpp"
#include "kernels/check.hpp"

namespace grapevine {

State::State(caf::actor_config& config, StateDependencies deps)
    : StateActor::base(config),
      deps_(std::move(deps)),
      method_(method_named(deps_.method)),
      execution_{deps_.pool.get()},
      snapshots_(deps_.objective->layout().size(), deps_.objective->layout().dtype(),
                 deps_.snapshots),
      chunks_(pool_of(deps_.chunk_size, deps_.objective->layout().dtype(), deps_.chunks)),
      expected_(deps_.audits ? deps_.objective->layout().size() : 0, DType::f64) {}

// What goes to other ranks. A small payload is copied sooner than handed over where it lies.
std::unique_ptr<SnapshotPool> State::pool_of(size_t size, DType dtype, size_t capacity) const {
  constexpr size_t kLeastSharedBytes = 64 << 10;
  const auto memory =
      size * size_of(dtype) >= kLeastSharedBytes ? deps_.memory : SnapshotPool::Memory::own;
  return std::make_unique<SnapshotPool>(size, dtype, capacity, memory);
}

State::Member* State::find(int rank) {
  const auto place = static_cast<size_t>(rank / deps_.groups);
  return place < members_.size() && members_[place].rule ? &members_[place] : nullptr;
}

// Every call into a rule is made in here, for rules of the caller's own may throw. False: it has.
template <class Work>
bool State::guarded(int rank, Work&& work) {
  std::string text = "what it threw is no std::exception";
  try {
    work();
    return true;
  } catch (const std::exception& e) {
    if (!deps_.on_throw) throw;
    text = e.what();
  } catch (...) {
    if (!deps_.on_throw) throw;
  }
  deps_.on_throw("the rule of rank " + std::to_string(rank), text);
  drop(rank);
  return false;
}

// expected += sign_before (x + x~) before the change and sign_after (x + x~) after it.
template <class Change>
void State::audited(Member& member, double sign_before, double sign_after, Change&& change) {
  const double now = deps_.clock.now();
  auto add = [&](double sign) {
    if (!deps_.audits || sign == 0 || !member.rule->conserves()) return;
    Buffer sum(expected_.size(), DType::f64);
    member.rule->add_conserved(now, sum);
    axpy(execution_, sign, sum, expected_);
  };
  add(sign_before);
  change();
  add(sign_after);
}

Lease State::read(Member& member) {
  Lease lease = snapshots_.take();
  if (lease) member.rule->read(deps_.clock.now(), lease.writable());
  return lease;
}

void State::decline(const TakeRequest& request) {
  send(caf::actor_cast<CommunicatorActor>(current_sender()), Taken{request.take.ticket, {}, 0});
}

void State::take(const TakeRequest& request) {
  Member* member = find(request.rank);
  if (member == nullptr) return decline(request);  // not attached yet, or gone
  Payload payload;
  if (is(Pattern::pairwise)) {
    payload.lease = messages_->take();
    if (payload) pairwise(*member).snapshot(deps_.clock.now(), request.take.exchange, payload);
  } else {
    payload.lease = chunks_->take();
    const Vec part = collective(*member).part(request.take.offset, request.take.count);
    if (payload) scale(execution_, 1, part, payload.writable(part.dtype, part.size));
  }
  const double bound = bound_of(*member, request.take.exchange.peer);
  send(member->communicator, Taken{request.take.ticket, std::move(payload), bound});
}

// The messages of a phase, to whoever holds the conversation. Where no buffer is left, as if lost.
void State::write(Member& member, int phase) {
  Messages messages{member.epoch, phase, {}};
  auto add = [&](int peer, size_t edge) {
    Payload payload{messages_->take()};
    if (payload) rounds(member).write(phase, edge, payload);
    messages.outgoing.push_back({peer, std::move(payload)});
  };
  if (rounds(member).broadcasts()) {
    add(-1, 0);
  } else {
    size_t edge = 0;
    for (const auto& neighbour : rounds(member).neighbourhood().neighbours)
      add(neighbour.rank, edge++);
  }
  send(member.communicator, std::move(messages));
}

void State::combine(Member& member, Apply& a) {
  const auto& near = rounds(member).neighbourhood().neighbours;
  if (const double own = rounds(member).addition(); own > 0)
    edge(member, member.rank).expected.learn(own);
  for (size_t k = 0; k < a.incoming.size(); ++k) {
    if (!a.incoming[k]) continue;
    const int peer = near.size() == a.incoming.size() ? near[k].rank : -1;
    if (!sound(member, peer, rounds(member).distance(k, a.incoming[k]), 0)) a.incoming[k] = {};
  }
  rounds(member).combine(deps_.clock.now(), a.phase, a.incoming);
  if (a.phase + 1 < rounds(member).phases()) return write(member, a.phase + 1);
  if (!method_.waits) write(member, 0);
  ++member.gradients;
  count_exchange(member);
  if (member.owes_copy) pay_copy(member);
}

// --- what is left out because it is too far off

State::Edge& State::edge(Member& member, int peer) {
  const auto earlier = [](const Edge& known, int rank) { return known.peer < rank; };
  const auto at = std::lower_bound(member.edges.begin(), member.edges.end(), peer, earlier);
  if (at != member.edges.end() && at->peer == peer) return *at;
  return *member.edges.insert(at, {peer, {}});
}

bool State::adds_alike(const Member& member) const {
  return is(Pattern::rounds) && std::any_of(member.edges.begin(), member.edges.end(),
                                            [&](const Edge& e) { return e.peer == member.rank; });
}

// Of a peer that nothing is known about: a thousand times the largest level of the others, or ten
// times as far as this rank has come, a thousand times while it has hardly begun. Where ranks add
// what is alike, a peer may also do as the others and this rank itself do. Where no rank takes
// steps none can diverge.
double State::bound_of(Member& member, int peer) {
  constexpr double kUnknown = 1000, kAsFar = 10;
  constexpr uint64_t kBegun = 32;  // gradients
  if (!deps_.objective->has_workers()) return kNever;
  double known = 0, others = 0;
  for (const Edge& e : member.edges) {
    if (!e.expected.known()) continue;
    if (e.peer == peer) known = e.expected.bound();
    if (e.peer != peer) others = std::max(others, e.expected.level());
  }
  if (adds_alike(member)) return std::max(known, ExpectedDistance::kFarther * others);
  if (known > 0) return known;
  if (is(Pattern::collective)) return kNever;  // at all ranks alike
  const double farthest = kUnknown * others;
  const double times = member.gradients < kBegun ? kUnknown : kAsFar;
  const double most = std::max(farthest, times * reach(member));
  return most > 0 ? most : kNever;
}

// In the norm of the distances that are judged; 0: it has not moved yet.
double State::reach(Member& member) {
  const bool moved = is(Pattern::rounds) || member.gradients > 0;
  if (is(Pattern::collective) || !moved) return 0;
  const ParameterLayout& layout = deps_.objective->layout();
  Buffer start(layout.size(), layout.dtype()), x(layout.size(), layout.dtype());
  deps_.objective->initial_point(member.rank % deps_.ranks, start);
  if (is(Pattern::rounds)) return rounds(member).reach(start);
  member.rule->read(deps_.clock.now(), x);
  return std::sqrt(square_distance(execution_, x, start));
}

// What is left out raises what is expected, so that ranks which have drifted apart meet again; but
// no sum gets better by what one rank adds to it.
bool State::sound(Member& member, int peer, double distance, uint64_t number) {
  const bool is_sound = std::isfinite(distance) && distance <= bound_of(member, peer);
  const bool adds = peer == member.rank || adds_alike(member);
  ExpectedDistance& known = edge(member, peer).expected;
  if (is_sound || (known.known() && !adds)) known.learn(distance);
  if (!is_sound) send(member.communicator, Skipped{peer, number});
  return is_sound;
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

// Both ends judge the same two snapshots by the same bound, so either both apply the jump or none.
void State::jump(Member& member, Apply& a) {
  const double distance = std::sqrt(square_distance(execution_, a.sent.vec(), a.received.vec()));
  Edge& known = edge(member, a.exchange.peer);
  const bool is_sound = std::isfinite(distance) && distance <= a.bound;
  if (is_sound || known.expected.known()) known.expected.learn(distance);
  const double moved = is_sound ? (0.5 + a.alpha_tilde) * distance : 0;
  known.last_jump = static_cast<float>(moved);
  if (deps_.recorded) note(member.rank, a.exchange, moved);
  if (!is_sound) {
    send(member.communicator, Skipped{a.exchange.peer, a.exchange.number});
    return;
  }
  pairwise(member).jump(deps_.clock.now(), a.exchange, a.sent, a.received, a.alpha_tilde);
  count_exchange(member);
  // What is sent may be less than the parameters: a part of low rank says no distance.
  if (deps_.measures_distance && a.sent.count == deps_.objective->layout().size())
    distances_[{member.rank, a.exchange.peer}] = distance;
}

// A gradient that is far off what this rank's own were before is not added: the others go on
// without it.
void State::begin(Member& member, const Apply& a) {
  collective(member).begin(deps_.clock.now(), a.vector);
  if (a.vector != 0 || a.contributions == 1) return;
  const Vec own = collective(member).part(0, deps_.objective->layout().size());
  if (sound(member, member.rank, std::sqrt(dot(execution_, own, own)), 0)) return;
  const Buffer none(own.size, own.dtype);
  scale(execution_, 1, none, own);
}

// All ranks have the same sum and have had the same ones before in this epoch, so all drop a round
// or none does. Where nobody has added anything, each finds that the others are as far off as it.
void State::finish(Member& member, const Apply& a) {
  const bool gradient = a.vector == 0;
  int contributions = a.contributions;
  if (contributions > 1) {
    const Vec sum = collective(member).part(0, deps_.objective->layout().size());
    const double norm = std::sqrt(dot(execution_, sum, sum));
    if (gradient && norm == 0) edge(member, member.rank).expected = {};
    const bool keeps = gradient ? sound(member, -1, norm, 0) : std::isfinite(norm);
    if (!keeps) contributions = 0;
  }
  const Guest* guest = this->guest(member);
  const bool is_guests = guest != nullptr && guest->owed != nullptr;
  const bool leases = gradient && member.owes_copy && !is_guests;
  Lease copy = leases ? snapshots_.take() : Lease{};
  audited(member, -1, 1, [&] {
    collective(member).finish(deps_.clock.now(), a.vector, contributions,
                              copy ? copy.writable() : Vec{});
  });
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
  switch (a.operation) {
    case Apply::Operation::jump: return jump(*member, a);
    case Apply::Operation::missing:
      broken_after_norm_ += static_cast<double>(edge(*member, a.exchange.peer).last_jump);
      return;
    case Apply::Operation::add:
      return axpy(execution_, 1, a.received.vec(), collective(*member).part(a.offset, a.count));
    case Apply::Operation::assign:
      return scale(execution_, 1, a.received.vec(), collective(*member).part(a.offset, a.count));
    case Apply::Operation::combine: return combine(*member, a);
    case Apply::Operation::begin: return begin(*member, a);
    case Apply::Operation::finish: return finish(*member, a);
  }
}

void State::gradient(Gradient& g) {
  Member* member = find(g.rank);
  if (member == nullptr) return;
  const double now = deps_.clock.now();
  if (!is(Pattern::pairwise)) {
    const bool together = member->rule->communicates(member->gradients);
    audited(*member, -1, 1, [&] { member->rule->on_gradient(now, g.lr, g.g.vec(), {}); });
    member->owes_copy = g.wants_copy;
    if (!together) {
      ++member->gradients;
      if (g.wants_copy) send_copy(*member, read(*member));
      return;
    }
    return step_together(*member);
  }
  Lease copy = g.wants_copy ? snapshots_.take() : Lease{};
  audited(*member, -1, 1,
          [&] { member->rule->on_gradient(now, g.lr, g.g.vec(), copy ? copy.writable() : Vec{}); });
  ++member->gradients;
  if (g.wants_copy) send_copy(*member, std::move(copy));
}

// The local part of a round is done.
void State::step_together(Member& member) {
  if (is(Pattern::rounds) && method_.waits) return write(member, 0);
  send(member.communicator, Messages{member.epoch, 0, {}});
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
  if (!std::exchange(step.seat->steps, false)) return show(*member, std::move(step.seat));
  const bool together = !is(Pattern::pairwise) && member->rule->communicates(member->gradients);
  audited(*member, -1, 1, [&] {
    GuestSeat& seat = *step.seat;
    seat.finite = member->rule->take(deps_.clock.now(), seat.front, seat.base);
  });
  if (together) {
    member->owes_copy = true;
    guest.owed = std::move(step.seat);
    return step_together(*member);
  }
  ++member->gradients;
  if (!is(Pattern::pairwise)) return show(*member, std::move(step.seat));
  send(member->worker, Parameters{{}, member->gradients, std::move(step.seat), guest.exchanges});
}

void State::show(Member& member, std::shared_ptr<GuestSeat> seat) {
  const double now = deps_.clock.now();
  member.rule->read(now, seat->front);
  member.rule->read(now, seat->base);
  const Guest* known = guest(member);
  const uint64_t exchanges = known != nullptr ? known->exchanges : 0;
  send(member.worker, Parameters{{}, member.gradients, std::move(seat), exchanges});
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

// --- ranks that come, go on elsewhere, and go

Donation State::donate(Member& member, bool whole) {
  const RuleState state = member.rule->state(deps_.clock.now());
  return std::make_shared<RankState>(RankState{save(execution_, state, whole), member.gradients});
}

void State::attach(Attach& a) {
  if (Member* known = find(a.rank)) {  // only its worker is new
    known->worker = a.worker;
    return;
  }
  const ParameterLayout& layout = deps_.objective->layout();
  Buffer x(layout.size(), layout.dtype());
  deps_.objective->initial_point(a.rank % deps_.ranks, x);
  const auto place = static_cast<size_t>(a.rank / deps_.groups);
  if (members_.size() <= place) members_.resize(place + 1);
  Member& member = members_[place];
  member.rank = a.rank;
  member.rule = method_.make({a.rank, deps_.seed, layout, execution_, deps_.rule, x});
  if (!messages_ && !is(Pattern::collective)) {
    const size_t bytes =
        is(Pattern::pairwise) ? pairwise(member).snapshot_bytes() : rounds(member).message_bytes();
    messages_ = pool_of(bytes, DType::bytes, deps_.messages);
  }
  member.communicator = a.communicator;
  member.worker = a.worker;
  if (a.donation) take_over(member, *a.donation);
  if (a.record && a.record->gradients >= member.gradients) go_on_from(member, std::move(a.record));
  audited(member, 0, 1, [] {});
}

void State::take_over(Member& member, const RankState& donated) {
  const double now = deps_.clock.now();
  member.rule->reset(now, donated.vectors.front().vec());
  restore(execution_, donated, member.rule->state(now));
  member.gradients = donated.gradients;
}

void State::go_on_from(Member& member, RankRecordPtr record) {
  const double now = deps_.clock.now();
  member.rule->reset(now, record->vectors.front().values);
  recall(execution_, *record, member.rule->state(now), Recalled::rank);
  deps_.objective->set_statistics(member.rank % deps_.ranks, record->gradients, record->statistics);
  member.gradients = record->gradients;
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

RankRecordPtr State::record(Member& member) {
  const RuleState state = member.rule->state(deps_.clock.now());
  auto record = std::make_shared<RankRecord>(record_of(execution_, state));
  record->rank = member.rank;
  record->gradients = member.gradients;
  const ParameterLayout& statistics = deps_.objective->statistics();
  record->statistics = Buffer(statistics.size(), statistics.dtype());
  deps_.objective->read_statistics(member.rank % deps_.ranks, record->statistics);
  for (const auto& [ends, history] : histories_)
    if (ends.first == member.rank) record->edges.push_back(history);
  return record;
}

void State::set_view(Member& member, const View& view) {
  if (is(Pattern::pairwise)) pairwise(member).set_eta(deps_.clock.now(), view.eta);
  if (is(Pattern::collective) && view.epoch != member.epoch)
    std::erase_if(member.edges, [&](const Edge& e) { return e.peer != member.rank; });
  if (is(Pattern::collective) && !view.ring.empty()) {
    member.epoch = view.epoch;
    const ParameterLayout& layout = deps_.objective->layout();
    const size_t part = layout.size() / view.ring.size() + 1;
    if (part > deps_.chunk_size) {  // fewer ranks have larger parts
      deps_.chunk_size = part;
      chunks_ = pool_of(part, layout.dtype(), deps_.chunks);
    }
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
  inherit(member);
}

// Not before those who left are out of the epoch: what is under way when it changes is dropped.
void State::inherit(Member& member) {
  std::erase_if(heirlooms_, [&](const Inherit& i) {
    if (i.rank != member.rank || i.epoch > member.epoch) return false;
    member.rule->inherit(i.x.vec(), i.weight);
    return true;
  });
}

void State::detach(int rank) {
  Member* member = find(rank);
  if (member == nullptr) return;
  audited(*member, -1, 0, [] {});
  drop(rank);
}

void State::drop(int rank) {
  std::erase_if(heirlooms_, [rank](const Inherit& i) { return i.rank == rank; });
  const auto of_rank = [rank](const auto& of_edge) { return of_edge.first.first == rank; };
  std::erase_if(distances_, of_rank);
  std::erase_if(histories_, of_rank);
  resumed_.erase(rank);
  guests_.erase(rank);
  if (Member* member = find(rank)) *member = {};
}

// --- what it tells of its ranks

SampleReply State::sample(const Sample& request) {
  const size_t size = deps_.objective->layout().size();
  Buffer sum(size, DType::f64);
  Buffer x(size, deps_.objective->layout().dtype());
  const ConstVec reference(request.reference->data(), request.reference->size(), DType::f64);
  SampleReply reply;
  for (Member& member : members_) {
    if (!member.rule) continue;
    guarded(member.rank, [&] {
      member.rule->read(deps_.clock.now(), x);
      reply.squares += add_deviation(execution_, x, reference, sum);
      ++reply.ranks;
    });
  }
  const double* first = sum.vec().as<double>();
  reply.sum = std::make_shared<const std::vector<double>>(first, first + size);
  return reply;
}

StateReport State::report() {
  StateReport report;
  report.broken_after_norm = broken_after_norm_;
  for (Member& member : members_) {
    if (!member.rule) continue;
    guarded(member.rank, [&] { report.counts.push_back({member.rank, member.rule->counts()}); });
  }
  for (const auto& [ends, distance] : distances_)
    report.distances.push_back({ends.first, ends.second, distance});
  return report;
}

RankParameters State::parameters_of(Member& member) {
  const ParameterLayout& layout = deps_.objective->layout();
  auto x = std::make_shared<Buffer>(layout.size(), layout.dtype());
  member.rule->read(deps_.clock.now(), *x);
  return {member.rank, member.rule->counts(), std::move(x)};
}

Collected State::collect() {
  Collected result;
  result.broken_after_norm = broken_after_norm_;
  const ParameterLayout& layout = deps_.objective->layout();
  Buffer sum(layout.size(), DType::f64);
  bool audited = deps_.audits;
  for (const Inherit& i : std::exchange(heirlooms_, {})) {  // no other epoch comes for them
    guarded(i.rank, [&] {
      if (Member* m = find(i.rank)) m->rule->inherit(i.x.vec(), i.weight);
    });
  }
  for (Member& member : members_) {
    if (!member.rule) continue;
    guarded(member.rank, [&] {
      auto x = std::make_shared<Buffer>(layout.size(), layout.dtype());
      member.rule->read(deps_.clock.now(), *x);
      if (audited) member.rule->add_conserved(deps_.clock.now(), sum);
      // Ranks in the middle of different rounds have no common sum.
      const bool halfway = is(Pattern::rounds) && member.gradients != members_[0].gradients;
      audited = audited && member.rule->conserves() && !halfway;
      result.ranks.push_back({member.rank, member.rule->counts(), std::move(x)});
    });
  }
  result.conserved_error = audited ? 0 : std::numeric_limits<double>::quiet_NaN();
  for (size_t k = 0; audited && k < layout.size(); ++k) {
    const double off = sum.vec().as<double>()[k] - expected_.vec().as<double>()[k];
    result.conserved_error = std::max(result.conserved_error, std::abs(off));
  }
  return result;
}

State::behavior_type State::make_behavior() {
  return {
      [this](TakeRequest& r) {
        const bool taken = guarded(r.rank, [&] { take(r); });
        if (!taken) decline(r);
      },
      [this](WriteRequest& r) {
        guarded(r.rank, [&] {
          if (Member* m = find(r.rank)) write(*m, r.write.phase);
        });
      },
      [this](ApplyRequest& r) { guarded(r.rank, [&] { apply(r); }); },
      [this](Gradient& g) { guarded(g.rank, [&] { gradient(g); }); },
      [this](TakeStep& step) { guarded(step.rank, [&] { take_step(step); }); },
      [this](Fetch f) {
        guarded(f.rank, [&] {
          Member* m = find(f.rank);
          if (m == nullptr) return;
          // None is left: a worker behind its clock has asked before, and those wait for it.
          if (Lease copy = read(*m)) send_copy(*m, std::move(copy));
        });
      },
      [this](SetView& s) {
        guarded(s.rank, [&] {
          if (Member* m = find(s.rank)) set_view(*m, *s.view);
        });
      },
      [this](Attach& a) { guarded(a.rank, [&] { attach(a); }); },
      [this](Detach d) { guarded(d.rank, [&] { detach(d.rank); }); },
      [this](Inherit& i) {
        guarded(i.rank, [&] {
          Member* m = find(i.rank);
          if (m == nullptr) return;
          heirlooms_.push_back(std::move(i));
          inherit(*m);
        });
      },
      [this](Donate d) -> Donation {
        Donation donation;
        guarded(d.rank, [&] {
          if (Member* m = find(d.rank)) donation = donate(*m, d.whole);
        });
        return donation;
      },
      [this](RecordRank r) -> RankRecordPtr {
        RankRecordPtr kept;
        guarded(r.rank, [&] {
          if (Member* m = find(r.rank)) kept = record(*m);
        });
        return kept;
      },
      [this](Sample& s) { return sample(s); },
      [this](ReadRank r) {
        RankParameters parameters{r.rank, {}, nullptr};
        guarded(r.rank, [&] {
          if (Member* m = find(r.rank)) parameters = parameters_of(*m);
        });
        return parameters;
      },
      [this](Collect) { return collect(); },
      [this](Report) { return report(); },
  };
}

void State::on_exit() {
  members_.clear();
  deps_.objective.reset();
}

}  // namespace grapevine
