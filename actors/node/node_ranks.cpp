#include "actors/node/node_ranks.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "actors/algorithms/method_registry.hpp"

namespace grapevine {

namespace {

constexpr int kWorkerFailures = 5;  // of the worker of one rank; then the rank is killed

}  // namespace

NodeRanks::NodeRanks(NodeActor::base& owner, const NodeDependencies& dependencies,
                     std::vector<RankRecordPtr> records, Events events)
    : owner_(owner),
      deps_(dependencies),
      spawner_(dependencies),
      records_(std::move(records)),
      events_(std::move(events)),
      ranks_(static_cast<size_t>(ranks_here(*dependencies.settings))) {}

// --- what others ask for

bool NodeRanks::has(int rank) const {
  return rank >= first_rank_ && rank - first_rank_ < static_cast<int>(ranks_.size());
}

std::string NodeRanks::not_here(int rank) const {
  return fmt::format("rank is {}, accepted: {} to {}", rank, first_rank_,
                     number_of(ranks_.size() - 1));
}

// A fault that a plan has at time 0 may arrive before the ranks exist.
void NodeRanks::for_rank(int rank, std::function<void(size_t place)> work) {
  if (!has_begun())
    return postponed_.push_back([this, rank, work = std::move(work)] { for_rank(rank, work); });
  if (!has(rank)) return deps_.say(not_here(rank));
  const size_t place = place_of(rank);
  if (!next_first_rank_) return work(place);
  postponed_.push_back([place, work = std::move(work)] { work(place); });
}

void NodeRanks::finished(const Finished& finished) {
  if (!has(finished.rank)) return deps_.say(not_here(finished.rank));
  Rank& rank = ranks_[place_of(finished.rank)];
  rank.finished = true;
  const bool rounds = method_named(deps_.settings->method).pattern != Pattern::pairwise;
  if (rounds && !finished.rests)
    // It has nothing more to send, and answers so if asked.
    owner_.send(rank.communicator, Order::drain);
  events_.one_is_over();
}

void NodeRanks::obey(size_t place, Order order) {
  const Rank& rank = ranks_[place];
  if (!rank.alive) return;
  if (rank.worker) owner_.send(rank.worker, order);
  owner_.send(rank.communicator, order);
}

caf::result<std::string> NodeRanks::change(const ChangeRank& wanted) {
  auto promise = owner_.make_response_promise<std::string>();
  auto answer = [this, wanted, promise]() mutable {
    if (caf::expected<std::string> line = changed(wanted))
      promise.deliver(std::move(*line));
    else
      promise.deliver(std::move(line.error()));
  };
  if (is_closed_ || has_begun())
    answer();
  else
    postponed_.emplace_back(std::move(answer));
  return promise;
}

caf::expected<std::string> NodeRanks::changed(const ChangeRank& wanted) {
  const auto refuse = [](const std::string& why) {
    return caf::make_error(caf::sec::invalid_argument, why);
  };
  const std::string name = "rank " + std::to_string(wanted.rank);
  if (is_closed_) return refuse("the run is ending");
  if (!has(wanted.rank)) return refuse(not_here(wanted.rank));
  if (next_first_rank_) return refuse("the ranks change their numbers");
  const size_t place = place_of(wanted.rank);
  const Rank& rank = ranks_[place];
  if (!wanted.returns) {
    if (!rank.alive && !rank.returns) return refuse(name + " is gone already");
    kill(place);
    return name + " is gone";
  }
  if (rank.returns) return refuse(name + " is returning already");
  restart(place);
  return name + " returns with the state of a neighbour";
}

std::vector<CommunicatorActor> NodeRanks::communicators() const {
  std::vector<CommunicatorActor> all;
  for (const Rank& rank : ranks_)
    if (rank.alive) all.push_back(rank.communicator);
  return all;
}

std::vector<WorkerActor> NodeRanks::workers() const {
  std::vector<WorkerActor> all;
  for (const Rank& rank : ranks_)
    if (rank.alive && rank.worker) all.push_back(rank.worker);
  return all;
}

bool NodeRanks::all_are_gone() const {
  return std::none_of(ranks_.begin(), ranks_.end(),
                      [](const Rank& r) { return r.alive || r.returns; });
}

bool NodeRanks::all_have_finished() const {
  return std::all_of(ranks_.begin(), ranks_.end(),
                     [](const Rank& r) { return r.alive ? r.finished : !r.returns; });
}

// --- their actors

void NodeRanks::spawn(size_t place) {
  ranks_[place].communicator = spawner_.communicator(owner_.system(), number_of(place));
  ranks_[place].worker = spawn_worker(place);
}

WorkerActor NodeRanks::spawn_worker(size_t place) {
  WorkerActor worker = spawner_.worker(owner_.system(), caf::actor_cast<NodeActor>(&owner_),
                                       number_of(place), place, ranks_[place].resumed_at);
  if (worker) owner_.monitor(worker);
  return worker;
}

void NodeRanks::attach(size_t place, RankStatePtr state, RankRecordPtr record) {
  const int number = number_of(place);
  const Rank& rank = ranks_[place];
  owner_.send(deps_.state_of(number),
              Attach{number, std::move(state), rank.communicator, rank.worker, std::move(record)});
}

void NodeRanks::start(size_t place) {
  const WorkerActor& worker = ranks_[place].worker;
  if (!worker) return;
  const Method& method = method_named(deps_.settings->method);
  const bool waits = method.pattern != Pattern::pairwise && method.waits;
  deps_.ledger_of(place)->begin(number_of(place), waits);
  owner_.send(worker, Start{});
}

void NodeRanks::lose(size_t place, Lost what) {
  if (RankLedger* const ledger = deps_.ledger_of(place)) ledger->lose(what, deps_.clock.now());
}

void NodeRanks::silence(size_t place) {  // ends all but its conversation
  const WorkerActor& worker = ranks_[place].worker;
  deps_.mailboxes->clear(number_of(place));
  if (!worker) return;
  owner_.demonitor(worker.address());
  owner_.send_exit(worker, caf::exit_reason::kill);
}

void NodeRanks::dismiss(size_t place) {
  silence(place);
  owner_.send_exit(ranks_[place].communicator, caf::exit_reason::kill);
}

void NodeRanks::tell_manager() {
  auto here = std::make_shared<std::vector<RankActors>>();
  for (size_t place = 0; place < ranks_.size(); ++place) {
    const Rank& rank = ranks_[place];
    if (rank.alive) here->push_back({number_of(place), rank.communicator, rank.worker});
  }
  owner_.send(deps_.manager, RanksHere(std::move(here)));
}

void NodeRanks::close() {
  is_closed_ = true;
  perform_postponed();
}

void NodeRanks::clear() {
  for (const Rank& rank : ranks_) {
    if (rank.communicator) caf::anon_send_exit(rank.communicator, caf::exit_reason::kill);
    if (rank.worker) caf::anon_send_exit(rank.worker, caf::exit_reason::kill);
  }
  ranks_.clear();
  records_.clear();
  postponed_.clear();
  spawner_.clear();
}

void NodeRanks::perform_postponed() {
  for (const auto& work : std::exchange(postponed_, {}))
    work();
}

// --- they begin

void NodeRanks::begin(const Begin& given) {
  if (!has_begun()) return found(given);
  const bool leaves = next_first_rank_.has_value();  // the ranks have left their numbers
  if (is_closed_ || (!leaves && given.first_rank == first_rank_)) return;
  next_first_rank_ = given.first_rank;
  if (!leaves) leave_numbers();
}

void NodeRanks::found(const Begin& given) {
  first_rank_ = given.first_rank;
  for (size_t place = 0; place < ranks_.size(); ++place) {
    Rank& rank = ranks_[place];
    RankRecordPtr record = place < records_.size() ? records_[place] : nullptr;
    if (record) rank.resumed_at = record->gradients;
    spawn(place);
    rank.alive = true;
    rank.returns = false;
    RankStatePtr state = place < given.states.size() ? given.states[place] : nullptr;
    if (state) lose(place, Lost::join);
    attach(place, std::move(state), std::move(record));
  }
  records_.clear();  // a later life of a rank does not start from a record
  tell_manager();
  for (size_t place = 0; place < ranks_.size(); ++place)
    start(place);
  perform_postponed();
  events_.have_begun();
}

// --- they fail, end and return

void NodeRanks::on_down(const caf::down_msg& down) {
  const auto ended = std::find_if(former_.begin(), former_.end(),
                                  [&](const Former& f) { return f.actor == down.source; });
  if (ended != former_.end()) {
    const size_t place = ended->place;
    former_.erase(ended);
    return former_ended(place);
  }
  for (size_t place = 0; place < ranks_.size(); ++place)
    if (ranks_[place].worker && ranks_[place].worker.address() == down.source)
      return worker_lost(place, down.reason);
}

// A user's own worker may fail. The rank then continues to gossip, and a new worker continues its
// steps.
void NodeRanks::worker_lost(size_t place, const caf::error& reason) {
  Rank& rank = ranks_[place];
  if (!rank.alive || is_closed_ || next_first_rank_) return;
  const std::string name = "the worker of rank " + std::to_string(number_of(place));
  if (++rank.failures > kWorkerFailures) {
    deps_.say(name + " failed too often");
    return kill(place);
  }
  deps_.say(name + " failed (" + owner_.system().render(reason) + "); it is replaced");
  lose(place, Lost::failure);
  rank.worker = spawn_worker(place);
  attach(place, {}, {});
  tell_manager();
  start(place);
}

void NodeRanks::kill(size_t place) {
  Rank& rank = ranks_[place];
  if (is_closed_) return;
  if (!rank.alive) {
    if (std::exchange(rank.returns, false)) events_.one_is_over();
    return;
  }
  const int number = number_of(place);
  rank.alive = false;
  lose(place, Lost::kill);
  dismiss(place);
  owner_.send(deps_.state_of(number), Detach{number});
  tell_manager();
  owner_.send(deps_.membership, RankLost{number});
  deps_.say("rank " + std::to_string(number) + " is gone");
  events_.one_is_over();
}

void NodeRanks::restart(size_t place) {
  Rank& rank = ranks_[place];
  if (is_closed_ || rank.returns) return;
  rank.returns = true;
  if (rank.alive) kill(place);
  await_ends(place);
}

void NodeRanks::await_ends(size_t place) {
  const auto watch = [this, place](const caf::actor_addr& former) {
    former_.push_back({former, place});
    owner_.monitor(former);
  };
  const Rank& rank = ranks_[place];
  watch(rank.communicator.address());
  if (rank.worker) watch(rank.worker.address());
}

bool NodeRanks::awaits_end(size_t place) const {
  return std::any_of(former_.begin(), former_.end(),
                     [place](const Former& f) { return f.place == place; });
}

void NodeRanks::former_ended(size_t place) {
  if (!next_first_rank_ && !awaits_end(place)) come_back(place);
  if (next_first_rank_ && former_.empty()) copy_states();
}

void NodeRanks::come_back(size_t place) {
  if (is_closed_ || !ranks_[place].returns) return;  // it has been killed again
  owner_.request(deps_.membership, caf::infinite, RankReturns{number_of(place)})
      .then([this, place](int source) {
        owner_.request(deps_.state_of(source), caf::infinite, CopyState{source})
            .then([this, place](const RankStatePtr& copied) { revive(place, copied); });
      });
}

void NodeRanks::revive(size_t place, const RankStatePtr& copied) {
  Rank& rank = ranks_[place];
  // Meanwhile it may have been killed, or begun under another number.
  if (is_closed_ || next_first_rank_ || !rank.returns || awaits_end(place)) return;
  spawn(place);
  attach(place, copied, {});
  rank.alive = true;
  rank.returns = rank.finished = false;
  tell_manager();
  // The rank computes once its epoch is on the way.
  owner_.request(deps_.membership, caf::infinite, RankReady{number_of(place)})
      .then([this, place, worker = rank.worker] {
        if (ranks_[place].alive && ranks_[place].worker == worker) start(place);
      });
  deps_.say("rank " + std::to_string(number_of(place)) + " is back, with the state of a neighbour");
}

// --- they get other numbers, because other nodes have theirs

void NodeRanks::leave_numbers() {
  for (size_t place = 0; place < ranks_.size(); ++place) {
    if (awaits_end(place)) continue;  // it was about to return
    silence(place);
    await_ends(place);
    const CommunicatorActor talks = ranks_[place].communicator;
    owner_.send(talks, Order::leave);
    owner_.request(talks, caf::infinite, Report{})
        .then(
            [this, talks](const CommunicatorReport& last) {
              carried_ += last.counts;
              owner_.send_exit(talks, caf::exit_reason::kill);
            },
            [](const caf::error&) {});
  }
}

// A rank gets its own state with its number, or that of another rank if it is gone.
size_t NodeRanks::source_for(size_t place) const {
  for (size_t k = 0; k < ranks_.size(); ++k)
    if (const size_t other = (place + k) % ranks_.size(); ranks_[other].alive) return other;
  return place;
}

void NodeRanks::copy_states() {
  const auto states = std::make_shared<std::vector<RankStatePtr>>(ranks_.size());
  const auto awaited = std::make_shared<size_t>(ranks_.size());
  for (size_t place = 0; place < ranks_.size(); ++place) {
    const size_t source = source_for(place);
    const int number = number_of(source);
    owner_.request(deps_.state_of(number), caf::infinite, CopyState{number, source == place})
        .then([this, states, awaited, place](const RankStatePtr& state) {
          (*states)[place] = state;
          if (--*awaited == 0) take_numbers(std::move(*states));
        });
  }
}

void NodeRanks::take_numbers(std::vector<RankStatePtr> states) {
  if (is_closed_) return;
  for (size_t place = 0; place < ranks_.size(); ++place)
    owner_.send(deps_.state_of(number_of(place)), Detach{number_of(place)});
  const int first_rank = *std::exchange(next_first_rank_, std::nullopt);
  deps_.say("the ranks here get new numbers, from " + std::to_string(first_rank) + " on");
  found({first_rank, std::move(states)});
}

}  // namespace grapevine
