#include "actors/state/records.hpp"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "actors/state/rank_record.hpp"

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

void Records::copy(StateRank& rank, bool whole, std::function<void(RankStatePtr)> reply) {
  const RuleState state = kept(rank);
  const auto copy = std::make_shared<RankState>(
      RankState{save(ranks_.execution, state, whole), rank.gradients, rank.guard.record()});
  ranks_.turns.lower(pointers_to(copy->vectors, [](Buffer& b) { return &b; }),
                     [copy, reply] { reply(RankStatePtr(copy)); });
}

void Records::record(StateRank& rank, std::function<void(RankRecordPtr)> reply) {
  ranks_.saved_from_s = ranks_.now();
  const RuleState state = kept(rank);
  const auto record = std::make_shared<RankRecord>(record_of(ranks_.execution, state));
  record->rank = rank.rank;
  record->gradients = rank.gradients;
  add_guard(*record, rank.guard.record());
  const Objective& objective = *ranks_.deps.objective;
  const ParameterLayout& statistics = objective.statistics();
  record->statistics = Buffer(statistics.size(), statistics.dtype());
  objective.read_statistics(rank.rank % ranks_.deps.ranks, record->statistics);
  if (rank.has_rest())
    for (const auto& [peer, edge] : rank.rest().edges)
      record->edges.push_back(edge);
  ranks_.turns.lower(pointers_to(record->vectors, [](RankRecord::Vector& v) { return &v.values; }),
                     [this, record, reply] {
                       ranks_.saved_until_s = ranks_.now();
                       reply(RankRecordPtr(record));
                     });
}

void Records::attach(Attach& a) {
  if (StateRank* known = ranks_.find(a.rank)) {  // only its worker is new
    known->worker = a.worker;
    return;
  }
  if (ranks_.turns.is_closed()) return;  // on_throw has been told
  if (ranks_.deps.device) return lift(a);
  Buffer start(ranks_.layout().size(), ranks_.layout().dtype());
  ranks_.deps.objective->initial_point(a.rank % ranks_.deps.ranks, start);
  install(a, start, a.state.get(), std::move(a.record));
}

// Copies the vectors of the rank to the device first.
void Records::lift(const Attach& attach) {
  ranks_.turns.hold(attach.rank);
  ranks_.turns.with_room([this, a = attach] {
    const auto leave = [this, rank = a.rank] {
      ranks_.turns.release(rank);
      ranks_.turns.leave_room();
    };
    if (ranks_.turns.is_closed()) return leave();
    std::shared_ptr<Buffer> start;  // null: the device has it
    if (!common_start_) {
      start = std::make_shared<Buffer>(ranks_.layout().size(), ranks_.layout().dtype());
      ranks_.deps.objective->initial_point(a.rank % ranks_.deps.ranks, *start);
    }
    std::vector<ConstVec> host;
    if (start) host.push_back(*start);
    if (a.state)
      for (const Buffer& v : a.state->vectors)
        host.push_back(v);
    if (a.record)
      for (const RankRecord::Vector& v : a.record->vectors)
        host.push_back(v.values);
    ranks_.turns.lift(host, [this, start, a, leave](std::vector<Buffer>& lifted) mutable {
      ranks_.guarded(a.rank, [&] { install_lifted(a, start != nullptr, lifted); });
      lifted.clear();
      leave();
    });
  });
}

// Calls install with the copies on the device.
void Records::install_lifted(Attach& a, bool brings_start, std::vector<Buffer>& lifted) {
  auto next = lifted.begin();
  if (brings_start && ranks_.deps.objective->starts_alike())
    common_start_ = std::move(lifted.front());
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
  install(a, start, state ? &*state : nullptr, record);
}

// REQUIRES: the vectors are in the memory of the ranks.
void Records::install(Attach& a, ConstVec x, const RankState* state, RankRecordPtr record) {
  StateRank& rank = ranks_.place_of(a.rank);
  const StateDependencies& deps = ranks_.deps;
  rank = StateRank();
  rank.rank = a.rank;
  rank.guard = Guard(deps.guarded && deps.objective->has_workers());
  rank.rule =
      ranks_.method.make({a.rank, deps.seed, ranks_.layout(), ranks_.execution, deps.rule, x});
  if (auto local = local_steps_of(ranks_.execution, *deps.objective, deps.inner))
    rank.rest().local = std::move(local);
  exchanges_.have_messages(rank);
  rank.communicator = a.communicator;
  rank.worker = a.worker;
  if (state != nullptr) take_over(rank, *state);
  if (record && record->gradients >= rank.gradients) {
    const Buffer& statistics = a.record ? a.record->statistics : record->statistics;
    deps.objective->set_statistics(a.rank % deps.ranks, record->gradients, statistics);
    go_on_from(rank, std::move(record));
  }
  ranks_.audited(rank, 0, 1, [] {});
}

RuleState Records::kept(StateRank& rank) {
  return state_of(ranks_.now(), *rank.rule, rank.local());
}

void Records::take_over(StateRank& rank, const RankState& copied) {
  rank.rule->reset(ranks_.now(), copied.vectors.front().vec());
  restore(ranks_.execution, copied, kept(rank));
  if (rank.local() != nullptr && !copied.whole) rank.local()->warm_up();
  rank.gradients = copied.gradients;
  copied.whole ? rank.guard.recall(copied.guard) : rank.guard.inherit(copied.guard.usual_step());
}

void Records::go_on_from(StateRank& rank, RankRecordPtr record) {
  rank.rule->reset(ranks_.now(), record->vectors.front().values);
  recall(ranks_.execution, *record, kept(rank), Recalled::rank);
  rank.gradients = record->gradients;
  rank.guard.recall(guard_of(*record));
  rank.rest().resumed = std::move(record);
}

void Records::enter(const SetView& s) {
  StateRank* rank = ranks_.find(s.rank);
  if (rank == nullptr) return;
  exchanges_.enter(*rank, *s.view);
  recall_edges(*rank, *s.view);
}

// Recalls the state of the edges that have the same two ends as in the record. In rounds the state
// of an edge belongs to one round of both ends, but the ends were recorded in different rounds:
// only a rank without edges takes it over.
void Records::recall_edges(StateRank& rank, const View& view) {
  const RankRecordPtr record =
      rank.has_rest() ? std::exchange(rank.rest().resumed, nullptr) : nullptr;
  if (!record || (!ranks_.is(Pattern::pairwise) && !view.edges.empty())) return;
  for (const RankRecord::Edge& known : record->edges) {
    const auto is_same = [&](const EdgeView& e) {
      return e.peer == known.peer && e.peer_incarnation == known.peer_incarnation &&
             view.incarnation == known.incarnation;
    };
    if (std::any_of(view.edges.begin(), view.edges.end(), is_same))
      rank.rule->meet({known.peer, known.incarnation, known.peer_incarnation, 0});
  }
  recall(ranks_.execution, *record, rank.rule->state(ranks_.now()), Recalled::graph);
}

void Records::detach(const Detach& d) {
  StateRank* rank = ranks_.find(d.rank);
  if (rank == nullptr) return;
  ranks_.audited(*rank, -1, 0, [] {});
  ranks_.drop(d.rank);
}

}  // namespace grapevine
