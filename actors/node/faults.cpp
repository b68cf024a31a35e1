#include "actors/node/faults.hpp"

#include <numeric>

namespace grapevine {

Faults::Faults(caf::actor_config& config, FaultsDependencies deps)
    : FaultsActor::base(config), deps_(std::move(deps)) {}

template <class Message>
void Faults::for_each_rank(const RankFault& fault, double at, Message message) {
  std::vector<int> ranks = fault.ranks;
  if (ranks.empty()) {
    ranks.resize(static_cast<size_t>(deps_.ranks));
    std::iota(ranks.begin(), ranks.end(), 0);
  }
  for (const int rank : ranks)
    incidents_.push_back({at, [=, this] { message(rank); }});
}

Faults::behavior_type Faults::make_behavior() {
  const NodeActor node = deps_.node;
  for (const RankFault& fault : deps_.plan.rank_faults) {
    switch (fault.kind) {
      case RankFaultKind::slow: break;
      case RankFaultKind::pause:
        for_each_rank(fault, fault.at, [this, node](int rank) { send(node, Order::pause, rank); });
        if (fault.until < kNever)
          for_each_rank(fault, fault.until,
                        [this, node](int rank) { send(node, Order::resume, rank); });
        break;
      case RankFaultKind::kill:
        for_each_rank(fault, fault.at, [this, node](int rank) { send(node, KillRank{rank}); });
        break;
      case RankFaultKind::restart:
        for_each_rank(fault, fault.at, [this, node](int rank) { send(node, RestartRank{rank}); });
        break;
    }
  }
  for (const Reconfiguration& change : deps_.plan.reconfigurations) {
    incidents_.push_back({change.at, [this, change] {
                            request(deps_.membership, caf::infinite, Reconfigure{change.topology})
                                .then([](const std::string&) {}, [](const caf::error&) {});
                          }});
  }
  return {
      [this](Start) {
        for (size_t k = 0; k < incidents_.size(); ++k) {
          scheduled_send(caf::actor_cast<FaultsActor>(this), deps_.clock.instant(incidents_[k].at),
                         Tick{static_cast<int>(k)});
        }
      },
      [this](Tick tick) { incidents_[static_cast<size_t>(tick.id)].happens(); },
  };
}

}  // namespace grapevine
