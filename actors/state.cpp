#include "actors/state.hpp"

#include <cmath>
#include <limits>

#include "kernels/check.hpp"

namespace grapevine {

namespace {

constexpr double kBetweenMeasures_s = 1;  // of a rank, each a pass over its vector

}  // namespace

State::State(caf::actor_config& config, StateDependencies deps)
    : StateActor::base(config),
      deps_(std::move(deps)),
      waits_(method_named(deps_.method).waits),
      execution_{Execution::Device::cpu, deps_.pool.get(), nullptr},
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

void State::take(const TakeRequest& request) {
  Member* member = find(request.rank);
  if (member == nullptr) {  // not attached yet, or gone
    send(caf::actor_cast<CommunicatorActor>(current_sender()), Taken{request.take.ticket, {}});
    return;
  }
  Payload payload;
  if (member->pairwise != nullptr) {
    payload.lease = messages_->take();
    if (payload) member->pairwise->snapshot(deps_.clock.now(), request.take.exchange, payload);
  } else {
    payload.lease = chunks_->take();
    const Vec part = member->collective->part(request.take.offset, request.take.count);
    scale(execution_, 1, part, payload.writable(part.dtype, part.size));
  }
  send(member->communicator, Taken{request.take.ticket, std::move(payload)});
}

// The messages of a phase, to whoever holds the conversation. Where no buffer is left, as if lost.
void State::write(Member& member, int phase) {
  Messages messages{member.epoch, phase, {}};
  auto add = [&](int peer, size_t edge) {
    Payload payload{messages_->take()};
    if (payload) member.rounds->write(phase, edge, payload);
    messages.outgoing.push_back({peer, std::move(payload)});
  };
  if (member.rounds->broadcasts()) {
    add(-1, 0);
  } else {
    for (size_t k = 0; k < member.neighbours.size(); ++k)
      add(member.neighbours[k], k);
  }
  send(member.communicator, std::move(messages));
}

void State::combine(Member& member, Apply& a) {
  member.rounds->combine(deps_.clock.now(), a.phase, a.incoming);
  if (a.phase + 1 < member.rounds->phases()) return write(member, a.phase + 1);
  if (!waits_) write(member, 0);
  ++member.gradients;
  if (member.owes_copy) send_copy(member, read(member));
}

void State::apply(ApplyRequest& request) {
  Member* member = find(request.rank);
  if (member == nullptr) return;
  Apply& a = request.apply;
  const double now = deps_.clock.now();
  const bool part = a.operation == Apply::Operation::add || a.operation == Apply::Operation::assign;
  if (part && a.count == 0) return;  // more ranks than numbers: nothing has crossed a link
  switch (a.operation) {
    case Apply::Operation::jump:
      measure_distance(*member, a, now);
      return member->pairwise->jump(now, a.exchange, a.sent, a.received, a.alpha_tilde);
    case Apply::Operation::add:
      return axpy(execution_, 1, a.received.vec(), member->collective->part(a.offset, a.count));
    case Apply::Operation::assign:
      return scale(execution_, 1, a.received.vec(), member->collective->part(a.offset, a.count));
    case Apply::Operation::combine: return combine(*member, a);
    case Apply::Operation::begin: return member->collective->begin(now, a.vector);
    case Apply::Operation::finish: {
      const bool gradient = a.vector == 0;
      Lease copy = gradient && member->owes_copy ? snapshots_.take() : Lease{};
      audited(*member, -1, 1, [&] {
        member->collective->finish(now, a.vector, a.contributions, copy ? copy.writable() : Vec{});
      });
      member->gradients += gradient;
      if (copy) send_copy(*member, std::move(copy));
      return;
    }
  }
}

void State::gradient(Gradient& g) {
  Member* member = find(g.rank);
  if (member == nullptr) return;
  const double now = deps_.clock.now();
  if (member->pairwise == nullptr) {
    const bool together = member->rule->communicates(member->gradients);
    audited(*member, -1, 1, [&] { member->rule->on_gradient(now, g.lr, g.g.vec(), {}); });
    member->owes_copy = g.wants_copy;
    if (!together) {
      ++member->gradients;
      if (g.wants_copy) send_copy(*member, read(*member));
      return;
    }
    if (member->rounds != nullptr && waits_) return write(*member, 0);
    send(member->communicator, Messages{member->epoch, 0, {}});
    return;
  }
  Lease copy = g.wants_copy ? snapshots_.take() : Lease{};
  audited(*member, -1, 1,
          [&] { member->rule->on_gradient(now, g.lr, g.g.vec(), copy ? copy.writable() : Vec{}); });
  ++member->gradients;
  if (g.wants_copy) send_copy(*member, std::move(copy));
}

void State::send_copy(Member& member, Lease copy) {
  GV_CHECK(static_cast<bool>(copy));  // the pool is sized for one per rank beside the exchanges'
  send(member.worker, Parameters{std::move(copy), member.gradients});
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
  member.rule =
      method_named(deps_.method).make({a.rank, deps_.seed, layout, execution_, deps_.rule, x});
  member.pairwise = dynamic_cast<PairwiseRule*>(member.rule.get());
  member.rounds = dynamic_cast<RoundRule*>(member.rule.get());
  member.collective = dynamic_cast<CollectiveRule*>(member.rule.get());
  if (!messages_ && member.collective == nullptr) {
    const size_t bytes = member.pairwise != nullptr ? member.pairwise->snapshot_bytes()
                                                    : member.rounds->message_bytes();
    messages_ = pool_of(bytes, DType::bytes, deps_.messages);
  }
  member.communicator = a.communicator;
  member.worker = a.worker;
  if (a.donation) take_over(member, *a.donation);
  audited(member, 0, 1, [] {});
}

void State::take_over(Member& member, const RankState& donated) {
  const double now = deps_.clock.now();
  member.rule->reset(now, donated.vectors.front().vec());
  restore(execution_, donated, member.rule->state(now));
  member.gradients = donated.gradients;
}

void State::set_view(Member& member, const View& view) {
  if (member.pairwise != nullptr) member.pairwise->set_eta(deps_.clock.now(), view.eta);
  if (member.collective != nullptr && !view.ring.empty()) {
    const ParameterLayout& layout = deps_.objective->layout();
    const size_t part = layout.size() / view.ring.size() + 1;
    if (part > deps_.chunk_size) {  // fewer ranks have larger parts
      deps_.chunk_size = part;
      chunks_ = pool_of(part, layout.dtype(), deps_.chunks);
    }
  }
  if (member.rounds == nullptr) return;
  Neighbourhood near;
  near.self_weight = view.self_weight;
  near.ranks = view.ranks;
  near.relay_delay = view.relay_delay;
  member.neighbours.clear();
  for (const EdgeView& e : view.edges) {
    near.neighbours.push_back({e.peer, e.weight, e.trees});
    member.neighbours.push_back(e.peer);
  }
  member.rounds->enter(near);
  member.epoch = view.epoch;
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
  std::erase_if(heirlooms_, [rank](const Inherit& i) { return i.rank == rank; });
  std::erase_if(distances_, [rank](const auto& d) { return d.first.first == rank; });
  *member = {};
}

// --- what it tells of its ranks

// What is sent may be less than the parameters: a part of low rank says no distance.
void State::measure_distance(Member& member, const Apply& a, double now) {
  if (!deps_.measures_distance || now < member.measured_at_s + kBetweenMeasures_s) return;
  const ParameterLayout& layout = deps_.objective->layout();
  for (const Payload* p : {&a.sent, &a.received})
    if (p->count != layout.size() || p->dtype != layout.dtype()) return;
  Lease lease = snapshots_.take();
  if (!lease) return;
  const Vec difference = lease.writable();
  scale(execution_, 1, a.sent.vec(), difference);
  axpy(execution_, -1, a.received.vec(), difference);
  const double distance = std::sqrt(dot(execution_, difference, difference));
  member.measured_at_s = now;
  distances_[{member.rank, a.exchange.peer}] = distance;
}

SampleReply State::sample(const Sample& request) {
  const size_t size = deps_.objective->layout().size();
  Buffer sum(size, DType::f64);
  Buffer x(size, deps_.objective->layout().dtype());
  const ConstVec reference(request.reference->data(), request.reference->size(), DType::f64);
  SampleReply reply;
  for (Member& member : members_) {
    if (!member.rule) continue;
    member.rule->read(deps_.clock.now(), x);
    reply.squares += add_deviation(execution_, x, reference, sum);
    ++reply.ranks;
  }
  const double* first = sum.vec().as<double>();
  reply.sum = std::make_shared<const std::vector<double>>(first, first + size);
  return reply;
}

StateReport State::report() const {
  StateReport report;
  for (const Member& member : members_) {
    if (!member.rule) continue;
    report.counts.push_back({member.rank, member.rule->counts()});
  }
  for (const auto& [ends, distance] : distances_)
    report.distances.push_back({ends.first, ends.second, distance});
  return report;
}

Collected State::collect() {
  Collected result;
  const ParameterLayout& layout = deps_.objective->layout();
  Buffer sum(layout.size(), DType::f64);
  bool audited = deps_.audits;
  for (Member& member : members_) {
    if (!member.rule) continue;
    auto x = std::make_shared<Buffer>(layout.size(), layout.dtype());
    member.rule->read(deps_.clock.now(), *x);
    if (audited) member.rule->add_conserved(deps_.clock.now(), sum);
    // Ranks in the middle of different rounds have no common sum.
    const bool halfway = member.rounds != nullptr && member.gradients != members_[0].gradients;
    audited = audited && member.rule->conserves() && !halfway;
    result.ranks.push_back({member.rank, member.rule->counts(), std::move(x)});
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
      [this](TakeRequest& r) { take(r); },
      [this](WriteRequest& r) {
        if (Member* m = find(r.rank)) write(*m, r.write.phase);
      },
      [this](ApplyRequest& r) { apply(r); },
      [this](Gradient& g) { gradient(g); },
      [this](Fetch f) {
        Member* m = find(f.rank);
        if (m == nullptr) return;
        // None is left: a worker behind its clock has asked before, and those wait for it.
        if (Lease copy = read(*m)) send_copy(*m, std::move(copy));
      },
      [this](SetView& s) {
        if (Member* m = find(s.rank)) set_view(*m, *s.view);
      },
      [this](Attach& a) { attach(a); },
      [this](Detach d) { detach(d.rank); },
      [this](Inherit& i) {
        Member* m = find(i.rank);
        if (m == nullptr) return;
        heirlooms_.push_back(std::move(i));
        inherit(*m);
      },
      [this](Donate d) -> Donation {
        Member* m = find(d.rank);
        return m != nullptr ? donate(*m, d.whole) : nullptr;
      },
      [this](Sample& s) { return sample(s); },
      [this](Collect) { return collect(); },
      [this](Report) { return report(); },
  };
}

void State::on_exit() {
  members_.clear();
  deps_.objective.reset();
}

}  // namespace grapevine
