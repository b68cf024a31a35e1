#include "actors/node/run_end.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "actors/node/ask_all.hpp"

namespace grapevine {

namespace {

// After so many looks without progress, open exchanges count as half-done.
constexpr int kLooks = 1000;
constexpr double kLookWall_s = 0.01;

}  // namespace

RunEnd::RunEnd(NodeActor::base& owner, const NodeDependencies& dependencies, NodeRanks& ranks)
    : owner_(owner), deps_(dependencies), ranks_(ranks) {}

void RunEnd::fail(Alarm divergence, Error why) {
  outcome_.alarm = std::move(divergence);
  fail(std::move(why));
}

void RunEnd::begin() {
  if (std::exchange(has_begun_, true)) return;
  ranks_.close();
  outcome_.first_rank = ranks_.first_rank();
  outcome_.seconds = deps_.clock.now();
  for (const WorkerActor& worker : ranks_.workers())
    owner_.send(worker, Order::drain);
  // A worker that has answered counts no gradient any more, so the counts are of one time.
  ask_all(owner_, ranks_.workers(), outcome_.workers, [this] {
    for (RankLedger& ledger : *deps_.ledgers)
      ledger.end(deps_.clock.now());
    outcome_.gradients = deps_.counters->gradients.load();
    outcome_.exchanges = deps_.counters->applied_ends.load() / 2;
    outcome_.frames = deps_.counters->frames.load();
    outcome_.bytes = deps_.counters->bytes.load();
    hand_in();
  });
}

// Before new work is refused, the rules take the unfinished inner steps; in rounds they also send
// them.
void RunEnd::hand_in() {
  if (deps_.settings->inner_steps == 1) return drain();
  const auto awaited = std::make_shared<size_t>(deps_.states.size());
  const auto one_less = [this, awaited] {
    if (--*awaited == 0) drain();
  };
  for (const StateActor& state : deps_.states) {
    owner_.request(state, caf::infinite, HandIn{})
        .then([one_less](HandedIn) { one_less(); }, [one_less](const caf::error&) { one_less(); });
  }
}

void RunEnd::drain() {
  for (const CommunicatorActor& communicator : ranks_.communicators())
    owner_.send(communicator, Order::drain);
  look();
}

void RunEnd::look() {
  ask_all(owner_, ranks_.communicators(), outcome_.communicators, [this] {
    const auto& reports = outcome_.communicators;
    outcome_.quiet = std::all_of(reports.begin(), reports.end(),
                                 [](const CommunicatorReport& r) { return r.quiet; });
    uint64_t applied = 0;
    for (const CommunicatorReport& r : reports)
      applied += r.counts.applied;
    if (std::exchange(applied_, applied) != applied) looks_ = 0;  // there is progress
    outcome_.quiet || ++looks_ >= kLooks ? collect() : look_again();
  });
}

void RunEnd::look_again() {
  const Settings& s = *deps_.settings;
  const double wait = s.clock == Clock::wall
                          ? kLookWall_s
                          : std::max(0.01 * deps_.step_s(), s.link.latency_s + s.link.transfer_s);
  owner_.scheduled_send(caf::actor_cast<NodeActor>(&owner_),
                        deps_.clock.instant(deps_.clock.now() + wait), Tick{kLook});
}

void RunEnd::collect() {
  outcome_.counts = ranks_.carried();
  for (const CommunicatorReport& r : outcome_.communicators)
    outcome_.counts += r.counts;
  const auto awaited = std::make_shared<size_t>(deps_.states.size());
  for (const StateActor& state : deps_.states) {
    owner_.request(state, caf::infinite, Collect{}).then([this, awaited](Collected& c) {
      outcome_.conserved_error = std::isnan(c.conserved_error)
                                     ? c.conserved_error
                                     : std::max(outcome_.conserved_error, c.conserved_error);
      outcome_.broken_after_norm += c.broken_after_norm;
      for (RankParameters& p : c.ranks)
        outcome_.parameters.push_back(std::move(p));
      if (--*awaited == 0) conclude();
    });
  }
}

void RunEnd::conclude() {
  const auto by_rank = [](const auto& a, const auto& b) { return a.rank < b.rank; };
  std::sort(outcome_.parameters.begin(), outcome_.parameters.end(), by_rank);
  std::sort(outcome_.workers.begin(), outcome_.workers.end(), by_rank);
  std::sort(outcome_.communicators.begin(), outcome_.communicators.end(), by_rank);
  outcome_.costs = costs_of(*deps_.ledgers, deps_.clock.now());
  deps_.done(std::move(outcome_));
}

}  // namespace grapevine
