#include "actors/state/exchanges.hpp"

#include <cmath>
#include <stdexcept>
#include <utility>

#include "kernels/base/check.hpp"

namespace grapevine {

Exchanges::Exchanges(Ranks& ranks, Copies& copies) : ranks_(ranks), copies_(copies) {
  if (ranks.is(Pattern::collective)) have_chunks(ranks.deps.pools.parts);
}

// --- pools

// The pool for snapshots to other ranks. A small payload is copied, which is faster than sharing
// it.
std::unique_ptr<SnapshotPool> Exchanges::pool_of(size_t size, DType dtype, size_t capacity,
                                                 SnapshotPool::Memory memory) const {
  if (ranks_.deps.device) return ranks_.deps.device->make_lent_pool(size, dtype, capacity);
  constexpr size_t kLeastSharedBytes = 64 << 10;
  if (size * size_of(dtype) < kLeastSharedBytes) memory = SnapshotPool::Memory::own;
  return std::make_unique<SnapshotPool>(size, dtype, capacity, memory);
}

void Exchanges::have_messages(StateRank& rank) {
  if (messages_ || ranks_.is(Pattern::collective)) return;
  const size_t bytes = ranks_.is(Pattern::pairwise) ? rank.pairwise().snapshot_bytes()
                                                    : rank.rounds().message_bytes();
  messages_ = pool_of(bytes, DType::bytes, ranks_.deps.pools.messages, ranks_.deps.memory);
}

// A pool is never freed: ranks learn of a new ring at different times, and a later ring may have
// the same size.
void Exchanges::have_chunks(const RingParts& parts) {
  for (const Chunks& chunks : chunks_)
    if (chunks.parts.most == parts.most) return;
  chunks_.push_back(
      {parts, pool_of(parts.size, ranks_.layout().dtype(), parts.count, ranks_.deps.memory)});
}

Lease Exchanges::chunk(size_t count) {
  Chunks* best = nullptr;
  for (Chunks& chunks : chunks_) {
    const bool fits = chunks.parts.size >= count;
    if (fits && (best == nullptr || chunks.parts.size < best->parts.size)) best = &chunks;
  }
  GV_CHECK(best != nullptr);  // a rank that takes a part knows its ring
  return ranks_.slot(*best->pool);
}

void Exchanges::enter(StateRank& rank, const View& view) {
  if (ranks_.is(Pattern::pairwise)) rank.pairwise().set_eta(ranks_.now(), view.eta);
  std::vector<int> peers;
  for (const EdgeView& edge : view.edges)
    peers.push_back(edge.peer);
  rank.guard.meet(peers);
  if (ranks_.is(Pattern::collective) && !view.ring.empty()) {
    rank.rest().epoch = view.epoch;
    const auto all = static_cast<size_t>(ranks_.deps.ranks);
    have_chunks(
        RingParts::of(ranks_.layout().size(), view.ring.size(), all, ranks_.deps.pools.ranks));
  }
  if (!ranks_.is(Pattern::rounds)) return;
  Neighbourhood near;
  near.self_weight = view.self_weight;
  near.ranks = view.ranks;
  near.relay_delay = view.relay_delay;
  for (const EdgeView& e : view.edges)
    near.neighbours.push_back({e.peer, e.weight, e.trees});
  rank.rounds().enter(near);
  rank.rest().epoch = view.epoch;
}

// --- messages to other ranks

void Exchanges::take(StateRank& rank, const TakeRequest& request) {
  Payload payload;
  if (ranks_.is(Pattern::pairwise)) {
    payload.lease = ranks_.slot(*messages_);
    if (payload) snapshot(rank, request.take.exchange, payload);
  } else {
    payload.lease = chunk(request.take.count);
    const Vec part = rank.collective().part(request.take.offset, request.take.count);
    if (payload) scale(ranks_.execution, 1, part, payload.writable(part.dtype, part.size));
  }
  const Limits limits = rank.guard.limits(request.take.exchange.peer);
  ranks_.owner.send(rank.communicator, Taken{request.take.ticket, std::move(payload), limits});
}

// Sends the messages of a phase to the communicator. A message is empty if no buffer is free.
void Exchanges::write(StateRank& rank, int phase) {
  Messages messages{rank.rest().epoch, phase, {}};
  bool has_room = true;
  RoundRule& rule = rank.rounds();
  const auto written = [&](size_t edge) {
    Payload payload{ranks_.slot(*messages_)};
    has_room = has_room && payload;
    if (payload) rule.write(phase, edge, payload);
    return payload;
  };
  const auto& neighbours = rule.neighbourhood().neighbours;
  const Payload for_all = rule.broadcasts() ? written(0) : Payload{};
  rank.rest().told.clear();
  for (size_t edge = 0; edge < neighbours.size(); ++edge) {
    const int peer = neighbours[edge].rank;
    rank.rest().told.push_back(rank.guard.limits(peer));
    messages.outgoing.push_back(
        {peer, rule.broadcasts() ? for_all : written(edge), rank.rest().told.back()});
  }
  // The schedule names the receiver.
  if (ranks_.method.partners) messages.outgoing.assign(1, {-1, for_all, {}});
  if (ranks_.method.waits) note_room(rank, has_room);
  ranks_.owner.send(rank.communicator, std::move(messages));
}

// A request without a free buffer is repeated from time to time. A buffer becomes free when another
// rank continues. If all ranks wait for one, the graph of this epoch is too large for the pool.
void Exchanges::note_room(StateRank& rank, bool has_room) {
  constexpr int kMost = 1000;
  if (has_room) return void(rank.rest().without_room = 0);
  if (++rank.rest().without_room <= kMost) return;
  throw std::runtime_error(
      "no memory for its messages: the graph has more edges than the first graph");
}

void Exchanges::begin_round(StateRank& rank) {
  if (ranks_.is(Pattern::rounds) && ranks_.method.waits) return write(rank, 0);
  ranks_.owner.send(rank.communicator, Messages{rank.rest().epoch, 0, {}});
}

void Exchanges::end_round(StateRank& rank) {
  rank.in_round = false;
  rank.gradients += rank.counts;
}

// --- messages from other ranks

void Exchanges::apply(ApplyRequest& request) {
  StateRank* rank = ranks_.find(request.rank);
  if (rank == nullptr) return;
  Apply& a = request.apply;
  const bool part = a.operation == Apply::Operation::add || a.operation == Apply::Operation::assign;
  if (part && a.count == 0) return;  // more ranks than numbers: this part has no bytes
  if (!ranks_.deps.device) return carry_out(*rank, a);
  const auto kept = std::make_shared<Apply>(std::move(a));
  ranks_.foresee(
      *rank, [&] { ask_sums(*rank, *kept); },
      [this, kept](StateRank& now) { carry_out(now, *kept); });
}

// Asks for the numbers that carry_out needs.
void Exchanges::ask_sums(StateRank& rank, const Apply& a) {
  switch (a.operation) {
    case Apply::Operation::jump:
      square_distance(ranks_.execution, a.sent.vec(), a.received.vec());
      return;
    case Apply::Operation::combine:
      for (size_t k = 0; k < a.incoming.size(); ++k) {
        if (!a.incoming[k]) continue;
        rank.rounds().distance(k, a.incoming[k]);
        rank.rounds().ranks_in(k, a.incoming[k]);
      }
      return;
    case Apply::Operation::finish:
      if (judges_sum(a)) norm_of_sum(rank);
      return rank.collective().ask_sums(ranks_.now(), a.vector);
    default: return;
  }
}

void Exchanges::carry_out(StateRank& rank, Apply& a) {
  const Execution& execution = ranks_.execution;
  switch (a.operation) {
    case Apply::Operation::jump: return jump(rank, a);
    case Apply::Operation::missing:
      broken_after_norm_ += static_cast<double>(rank.guard.at(a.exchange.peer).last_jump);
      return;
    case Apply::Operation::add:
      return axpy(execution, 1, a.received.vec(), rank.collective().part(a.offset, a.count));
    case Apply::Operation::assign:
      return scale(execution, 1, a.received.vec(), rank.collective().part(a.offset, a.count));
    case Apply::Operation::combine: return combine(rank, a);
    case Apply::Operation::begin: return begin(rank, a);
    case Apply::Operation::finish: return finish(rank, a);
  }
}

double Exchanges::share_of(StateRank& rank, int peer, const Guard::Judgement& judged) {
  const bool is_told = judged.verdict == Guard::Verdict::not_finite ||
                       (judged.verdict == Guard::Verdict::far && judged.share < 1);
  if (is_told) ranks_.owner.send(rank.communicator, Judged{peer, judged.verdict});
  return judged.share;
}

// --- pairs

void Exchanges::note(StateRank& rank, const ExchangeKey& exchange, double moved) {
  RankRecord::Edge& end = rank.rest().edges[exchange.peer];
  const bool same =
      end.incarnation == exchange.incarnation && end.peer_incarnation == exchange.peer_incarnation;
  end = {exchange.peer,
         exchange.incarnation,
         exchange.peer_incarnation,
         exchange.number,
         (same ? end.moved : 0.0) + moved,
         moved};
}

// x and the inner steps of the unfinished round; empty: there are none.
Vec Exchanges::ahead_of(StateRank& rank) {
  const double now = ranks_.now();
  if (const StateRank::Guest* const guest = rank.guest()) {
    const std::shared_ptr<GuestSeat> seat = guest->ahead.lock();
    if (seat == nullptr || ranks_.deps.device) return {};
    // If the script writes its front meanwhile, some numbers have one optimizer step more than
    // others.
    const Vec ahead = copies_.fronts().of(seat).front;
    rank.rule->read(now, ahead);
    const Term sum[] = {{1, seat->front}, {-1, seat->base}, {1, ahead}};
    grapevine::combine(ranks_.execution, sum, ahead);
    return all_finite(ranks_.execution, ahead) ? ahead : Vec{};
  }
  LocalSteps* const local = rank.in_round ? nullptr : rank.local();
  if (local == nullptr) return {};
  local->follow(now, *rank.rule);
  return local->taken() > 0 ? local->front() : Vec{};
}

// The snapshot includes the unfinished inner steps. Otherwise the other rank would average its own
// inner steps with parameters from before this rank's.
void Exchanges::snapshot(StateRank& rank, const ExchangeKey& exchange, Payload& out) {
  const Vec ahead = ahead_of(rank);
  rank.pairwise().snapshot(ranks_.now(), exchange, ahead, out);
}

void Exchanges::jump(StateRank& rank, Apply& a) {
  const ExchangeKey& exchange = a.exchange;
  const double distance =
      std::sqrt(square_distance(ranks_.execution, a.sent.vec(), a.received.vec()));
  // Messages of different versions have no distance, and the rule does not change x.
  const bool alike = a.sent.version == a.received.version;
  const double share = alike ? share_of(rank, exchange.peer,
                                        rank.guard.judge(exchange.peer, distance, a.own, a.theirs))
                             : 1;
  rank.guard.end_exchange();
  const double moved = alike && share > 0 ? share * (0.5 + a.alpha_tilde) * distance : 0;
  Guard::Edge& edge = rank.guard.at(exchange.peer);
  edge.last_jump = static_cast<float>(moved);
  if (ranks_.deps.recorded) note(rank, exchange, moved);
  if (share == 0) return;
  rank.pairwise().jump(ranks_.now(), exchange, a.sent, a.received, a.alpha_tilde, share);
  if (LocalSteps* local = rank.local(); local != nullptr && !rank.in_round)
    local->follow(ranks_.now(), *rank.rule);
  rank.count_exchange();
  // A message with less than all parameters (a low-rank part) has no distance.
  if (ranks_.deps.measures_distance && alike && a.sent.count == ranks_.layout().size())
    edge.seen = static_cast<float>(distance);
}

// --- rounds

// If the method's schedule selects the sender, the message belongs to no edge.
int Exchanges::sender(StateRank& rank, size_t places, size_t k) {
  const auto& near = rank.rounds().neighbourhood().neighbours;
  return near.size() == places ? near[k].rank : Guard::kAll;
}

void Exchanges::combine(StateRank& rank, Apply& a) {
  const Limits of_all = rank.guard.limits(Guard::kAll, Guard::kInChange);
  std::vector<Received> received = judge_messages(rank, a);
  if (!rank.rounds().pulls()) return end_phase(rank, a.phase, received);
  if (!ranks_.deps.device) return judge_pull(rank, a.phase, std::move(received), of_all);
  ranks_.afterwards(rank, [this, phase = a.phase, received, of_all](StateRank& later) {
    judge_pull(later, phase, received, of_all);
  });
}

std::vector<Received> Exchanges::judge_messages(StateRank& rank, Apply& a) {
  RoundRule& rule = rank.rounds();
  std::vector<Received> received(a.incoming.size());
  for (size_t k = 0; k < received.size(); ++k) {
    Payload& payload = a.incoming[k];
    if (!payload) continue;
    const int peer = sender(rank, received.size(), k);
    const bool agree = rule.ends_agree() && k < rank.rest().told.size();
    const Limits own =
        agree ? rank.rest().told[k] : rank.guard.limits(peer, rule.ranks_in(k, payload));
    const Limits theirs = agree ? a.limits[k] : Limits{};
    const double share =
        share_of(rank, peer, rank.guard.judge(peer, rule.distance(k, payload), own, theirs));
    const bool is_finite = rank.guard.at(peer).verdict != Guard::Verdict::not_finite;
    if (is_finite) received[k] = {std::move(payload), share};
  }
  return received;
}

// For methods whose messages cannot be judged one by one: judges the change of x in the phase.
void Exchanges::judge_pull(StateRank& rank, int phase, std::vector<Received> received,
                           const Limits& of_all) {
  const Vec pull = rank.rounds().pull(phase, received);
  const Execution& execution = ranks_.execution;
  ranks_.foresee(
      rank, [&] { dot(execution, pull, pull); },
      [this, &execution, pull, phase, of_all, received = std::move(received)](StateRank& r) {
        const double norm = std::sqrt(dot(execution, pull, pull));
        const double share = share_of(r, Guard::kAll, r.guard.judge(Guard::kAll, norm, of_all, {}));
        if (share < 1) ranks_.moves_alone();
        if (share == 0) fill(execution, 0, pull);
        if (share > 0 && share < 1) scale(execution, share, pull, pull);
        end_phase(r, phase, received);
      });
}

void Exchanges::end_phase(StateRank& rank, int phase, std::span<const Received> received) {
  rank.rounds().combine(ranks_.now(), phase, received);
  if (phase + 1 < rank.rounds().phases()) return write(rank, phase + 1);
  rank.guard.end_exchange();
  if (!ranks_.method.waits) write(rank, 0);
  end_round(rank);
  rank.count_exchange();
  if (rank.copy_due) copies_.pay(rank);
}

// --- sums

// Scales a gradient that is far from this rank's earlier ones, before it is added to the sum.
void Exchanges::begin(StateRank& rank, const Apply& a) {
  rank.collective().begin(ranks_.now(), a.vector);
  if (a.vector != 0 || a.contributions == 1) return;
  const Vec own = rank.collective().part(0, ranks_.layout().size());
  const Execution& execution = ranks_.execution;
  ranks_.foresee(
      rank, [&] { dot(execution, own, own); },
      [this, &execution, own](StateRank& r) {
        const double norm = std::sqrt(dot(execution, own, own));
        const double share = share_of(r, r.rank, r.guard.judge_own(norm));
        if (share == 0) fill(execution, 0, own);
        if (share > 0 && share < 1) scale(execution, share, own, own);
      });
}

bool Exchanges::judges_sum(const Apply& a) const {
  return a.contributions > 1 || (a.contributions == 1 && a.vector == 0 && ranks_.deps.inner);
}

double Exchanges::norm_of_sum(StateRank& rank) {
  const Vec sum = rank.collective().part(0, ranks_.layout().size());
  return std::sqrt(dot(ranks_.execution, sum, sum));
}

// All ranks drop a round or none does, because all have the same sum. They drop a sum that is not
// finite, and one to which no rank has added anything.
void Exchanges::finish(StateRank& rank, const Apply& a) {
  const bool gradient = a.vector == 0;
  int contributions = a.contributions;
  const double norm = judges_sum(a) ? norm_of_sum(rank) : 1;
  if (!std::isfinite(norm)) {
    contributions = 0;
    if (gradient)
      ranks_.owner.send(rank.communicator, Judged{Guard::kAll, Guard::Verdict::not_finite});
  }
  if (gradient && ranks_.deps.inner && norm == 0) contributions = 0;  // no rank took an inner step
  const StateRank::Guest* const guest = rank.guest();
  const bool is_guests = guest != nullptr && guest->waits != nullptr;
  const bool leases = gradient && rank.copy_due && !is_guests;
  Lease copy = leases ? copies_.slot() : Lease{};
  ranks_.audited(rank, -1, 1, [&] {
    rank.collective().finish(ranks_.now(), a.vector, contributions, copy ? copy.writable() : Vec{});
  });
  if (copy && ranks_.deps.device) copy.set_ready(ranks_.queued());
  if (gradient) end_round(rank);
  if (gradient) rank.count_exchange();
  if (copy) copies_.send(rank, std::move(copy));
  if (gradient && is_guests) copies_.pay(rank);
}

}  // namespace grapevine
