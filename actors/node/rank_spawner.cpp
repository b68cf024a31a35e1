#include "actors/node/rank_spawner.hpp"

#include <utility>

#include "actors/algorithms/method_registry.hpp"
#include "actors/rank/communicator.hpp"
#include "actors/rank/make_conversation.hpp"
#include "actors/rank/worker.hpp"

namespace grapevine {

RankSpawner::RankSpawner(const NodeDependencies& dependencies)
    : deps_(dependencies),
      communicating_(std::make_shared<const CommunicatorDependencies>(CommunicatorDependencies{
          deps_.clock, deps_.transport, deps_.counters, deps_.membership})) {}

CommunicatorActor RankSpawner::communicator(caf::actor_system& system, int rank) const {
  auto actor = system.spawn<Communicator>(
      rank, deps_.state_of(rank), communicating_,
      make_conversation({rank, *deps_.settings, deps_.rule, deps_.objective->layout(),
                         deps_.vectors, deps_.step_s()}));
  deps_.mailboxes->set(rank, actor);
  return actor;
}

WorkerActor RankSpawner::worker(caf::actor_system& system, const NodeActor& node, int rank,
                                size_t place, uint64_t resumed_at) const {
  const Settings& s = *deps_.settings;
  const bool pairs = method_named(s.method).pattern == Pattern::pairwise;
  if (pairs && !deps_.objective->has_workers()) return {};
  const uint64_t horizon = deps_.pool ? 0 : s.gradients / static_cast<uint64_t>(s.ranks);
  WorkerDependencies deps{.rank = rank,
                          .place = static_cast<int>(place),
                          .clock = deps_.clock,
                          .settings = deps_.settings,
                          .horizon = horizon,
                          .pool = deps_.pool,
                          .resumed_at = resumed_at,
                          .trained_s = deps_.trained_s,
                          .gradient_s = deps_.gradient_s,
                          .compute = deps_.compute,
                          .counters = deps_.counters,
                          .ledger = {deps_.ledgers, deps_.ledger_of(place)},
                          .state = deps_.state_of(rank),
                          .node = node};
  return deps_.make_worker(system, std::move(deps)).actor;
}

}  // namespace grapevine
