// Ranks of a Node that fail, come back, or go on under other numbers.
#include "actors/node.hpp"

namespace grapevine {

namespace {

constexpr int kWorkerFailures = 5;  // of one rank, before it is given up

}  // namespace

void Node::silence(int rank) {  // all but its conversation
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

void Node::kill(int rank) {
  Rank& actors = actors_of(rank);
  if (!actors.alive || finishing_) return;
  actors.alive = false;
  dismiss(rank);
  send(state_of(rank), Detach{rank});
  tell_manager();
  send(deps_.membership, RankLost{rank});
  say("rank " + std::to_string(rank) + " is gone");
  check_finished();
}

void Node::restart(int rank) {
  if (finishing_) return;
  kill(rank);
  Rank& actors = actors_of(rank);
  actors.communicator = spawn_communicator(rank);
  actors.worker = spawn_worker(rank);
  request(deps_.membership, caf::infinite, RankReturns{rank}).then([this, rank](int source) {
    request(state_of(source), caf::infinite, CopyState{source})
        .then([this, rank](const RankStatePtr& copied) { revive(rank, copied); });
  });
}

void Node::revive(int rank, const RankStatePtr& copied) {
  Rank& actors = actors_of(rank);
  send(state_of(rank), Attach{rank, copied, actors.communicator, actors.worker, {}});
  actors.alive = true;
  actors.finished = false;
  tell_manager();
  // It computes once its epoch is on the way.
  request(deps_.membership, caf::infinite, RankReady{rank}).then([this, rank] {
    const Rank& back = actors_of(rank);
    if (back.alive && back.worker) send(back.worker, Start{});
  });
  say("rank " + std::to_string(rank) + " is back, with the state of a neighbour");
}

// A worker of the user's own may fail: the rank gossips on, and another worker goes on where it
// stopped.
void Node::worker_lost(int rank, const caf::error& reason) {
  Rank& actors = actors_of(rank);
  if (!actors.alive || finishing_) return;
  if (++actors.failures > kWorkerFailures) {
    say("the worker of rank " + std::to_string(rank) + " failed too often");
    return kill(rank);
  }
  say("the worker of rank " + std::to_string(rank) + " failed (" + system().render(reason) +
      "); another takes over");
  actors.worker = spawn_worker(rank);
  send(state_of(rank), Attach{rank, {}, actors.communicator, actors.worker, {}});
  tell_manager();
  send(actors.worker, Start{});
}

// The ranks here go on under other numbers, each with the state that it has: other nodes have
// these.
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
      if (first_rank_ != before) return move(next->first_rank);  // it has moved meanwhile
      for (size_t k = 0; k < ranks_.size(); ++k)
        send(state_of(before + static_cast<int>(k)), Detach{before + static_cast<int>(k)});
      found(*next);
      say("the ranks here go on as rank " + std::to_string(next->first_rank) + " and up");
    };
    const auto copy_state = [this, rank, gathered] {
      request(state_of(rank), caf::infinite, CopyState{rank, true}).then(gathered);
    };
    if (std::exchange(actors_of(rank).retired, true)) {  // it moves again before it has moved
      copy_state();
      continue;
    }
    const CommunicatorActor talks = actors_of(rank).communicator;
    send(talks, Drain{true});
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
