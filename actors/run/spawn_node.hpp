// spawn_node: the actors of one process among several, in an actor system of the caller's, for
// links and a clock of another kind than run_node's.
#pragma once
#include "actors/cluster/cluster.hpp"
#include "actors/cluster/console_server.hpp"
#include "actors/cluster/transfers.hpp"
#include "actors/run/run_node.hpp"
#include "actors/run/site.hpp"

namespace grapevine {

/// The results of the actors of a process, each sent once at its end.
struct NodeEnds {
  std::function<void(Outcome)> ranks;  // before `node`, if they have begun
  std::function<void(ClusterEnding)> node;
};

/// The actors of one process among several, and what its links are to be opened with.
struct SpawnedNode {
  ClusterActor cluster;
  TransfersActor transfers;
  ConsoleActor console;
  std::optional<SpawnedRun> run;  // always, but before and after
  std::shared_ptr<LinkTransport> transport;
  caf::strong_actor_ptr holder;  // of frames that a plan delays
  LinksOptions options;
  LinkEvents events;

  void start(const std::shared_ptr<Links>&);  // it joins the others; before that it waits
  void stop();                                // sends every actor its exit, drops the handles
};

/// REQUIRES: as run_node, under either clock. The links must outlive stop().
SpawnedNode spawn_node(caf::actor_system&, const Settings&, const NodeSettings&,
                       std::shared_ptr<Objective>, const NodeHooks&, NodeEnds);

}  // namespace grapevine
