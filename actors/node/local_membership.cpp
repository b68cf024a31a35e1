#include "actors/node/local_membership.hpp"

#include <algorithm>

#include "actors/node/topology_manager.hpp"

namespace grapevine {

LocalMembership::LocalMembership(caf::actor_config& config,
                                 std::shared_ptr<const Settings> settings, uint64_t first_epoch)
    : LocalMembershipActor::base(config),
      settings_(std::move(settings)),
      roster_(settings_->ranks, settings_->topology, first_epoch) {}

caf::result<std::string> LocalMembership::reconfigure(const std::string& topology) {
  if (ends_) return caf::make_error(caf::sec::invalid_argument, "the run is ending");
  const auto ranks = static_cast<int>(roster_.ranks().size());
  const auto graph = usable_graph(*settings_, topology, ranks);
  if (!graph) return caf::make_error(caf::sec::invalid_argument, graph.error().message);
  roster_.reconfigure(topology);
  tell();
  return "epoch " + std::to_string(roster_.epoch()) + ": " + graph->name() + " of " +
         std::to_string(ranks) + " ranks, " + std::to_string(graph->edges().size()) + " edges";
}

// The first neighbour in a graph with this rank.
int LocalMembership::source_for(int rank) const {
  std::vector<int> with = roster_.ranks();
  const auto at = with.insert(std::lower_bound(with.begin(), with.end(), rank), rank);
  const auto place = static_cast<int>(at - with.begin());
  const Topology graph =
      graph_of(roster_.topology(), static_cast<int>(with.size()), settings_->rate);
  const auto neighbours = graph.neighbours(place);
  return neighbours.empty() ? rank : with[static_cast<size_t>(neighbours[0].rank)];
}

LocalMembership::behavior_type LocalMembership::make_behavior() {
  return {
      [this](const Reconfigure& change) { return reconfigure(change.topology); },
      [](const EdgeRatesPtr&) {},  // there are no other nodes
      [](const EpochInfo&) {},     // there is no console
      [this](ShareDone) {
        ends_ = true;
        send(parts_.node, Finish{});
      },
      [](const OwnWork&) {},
      [](Suspected) {},  // a rank of this process reports its own death
      [this](RankLost gone) {
        if (!roster_.has(gone.rank)) return;
        roster_.gone(gone.rank);
        tell();
      },
      [this](RankReturns back) { return source_for(back.rank); },
      [this](RankReady ready) {
        roster_.back(ready.rank);
        tell();
      },
      [this](LocalStart& start) {
        parts_ = std::move(start);
        tell();
        send(parts_.node, Begin{});
      },
  };
}

}  // namespace grapevine
