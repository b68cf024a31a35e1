#include "actors/node/node.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "actors/algorithms/method_registry.hpp"
#include "actors/node/ask_all.hpp"
#include "actors/rank/work_pool.hpp"

namespace grapevine {

namespace {

// Between two looks at the clock. If a look is later by kStoodStill_s, the process stood still.
constexpr double kPulse_s = 0.25, kStoodStill_s = 1;
constexpr double kBetweenReports_s = 1;  // at least
// Ticks, besides RunEnd::kLook:
constexpr int kMeasure = 1, kTellReport = 2, kTellWork = 3, kPulse = 4;

}  // namespace

Node::Node(caf::actor_config& config, NodeDependencies deps)
    : NodeActor::base(config),
      deps_(std::move(deps)),
      ranks_(*this, deps_, std::exchange(deps_.records, {}),
             {.have_begun = [this] { have_begun(); }, .one_is_over = [this] { check_finished(); }}),
      end_(*this, deps_, ranks_) {}

void Node::have_begun() {
  const Settings& s = *deps_.settings;
  const Method& method = method_named(s.method);
  if (s.clock == Clock::wall && s.alarm_s > 0)
    watch_.emplace(StallWatch::Run{.patience_s = s.alarm_s,
                                   .exchange_s = deps_.step_s() / s.rate,
                                   .paced = s.pacing == Pacing::poisson,
                                   .waits = method.pattern != Pattern::pairwise && method.waits});
  if (std::exchange(has_begun_, true)) return;  // the ranks have got other numbers
  if (deps_.on_report) tell_report();
  if (deps_.pool && s.local_ranks > 0) tell_work();
  if (s.clock == Clock::wall) look_at_clock();
  if (watch_) measure();
}

void Node::check_finished() {
  if (ranks_.all_are_gone() && !end_.has_begun()) end_.fail(world_error("every rank is gone"));
  // If the ranks share a pool, a finished run does not wait for a stopped rank.
  const bool is_done =
      deps_.pool && deps_.pool->is_complete() && !deps_.pool->awaits(deps_.clock.now());
  if (is_done || ranks_.all_have_finished()) send(deps_.membership, ShareDone{});
}

void Node::diverged(const Diverged& d) {
  if (end_.has_begun()) return;
  const std::string rank = std::to_string(d.rank), loss = std::to_string(d.loss),
                    gradient = std::to_string(d.gradient);
  Alarm alarm = divergence_under(*deps_.settings);
  alarm.rank = d.rank;
  alarm.at_s = deps_.clock.now();
  alarm.is = "rank " + rank + " has a loss of " + loss + " at gradient " + gradient;
  deps_.sink.raise(alarm);
  end_.fail(std::move(alarm),
            world_error("loss is " + loss + " at gradient " + gradient + " of rank " + rank +
                        ", accepted: a finite one; a smaller --lr may help"));
  end_.begin();
}

// --- reports, and ranks that make no progress

void Node::report(std::function<void(NodeReport&)> then) {
  const auto all = std::make_shared<NodeReport>();
  all->carried = ranks_.carried();
  ask_all(*this, ranks_.communicators(), all->communicators,
          [this, workers = ranks_.workers(), all, then = std::move(then)] {
            // Read after the ranks' reports, so not smaller than these.
            for (size_t k = 0; k < all->declines.size(); ++k)
              all->declines[k] = deps_.counters->declines[k].load(std::memory_order_relaxed);
            all->edge_round_trips = deps_.counters->edge_round_trips.counts();
            for (const EdgeDurations& edge : all->edge_round_trips)
              all->round_trips += edge.counts;
            all->costs = costs_of(*deps_.ledgers, deps_.clock.now());
            all->learning_rate = deps_.counters->learning_rate.load(std::memory_order_relaxed);
            ask_all(*this, workers, all->workers, [all, then] { then(*all); });
          });
}

void Node::tell_report() {
  if (end_.has_begun()) return;
  report([this](NodeReport& all) {
    const double now = deps_.clock.now();
    if (deps_.on_report)
      deps_.on_report({now, std::move(all.workers), std::move(all.communicators)});
    again(now + std::max(kBetweenReports_s, deps_.settings->sample_s), kTellReport);
  });
}

void Node::measure() {
  if (end_.has_begun()) return;
  report([this](NodeReport& all) {
    const double now = deps_.clock.now();
    for (const Alarm& alarm : watch_->measure(now, all.communicators, all.workers))
      deps_.sink.raise(alarm);
    again(now + watch_->period_s(), kMeasure);
  });
}

// If the process was stopped or the machine slept, the timer of this look is late.
void Node::look_at_clock() {
  if (end_.has_begun()) return;
  const double now = deps_.clock.now();
  if (pulse_at_s_ > 0 && now > pulse_at_s_ + kStoodStill_s)
    for (RankLedger& ledger : *deps_.ledgers)
      ledger.stood_still(pulse_at_s_, now);
  pulse_at_s_ = now + kPulse_s;
  again(pulse_at_s_, kPulse);
}

// --- the work of the run

void Node::tell_work() {
  if (end_.has_begun()) return;
  const double now = deps_.clock.now();
  const WorkPool::Own own = deps_.pool->tell(now);
  send(deps_.membership, OwnWork{own.taken, own.per_second, now});
  if (deps_.pool->is_complete()) check_finished();
  again(now + own.again_s, kTellWork);
}

void Node::hear(const WorkHeard& heard) {
  if (!deps_.pool || end_.has_begun()) return;
  deps_.pool->hear(deps_.clock.now(), heard.self, heard.before, *heard.others);
  for (const std::string& node : deps_.pool->too_fast()) {
    Alarm alarm;
    alarm.what = Alarm::What::liar;
    alarm.at_s = deps_.clock.now();
    alarm.node = node;
    alarm.is = fmt::format("it reports more than {:.3g} times the gradients of other ranks",
                           deps_.settings->fastest_at_most);
    alarm.reason = "the excess is not counted";
    alarm.advice = "if it is that fast, start the run with a larger --fastest-at-most";
    deps_.sink.raise(alarm);
  }
  if (deps_.pool->is_complete()) check_finished();
}

// --- messages

void Node::again(double at_s, int tick) {
  scheduled_send(caf::actor_cast<NodeActor>(this), deps_.clock.instant(at_s), Tick{tick});
}

void Node::on_tick(int tick) {
  switch (tick) {
    case kMeasure: return measure();
    case kTellReport: return tell_report();
    case kTellWork: return tell_work();
    case kPulse: return look_at_clock();
    case RunEnd::kLook: return end_.look();
    default: return;
  }
}

Node::behavior_type Node::make_behavior() {
  set_down_handler([this](const caf::down_msg& down) { ranks_.on_down(down); });
  return {
      [this](const Begin& given) { ranks_.begin(given); },
      [this](const Finished& finished) { ranks_.finished(finished); },
      [this](const WorkHeard& heard) { hear(heard); },
      [this](const Diverged& d) { diverged(d); },
      [this](const KillRank& k) {
        ranks_.for_rank(k.rank, [this, why = k.why](size_t place) {
          if (!why.empty())
            deps_.say("rank " + std::to_string(ranks_.number_of(place)) + " leaves: " + why);
          ranks_.kill(place);
        });
      },
      [this](RestartRank r) {
        ranks_.for_rank(r.rank, [this](size_t place) { ranks_.restart(place); });
      },
      [this](Order order, int rank) {
        ranks_.for_rank(rank, [this, order](size_t place) { ranks_.obey(place, order); });
      },
      [this](Tick tick) { on_tick(tick.id); },
      [this](Finish) { end_.begin(); },
      [this](const ChangeRank& wanted) { return ranks_.change(wanted); },
      [this](Report) -> caf::result<NodeReport> {
        const auto promise = make_response_promise<NodeReport>();
        report([answer = promise](NodeReport& all) mutable { answer.deliver(std::move(all)); });
        return promise;
      },
  };
}

void Node::on_exit() {
  ranks_.clear();
  deps_.done = {};
  deps_.manager = nullptr;
  deps_.membership = nullptr;
  deps_.sink = {};
  deps_.on_report = {};
  deps_.make_worker = {};
}

}  // namespace grapevine
