// State: ranks that come and go, and what is told of them (state.hpp).
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "actors/state.hpp"
#include "kernels/check.hpp"

namespace grapevine {

namespace {

template <class Holders, class Of>
std::vector<Buffer*> pointers_to(Holders& holders, Of of) {
  std::vector<Buffer*> pointers;
  for (auto& holder : holders)
    pointers.push_back(of(holder));
  return pointers;
}

}  // namespace

// --- ranks that come, go on elsewhere, and go

void State::copy_state(Member& member, const CopyState& d, Reply<RankStatePtr> reply) {
  const RuleState state = member.rule->state(deps_.clock.now());
  const auto copy =
      std::make_shared<RankState>(RankState{save(execution_, state, d.whole), member.gradients});
  lower(pointers_to(copy->vectors, [](Buffer& b) { return &b; }),
        [copy, reply]() mutable { reply(RankStatePtr(copy)); });
}

void State::attach(Attach& a) {
  if (Member* known = find(a.rank)) {  // only its worker is new
    known->worker = a.worker;
    return;
  }
  if (is_lost_) return;  // on_throw has been told
  const ParameterLayout& layout = deps_.objective->layout();
  const auto start = std::make_shared<Buffer>(layout.size(), layout.dtype());
  deps_.objective->initial_point(a.rank % deps_.ranks, *start);
  if (!deps_.device) return settle_in(a, *start, a.state.get(), std::move(a.record));
  std::vector<ConstVec> host{*start};
  if (a.state)
    for (const Buffer& v : a.state->vectors)
      host.push_back(v);
  if (a.record)
    for (const RankRecord::Vector& v : a.record->vectors)
      host.push_back(v.values);
  turns_.hold(a.rank);
  lift(std::move(host), [this, start, a](std::vector<Buffer>& lifted) mutable {
    guarded(a.rank, [&] { settle_in_lifted(a, lifted); });
    turns_.release(a.rank);
  });
}

// As settle_in, of copies on the device.
void State::settle_in_lifted(Attach& a, std::vector<Buffer>& lifted) {
  auto next = lifted.begin() + 1;
  std::optional<RankState> state;
  if (a.state) {
    state.emplace();
    state->numbers = a.state->numbers;
    state->whole = a.state->whole;
    state->gradients = a.state->gradients;
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
  settle_in(a, lifted.front(), state ? &*state : nullptr, record);
}

// REQUIRES: the vectors are where the ranks live.
void State::settle_in(Attach& a, ConstVec x, const RankState* state, RankRecordPtr record) {
  const ParameterLayout& layout = deps_.objective->layout();
  const auto place = static_cast<size_t>(a.rank / deps_.groups);
  if (members_.size() <= place) members_.resize(place + 1);
  Member& member = members_[place];
  member.rank = a.rank;
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
}

void State::go_on_from(Member& member, RankRecordPtr record) {
  const double now = deps_.clock.now();
  member.rule->reset(now, record->vectors.front().values);
  recall(execution_, *record, member.rule->state(now), Recalled::rank);
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

void State::record(Member& member, const RecordRank&, Reply<RankRecordPtr> reply) {
  const int rank = member.rank;
  const RuleState state = member.rule->state(deps_.clock.now());
  const auto record = std::make_shared<RankRecord>(record_of(execution_, state));
  record->rank = rank;
  record->gradients = member.gradients;
  const ParameterLayout& statistics = deps_.objective->statistics();
  record->statistics = Buffer(statistics.size(), statistics.dtype());
  deps_.objective->read_statistics(rank % deps_.ranks, record->statistics);
  for (const auto& [ends, history] : histories_)
    if (ends.first == rank) record->edges.push_back(history);
  lower(pointers_to(record->vectors, [](RankRecord::Vector& v) { return &v.values; }),
        [record, reply]() mutable { reply(RankRecordPtr(record)); });
}

void State::set_view_of(SetView& s) {
  if (Member* member = find(s.rank)) set_view(*member, *s.view);
}

void State::set_view(Member& member, const View& view) {
  if (is(Pattern::pairwise)) pairwise(member).set_eta(deps_.clock.now(), view.eta);
  if (is(Pattern::collective) && view.epoch != member.epoch)
    std::erase_if(member.edges, [&](const Edge& e) { return e.peer != member.rank; });
  if (is(Pattern::collective) && !view.ring.empty()) {
    member.epoch = view.epoch;
    const ParameterLayout& layout = deps_.objective->layout();
    const size_t part = layout.size() / view.ring.size() + 1;
    if (part > deps_.pools.chunk_size) {  // fewer ranks have larger parts
      deps_.pools.chunk_size = part;
      chunks_ = pool_of(part, layout.dtype(), deps_.pools.chunks, deps_.memory);
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

void State::keep_hand_over(Inherit& i) {
  Member* member = find(i.rank);
  if (member == nullptr) return;
  if (!deps_.device || i.x.lease.on_device()) {
    hand_overs_.push_back(std::move(i));
    return inherit(*member);
  }
  turns_.hold(i.rank);
  lift({i.x.vec()}, [this, i](std::vector<Buffer>& lifted) {
    const auto x = std::make_shared<Buffer>(std::move(lifted.front()));
    hand_overs_.push_back(
        {i.rank, i.weight, {Lease::of(*x, [x] {}), x->dtype(), x->size()}, i.epoch});
    guarded(i.rank, [&] {
      if (Member* m = find(i.rank)) inherit(*m);
    });
    turns_.release(i.rank);
  });
}

// Not before those who left are out of the epoch: what is under way when it changes is dropped.
void State::inherit(Member& member) {
  std::erase_if(hand_overs_, [&](const Inherit& i) {
    if (i.rank != member.rank || i.epoch > member.epoch) return false;
    member.rule->inherit(i.x.vec(), i.weight);
    return true;
  });
}

void State::detach(Detach& d) {
  Member* member = find(d.rank);
  if (member == nullptr) return;
  audited(*member, -1, 0, [] {});
  drop(d.rank);
}

void State::drop(int rank) {
  std::erase_if(hand_overs_, [rank](const Inherit& i) { return i.rank == rank; });
  const auto of_rank = [rank](const auto& of_edge) { return of_edge.first.first == rank; };
  std::erase_if(distances_, of_rank);
  std::erase_if(histories_, of_rank);
  resumed_.erase(rank);
  guests_.erase(rank);
  if (Member* member = find(rank)) *member = {};
}

// --- what it tells of its ranks

// see(member, x) of every rank from `place` on, x its parameters in the host's memory, then done().
void State::look_at_all(size_t place, Seen see, std::function<void()> done) {
  const ParameterLayout& layout = deps_.objective->layout();
  std::shared_ptr<Buffer> x;
  for (; place < members_.size(); ++place) {
    const int rank = members_[place].rank;
    if (!members_[place].rule) continue;
    if (!x || x.use_count() > 1)
      x = std::make_shared<Buffer>(execution_, layout.size(), layout.dtype());
    if (!guarded(rank, [&] { members_[place].rule->read(deps_.clock.now(), *x); })) continue;
    const auto look = [this, rank, x, see] {
      guarded(rank, [&] {
        if (Member* member = find(rank)) see(*member, x);
      });
    };
    if (deps_.device)
      return lower({x.get()}, [this, place, look, see, done] {
        look();
        look_at_all(place + 1, see, done);
      });
    look();
  }
  done();
}

void State::sample(const Sample& request, Reply<SampleReply> reply) {
  const size_t size = deps_.objective->layout().size();
  const auto sum = std::make_shared<Buffer>(size, DType::f64);
  const auto all = std::make_shared<SampleReply>();
  const auto see = [sum, all, reference = request.reference](Member&, const auto& x) {
    const ConstVec center(reference->data(), reference->size(), DType::f64);
    all->squares += add_deviation({}, *x, center, *sum);
    ++all->ranks;
  };
  look_at_all(0, see, [sum, all, reply, size]() mutable {
    const auto* first = std::as_const(*sum).vec().as<double>();
    all->sum = std::make_shared<const std::vector<double>>(first, first + size);
    reply(std::move(*all));
  });
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

void State::tell(Member& member, const ReadRank& r, Reply<RankParameters> reply) {
  const ParameterLayout& layout = deps_.objective->layout();
  auto x = std::make_shared<Buffer>(execution_, layout.size(), layout.dtype());
  member.rule->read(deps_.clock.now(), *x);
  lower({x.get()}, [rank = r.rank, x, counts = member.rule->counts(), reply]() mutable {
    reply(RankParameters{rank, counts, x});
  });
}

// The sum over all ranks of what gossip conserves; null: it is not audited, or they have none.
std::shared_ptr<Buffer> State::conserved() {
  auto sum = std::make_shared<Buffer>(execution_, deps_.objective->layout().size(), DType::f64);
  bool audited = deps_.audits && !is_lost_;
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
  for (const Inherit& i : std::exchange(hand_overs_, {})) {  // no other epoch comes for them
    guarded(i.rank, [&] {
      if (Member* m = find(i.rank)) m->rule->inherit(i.x.vec(), i.weight);
    });
  }
  const auto result = std::make_shared<Collected>();
  result->broken_after_norm = broken_after_norm_;
  const std::shared_ptr<Buffer> sum = conserved();
  const auto expected = std::make_shared<Buffer>(execution_, expected_.size(), DType::f64);
  if (sum) scale(execution_, 1, expected_, *expected);
  const auto see = [result](Member& member, const std::shared_ptr<Buffer>& x) {
    result->ranks.push_back({member.rank, member.rule->counts(), x});
  };
  look_at_all(0, see, [this, result, sum, expected, reply] {
    std::vector<Buffer*> both;
    if (sum) both = {sum.get(), expected.get()};
    lower(both, [result, sum, expected, reply]() mutable {
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
