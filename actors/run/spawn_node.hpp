// spawn_node: the actors of one process of several, in the caller's actor system, with the caller's
// links and clock.
#pragma once
#include "actors/cluster/cluster.hpp"
#include "actors/cluster/console_server.hpp"
#include "actors/cluster/transfers.hpp"
#include "actors/run/run_node.hpp"
#include "actors/run/site.hpp"

namespace grapevine {

/// The results of the actors of a process, each sent once at its end.
struct NodeEnds {
  std::function<void(Outcome)> ranks;  // called before `node`, if the ranks have begun
  std::function<void(ClusterEnding)> node;
};

/// The actors of one process of several, and the options and events to open its links with.
struct SpawnedNode {
  ClusterActor cluster;
  TransfersActor transfers;
  ConsoleActor console;
  std::optional<SpawnedRun> run;  // set between spawn_node and stop
  std::shared_ptr<LinkTransport> transport;
  caf::strong_actor_ptr holder;  // of frames that a plan delays
  LinksOptions options;
  LinkEvents events;

  void start(const std::shared_ptr<Links>&);  // the node joins the others; it waits until then
  void stop();                                // sends every actor its exit, drops the handles
};

/// REQUIRES: as run_node, under either clock. The links must outlive stop().
SpawnedNode spawn_node(caf::actor_system&, const Settings&, const NodeSettings&,
                       std::shared_ptr<Objective>, const NodeHooks&, NodeEnds);

}  // namespace grapevine
