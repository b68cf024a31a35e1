#include "actors/node/node.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "actors/algorithms/method_registry.hpp"
#include "actors/rank/communicator.hpp"
#include "actors/rank/make_conversation.hpp"
#include "actors/rank/work_pool.hpp"

namespace grapevine {

namespace {

// After so many polls without progress, open exchanges count as half-done.
constexpr int kPolls = 1000;
constexpr double kPollWall_s = 0.01;
// Between two looks at the clock. If a look is later by kStoodStill_s, the process stood still.
constexpr double kPulse_s = 0.25, kStoodStill_s = 1;
constexpr double kBetweenReports_s = 1;  // at least
// Ticks:
constexpr int kPollQuiet = 0, kMeasure = 1, kTellReport = 2, kTellWork = 3, kPulse = 4;

constexpr int kWorkerFailures = 5;  // of the worker of one rank; then the rank is killed

}  // namespace

Node::Node(caf::actor_config& config, NodeDependencies deps)
    : NodeActor::base(config),
      deps_(std::move(deps)),
      ranks_(static_cast<size_t>(ranks_here(*deps_.settings))) {
  const Settings& s = *deps_.settings;
  if (!deps_.pool) horizon_ = s.gradients / static_cast<uint64_t>(s.ranks);
  communicating_ = std::make_shared<const CommunicatorDependencies>(
      CommunicatorDependencies{deps_.clock, deps_.transport, deps_.counters, deps_.membership});
}

CommunicatorActor Node::spawn_communicator(int rank) {
  auto actor = system().spawn<Communicator>(
      rank, state_of(rank), communicating_,
      make_conversation({rank, *deps_.settings, deps_.rule, deps_.objective->layout(),
                         deps_.vectors, step_s(deps_.gradient_s)}));
  deps_.mailboxes->set(rank, actor);
  return actor;
}

// The time between two steps that a rank hands to its rule.
double Node::step_s(double gradient_s) const {
  return gradient_s * static_cast<double>(deps_.settings->inner_steps);
}

WorkerActor Node::spawn_worker(int rank) {
  const auto place = static_cast<size_t>(rank - first_rank_);
  const bool pairs = method_named(deps_.settings->method).pattern == Pattern::pairwise;
  if (pairs && !deps_.objective->has_workers()) return {};
  WorkerDependencies deps{.rank = rank,
                          .place = static_cast<int>(place),
                          .clock = deps_.clock,
                          .settings = deps_.settings,
                          .horizon = horizon_,
                          .pool = deps_.pool,
                          .resumed_at = ranks_[place].resumed_at,
                          .gradient_s = deps_.gradient_s,
                          .compute = deps_.compute,
                          .counters = deps_.counters,
                          .ledger = {deps_.ledgers, ledger_of(rank)},
                          .state = state_of(rank),
                          .node = caf::actor_cast<NodeActor>(this)};
  WorkerActor worker = deps_.make_worker(system(), std::move(deps)).actor;
  if (worker) monitor(worker);
  return worker;
}

void Node::say(const std::string& line) const {
  if (deps_.sink.on_event) deps_.sink.on_event(line);
}

void Node::begin(const Begin& given) {
  const Rank& first = ranks_.front();
  const bool begun = static_cast<bool>(first.communicator);
  if (begun && !first.retired && given.first_rank == first_rank_)
    return;  // they have these numbers already
  begun ? move(given.first_rank) : found(given);
}

void Node::found(const Begin& given) {
  first_rank_ = given.first_rank;
  for (size_t place = 0; place < ranks_.size(); ++place) {
    const int rank = first_rank_ + static_cast<int>(place);
    Rank& actors = ranks_[place];
    RankRecordPtr record = place < deps_.records.size() ? deps_.records[place] : nullptr;
    if (record) actors.resumed_at = record->gradients;
    actors.communicator = spawn_communicator(rank);
    actors.worker = spawn_worker(rank);
    actors.alive = true;
    actors.retired = actors.returns = false;
    RankStatePtr state = place < given.states.size() ? given.states[place] : nullptr;
    if (state) lose(rank, Lost::join);
    send(state_of(rank),
         Attach{rank, std::move(state), actors.communicator, actors.worker, std::move(record)});
  }
  deps_.records.clear();  // a later life of a rank does not start from a record
  tell_manager();
  for (size_t place = 0; place < ranks_.size(); ++place)
    start(first_rank_ + static_cast<int>(place));
  for (const auto& fault : std::exchange(early_faults_, {}))
    fault();
  const Settings& s = *deps_.settings;
  if (deps_.on_report) tell_report();
  if (deps_.pool && s.local_ranks > 0 && !std::exchange(tells_work_, true)) tell_work();
  if (s.clock == Clock::wall && pulse_at_s_ == 0) look_at_clock();
  if (s.clock != Clock::wall || s.alarm_s <= 0) return;
  const Method& method = method_named(s.method);
  watch_.emplace(StallWatch::Run{.patience_s = s.alarm_s,
                                 .exchange_s = step_s(deps_.gradient_s) / s.rate,
                                 .paced = s.pacing == Pacing::poisson,
                                 .waits = method.pattern != Pattern::pairwise && method.waits});
  measure();
}

// A fault that a plan has at time 0 may arrive before the ranks exist.
void Node::once_founded(std::function<void()> fault) {
  if (ranks_.front().communicator) return fault();
  early_faults_.push_back(std::move(fault));
}

bool Node::has(int rank) const {
  return rank >= first_rank_ && rank - first_rank_ < static_cast<int>(ranks_.size());
}

// Any holder of the node's handle may name a rank that is not here.
void Node::for_rank(int rank, std::function<void()> fault) {
  once_founded([this, rank, fault = std::move(fault)] {
    if (has(rank)) return fault();
    say(not_here(rank));
  });
}

std::string Node::not_here(int rank) const {
  return fmt::format("rank is {}, accepted: {} to {}", rank, first_rank_,
                     first_rank_ + static_cast<int>(ranks_.size()) - 1);
}

// --- ranks that make no progress

void Node::measure() {
  if (finishing_) return;
  report([this](NodeReport& all) {
    const double now = deps_.clock.now();
    for (const Alarm& alarm : watch_->measure(now, all.communicators, all.workers))
      deps_.sink.raise(alarm);
    scheduled_send(caf::actor_cast<NodeActor>(this), deps_.clock.instant(now + watch_->period_s()),
                   Tick{kMeasure});
  });
}

// If the process was stopped or the machine slept, the timer of this look is late.
void Node::look_at_clock() {
  if (finishing_) return;
  const double now = deps_.clock.now();
  if (pulse_at_s_ > 0 && now > pulse_at_s_ + kStoodStill_s)
    for (RankLedger& ledger : *deps_.ledgers)
      ledger.stood_still(pulse_at_s_, now);
  pulse_at_s_ = now + kPulse_s;
  scheduled_send(caf::actor_cast<NodeActor>(this), deps_.clock.instant(pulse_at_s_), Tick{kPulse});
}

void Node::tell_report() {
  if (finishing_) return;
  report([this](NodeReport& all) {
    const double now = deps_.clock.now();
    const double again = now + std::max(kBetweenReports_s, deps_.settings->sample_s);
    if (deps_.on_report)
      deps_.on_report({now, std::move(all.workers), std::move(all.communicators)});
    scheduled_send(caf::actor_cast<NodeActor>(this), deps_.clock.instant(again), Tick{kTellReport});
  });
}

void Node::tell_manager() {
  auto here = std::make_shared<std::vector<RankActors>>();
  for (size_t place = 0; place < ranks_.size(); ++place) {
    const Rank& actors = ranks_[place];
    if (actors.alive)
      here->push_back({first_rank_ + static_cast<int>(place), actors.communicator, actors.worker});
  }
  send(deps_.manager, RanksHere(std::move(here)));
}

// --- the work of the run

void Node::tell_work() {
  if (finishing_) return;
  const double now = deps_.clock.now();
  const WorkPool::Own own = deps_.pool->tell(now);
  send(deps_.membership, OwnWork{own.taken, own.per_second});
  scheduled_send(caf::actor_cast<NodeActor>(this), deps_.clock.instant(now + own.again_s),
                 Tick{kTellWork});
}

void Node::hear(const WorkHeard& heard) {
  if (!deps_.pool || finishing_) return;
  deps_.pool->hear(deps_.clock.now(), heard.before, *heard.others);
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

// --- the end

void Node::check_finished() {
  const bool anybody =
      std::any_of(ranks_.begin(), ranks_.end(), [](const Rank& r) { return r.alive || r.returns; });
  if (!anybody && !finishing_) outcome_.failure = world_error("every rank is gone");
  const bool all = std::all_of(ranks_.begin(), ranks_.end(),
                               [](const Rank& r) { return r.alive ? r.finished : !r.returns; });
  // If the ranks share a pool, a finished run does not wait for a stopped rank.
  const bool is_done = deps_.pool && deps_.pool->is_complete();
  if (all || is_done) send(deps_.membership, ShareDone{});
}

template <class Actors, class Reply, class Then>
void Node::ask_all(const Actors& actors, std::vector<Reply>& replies, Then then) {
  replies.clear();
  if (actors.empty()) return then();
  struct Awaited {
    size_t replies;
    Then then;
  };
  const auto awaited = std::make_shared<Awaited>(Awaited{actors.size(), std::move(then)});
  const auto one_less = [awaited] {
    if (--awaited->replies == 0) awaited->then();
  };
  for (const auto& actor : actors) {
    request(actor, caf::infinite, Report{})
        .then(
            [&replies, one_less](Reply& reply) {
              replies.push_back(std::move(reply));
              one_less();
            },
            [one_less](const caf::error&) { one_less(); });
  }
}

void Node::report(std::function<void(NodeReport&)> then) {
  auto all = std::make_shared<NodeReport>();
  all->carried = carried_;
  std::vector<WorkerActor> workers;
  std::vector<CommunicatorActor> communicators;
  for (const Rank& actors : ranks_) {
    if (!actors.alive) continue;
    communicators.push_back(actors.communicator);
    if (actors.worker) workers.push_back(actors.worker);
  }
  ask_all(communicators, all->communicators, [this, workers, all, then = std::move(then)] {
    // Read after the ranks' reports, so not smaller than these.
    for (size_t k = 0; k < all->declines.size(); ++k)
      all->declines[k] = deps_.counters->declines[k].load(std::memory_order_relaxed);
    all->edge_round_trips = deps_.counters->edge_round_trips.counts();
    for (const EdgeDurations& edge : all->edge_round_trips)
      all->round_trips += edge.counts;
    all->costs = costs_of(*deps_.ledgers, deps_.clock.now());
    all->learning_rate = deps_.counters->learning_rate.load(std::memory_order_relaxed);
    ask_all(workers, all->workers, [all, then] { then(*all); });
  });
}

void Node::finish() {
  if (finishing_) return;
  finishing_ = true;
  outcome_.first_rank = first_rank_;
  outcome_.seconds = deps_.clock.now();
  for (RankLedger& ledger : *deps_.ledgers)
    ledger.end(outcome_.seconds);
  outcome_.gradients = deps_.counters->gradients.load();
  outcome_.exchanges = deps_.counters->applied_ends.load() / 2;
  outcome_.frames = deps_.counters->frames.load();
  outcome_.bytes = deps_.counters->bytes.load();
  std::vector<WorkerActor> workers;
  for (const Rank& actors : ranks_)
    if (actors.alive && actors.worker) workers.push_back(actors.worker);
  ask_all(workers, outcome_.workers, [this] {
    for (const Rank& actors : ranks_)
      if (actors.alive && actors.worker) send(actors.worker, Order::drain);
    hand_in();
  });
}

// Before new work is refused, the rules take the unfinished inner steps; in rounds they also send
// them.
void Node::hand_in() {
  const auto drain = [this] {
    for (const Rank& actors : ranks_)
      if (actors.alive) send(actors.communicator, Order::drain);
    await_quiet();
  };
  if (deps_.settings->inner_steps == 1) return drain();
  const auto awaited = std::make_shared<size_t>(deps_.states.size());
  const auto one_less = [awaited, drain] {
    if (--*awaited == 0) drain();
  };
  for (const StateActor& state : deps_.states) {
    request(state, caf::infinite, HandIn{})
        .then([one_less](HandedIn) { one_less(); }, [one_less](const caf::error&) { one_less(); });
  }
}

void Node::await_quiet() {
  std::vector<CommunicatorActor> communicators;
  for (const Rank& actors : ranks_)
    if (actors.alive) communicators.push_back(actors.communicator);
  ask_all(communicators, outcome_.communicators, [this] {
    const auto& reports = outcome_.communicators;
    outcome_.quiet = std::all_of(reports.begin(), reports.end(),
                                 [](const CommunicatorReport& r) { return r.quiet; });
    uint64_t applied = 0;
    for (const CommunicatorReport& r : reports)
      applied += r.counts.applied;
    if (std::exchange(applied_, applied) != applied) polls_ = 0;  // there is progress
    if (outcome_.quiet || ++polls_ >= kPolls) return collect();
    const Settings& s = *deps_.settings;
    const double wait = s.clock == Clock::wall ? kPollWall_s
                                               : std::max(0.01 * step_s(s.gradient_s),
                                                          s.link.latency_s + s.link.transfer_s);
    const double at = deps_.clock.now() + wait;
    scheduled_send(caf::actor_cast<NodeActor>(this), deps_.clock.instant(at), Tick{kPollQuiet});
  });
}

void Node::collect() {
  outcome_.counts = carried_;
  for (const CommunicatorReport& r : outcome_.communicators)
    outcome_.counts += r.counts;
  auto awaited = std::make_shared<size_t>(deps_.states.size());
  for (const StateActor& state : deps_.states) {
    request(state, caf::infinite, Collect{}).then([this, awaited](Collected& c) {
      outcome_.conserved_error = std::isnan(c.conserved_error)
                                     ? c.conserved_error
                                     : std::max(outcome_.conserved_error, c.conserved_error);
      outcome_.broken_after_norm += c.broken_after_norm;
      for (RankParameters& p : c.ranks)
        outcome_.parameters.push_back(std::move(p));
      if (--*awaited > 0) return;
      auto by_rank = [](const auto& a, const auto& b) { return a.rank < b.rank; };
      std::sort(outcome_.parameters.begin(), outcome_.parameters.end(), by_rank);
      std::sort(outcome_.workers.begin(), outcome_.workers.end(), by_rank);
      std::sort(outcome_.communicators.begin(), outcome_.communicators.end(), by_rank);
      outcome_.costs = costs_of(*deps_.ledgers, deps_.clock.now());
      deps_.done(std::move(outcome_));
    });
  }
}

Node::behavior_type Node::make_behavior() {
  set_down_handler([this](const caf::down_msg& down) {
    const auto ended = std::find_if(former_.begin(), former_.end(),
                                    [&](const Former& f) { return f.actor == down.source; });
    if (ended != former_.end()) return former_ended(ended);
    for (size_t rank = 0; rank < ranks_.size(); ++rank)
      if (ranks_[rank].worker && ranks_[rank].worker.address() == down.source)
        return worker_lost(first_rank_ + static_cast<int>(rank), down.reason);
  });
  return {
      [this](const Begin& given) { begin(given); },
      [this](Finished finished) {
        if (!has(finished.rank)) return say(not_here(finished.rank));
        Rank& actors = actors_of(finished.rank);
        actors.finished = true;
        const bool rounds = method_named(deps_.settings->method).pattern != Pattern::pairwise;
        if (rounds && !finished.rests)
          // It has nothing more to send, and answers so if asked.
          send(actors.communicator, Order::drain);
        check_finished();
      },
      [this](Diverged d) {
        if (finishing_) return;
        outcome_.alarm = divergence_under(*deps_.settings);
        outcome_.alarm->rank = d.rank;
        outcome_.alarm->at_s = deps_.clock.now();
        outcome_.alarm->is = "rank " + std::to_string(d.rank) + " has a loss of " +
                             std::to_string(d.loss) + " at gradient " + std::to_string(d.gradient);
        deps_.sink.raise(*outcome_.alarm);
        outcome_.failure =
            world_error("loss is " + std::to_string(d.loss) + " at gradient " +
                        std::to_string(d.gradient) + " of rank " + std::to_string(d.rank) +
                        ", accepted: a finite one; a smaller --lr may help");
        finish();
      },
      [this](const KillRank& k) {
        for_rank(k.rank, [this, k] {
          if (!k.why.empty()) say("rank " + std::to_string(k.rank) + " leaves: " + k.why);
          kill(k.rank);
        });
      },
      [this](RestartRank r) { for_rank(r.rank, [this, r] { restart(r.rank); }); },
      [this](Order order, int rank) {
        for_rank(rank, [this, order, rank] {
          const Rank& actors = actors_of(rank);
          if (!actors.alive) return;
          if (actors.worker) send(actors.worker, order);
          send(actors.communicator, order);
        });
      },
      [this](const WorkHeard& heard) { hear(heard); },
      [this](Tick tick) {
        if (tick.id == kMeasure) return measure();
        if (tick.id == kTellWork) return tell_work();
        if (tick.id == kPulse) return look_at_clock();
        tick.id == kTellReport ? tell_report() : await_quiet();
      },
      [this](Finish) { finish(); },
      [this](const ChangeRank& wanted) { return change(wanted); },
      [this](Report) -> caf::result<NodeReport> {
        const auto promise = make_response_promise<NodeReport>();
        report([answer = promise](NodeReport& all) mutable { answer.deliver(std::move(all)); });
        return promise;
      },
  };
}

void Node::on_exit() {
  for (Rank& actors : ranks_) {
    if (actors.communicator) caf::anon_send_exit(actors.communicator, caf::exit_reason::kill);
    if (actors.worker) caf::anon_send_exit(actors.worker, caf::exit_reason::kill);
  }
  ranks_.clear();
  early_faults_.clear();
  deps_.done = {};
  deps_.records.clear();
  deps_.manager = nullptr;
  deps_.membership = nullptr;
  communicating_.reset();
  deps_.sink = {};
  deps_.on_report = {};
  deps_.make_worker = {};
}

// --- ranks that fail, return, or continue under other numbers

void Node::silence(int rank) {  // ends all but its conversation
  Rank& actors = actors_of(rank);
  deps_.mailboxes->clear(rank);
  if (!actors.worker) return;
  demonitor(actors.worker.address());
  send_exit(actors.worker, caf::exit_reason::kill);
}

void Node::dismiss(int rank) {
  silence(rank);
  send_exit(actors_of(rank).communicator, caf::exit_reason::kill);
}

void Node::start(int rank) {
  const WorkerActor& worker = actors_of(rank).worker;
  if (!worker) return;
  const Method& method = method_named(deps_.settings->method);
  const bool waits = method.pattern != Pattern::pairwise && method.waits;
  ledger_of(rank)->begin(rank, waits);
  send(worker, Start{});
}

RankLedger* Node::ledger_of(int rank) {
  Ledgers& ledgers = *deps_.ledgers;
  return ledgers.empty() ? nullptr : &ledgers[static_cast<size_t>(rank - first_rank_)];
}

void Node::lose(int rank, Lost what) {
  if (RankLedger* const ledger = ledger_of(rank)) ledger->lose(what, deps_.clock.now());
}

caf::result<std::string> Node::change(const ChangeRank& wanted) {
  const auto refuse = [](const std::string& why) {
    return caf::make_error(caf::sec::invalid_argument, why);
  };
  const std::string name = "rank " + std::to_string(wanted.rank);
  if (!has(wanted.rank)) return refuse(not_here(wanted.rank));
  if (!ranks_.front().communicator) return refuse("the ranks have not begun");
  if (finishing_) return refuse("the run is ending");
  const Rank& actors = actors_of(wanted.rank);
  if (!wanted.returns) {
    if (!actors.alive && !actors.returns) return refuse(name + " is gone already");
    kill(wanted.rank);
    return name + " is gone";
  }
  if (actors.returns) return refuse(name + " is returning already");
  restart(wanted.rank);
  return name + " returns with the state of a neighbour";
}

void Node::kill(int rank) {
  Rank& actors = actors_of(rank);
  if (finishing_) return;
  if (!actors.alive) {
    if (std::exchange(actors.returns, false)) check_finished();
    return;
  }
  actors.alive = false;
  lose(rank, Lost::kill);
  dismiss(rank);
  send(state_of(rank), Detach{rank});
  tell_manager();
  send(deps_.membership, RankLost{rank});
  say("rank " + std::to_string(rank) + " is gone");
  check_finished();
}

void Node::restart(int rank) {
  Rank& actors = actors_of(rank);
  if (finishing_ || actors.returns) return;
  actors.returns = true;
  if (actors.alive) kill(rank);
  const caf::actor_addr communicator = actors.communicator.address();
  const caf::actor_addr worker = actors.worker ? actors.worker.address() : caf::actor_addr();
  await_end(rank, communicator);
  if (worker) await_end(rank, worker);
}

// The last messages of a rank's former actors reach the state before these actors end. The state
// ignores them, as long as the rank has not returned.
void Node::await_end(int rank, const caf::actor_addr& former) {
  former_.push_back({former, static_cast<size_t>(rank - first_rank_)});
  monitor(former);
}

void Node::former_ended(std::vector<Former>::iterator ended) {
  const size_t place = ended->place;
  former_.erase(ended);
  const bool others = std::any_of(former_.begin(), former_.end(),
                                  [&](const Former& f) { return f.place == place; });
  if (!others) come_back(first_rank_ + static_cast<int>(place));
}

void Node::come_back(int rank) {
  Rank& actors = actors_of(rank);
  if (finishing_ || !actors.returns) return;  // it has been killed again
  actors.communicator = spawn_communicator(rank);
  actors.worker = spawn_worker(rank);
  request(deps_.membership, caf::infinite, RankReturns{rank}).then([this, rank](int source) {
    request(state_of(source), caf::infinite, CopyState{source})
        .then([this, rank](const RankStatePtr& copied) { revive(rank, copied); });
  });
}

void Node::revive(int rank, const RankStatePtr& copied) {
  Rank& actors = actors_of(rank);
  if (!actors.returns) return dismiss(rank);  // it has been killed again
  send(state_of(rank), Attach{rank, copied, actors.communicator, actors.worker, {}});
  actors.alive = true;
  actors.returns = actors.finished = false;
  tell_manager();
  // The rank computes once its epoch is on the way.
  request(deps_.membership, caf::infinite, RankReady{rank}).then([this, rank] {
    if (actors_of(rank).alive) start(rank);
  });
  say("rank " + std::to_string(rank) + " is back, with the state of a neighbour");
}

// A user's own worker may fail. The rank then continues to gossip, and a new worker continues its
// steps.
void Node::worker_lost(int rank, const caf::error& reason) {
  Rank& actors = actors_of(rank);
  if (!actors.alive || finishing_) return;
  if (++actors.failures > kWorkerFailures) {
    say("the worker of rank " + std::to_string(rank) + " failed too often");
    return kill(rank);
  }
  say("the worker of rank " + std::to_string(rank) + " failed (" + system().render(reason) +
      "); another takes over");
  lose(rank, Lost::failure);
  actors.worker = spawn_worker(rank);
  send(state_of(rank), Attach{rank, {}, actors.communicator, actors.worker, {}});
  tell_manager();
  start(rank);
}

// Other nodes have the numbers of the ranks here. Each rank continues under a new number, with its
// state.
void Node::move(int first_rank) {
  if (finishing_) return;
  const int before = first_rank_;
  auto next = std::make_shared<Begin>();
  next->first_rank = first_rank;
  next->states.resize(ranks_.size());
  auto awaited = std::make_shared<size_t>(ranks_.size());
  for (size_t place = 0; place < ranks_.size(); ++place) {
    const int rank = before + static_cast<int>(place);
    silence(rank);
    auto gathered = [this, before, next, awaited, place](const RankStatePtr& state) {
      next->states[place] = state;
      if (--*awaited > 0 || finishing_) return;
      if (first_rank_ != before) return move(next->first_rank);  // it has moved again
      for (size_t k = 0; k < ranks_.size(); ++k)
        send(state_of(before + static_cast<int>(k)), Detach{before + static_cast<int>(k)});
      found(*next);
      say("the ranks here continue as rank " + std::to_string(next->first_rank) + " and up");
    };
    const auto copy_state = [this, rank, gathered] {
      request(state_of(rank), caf::infinite, CopyState{rank, true}).then(gathered);
    };
    // It moves again before the first move is complete.
    if (std::exchange(actors_of(rank).retired, true)) {
      copy_state();
      continue;
    }
    const CommunicatorActor talks = actors_of(rank).communicator;
    send(talks, Order::leave);
    request(talks, caf::infinite, Report{})
        .then(
            [this, talks, copy_state](const CommunicatorReport& last) {
              carried_ += last.counts;
              send_exit(talks, caf::exit_reason::kill);
              copy_state();
            },
            [copy_state](const caf::error&) { copy_state(); });
  }
}

}  // namespace grapevine
