// run_node: the ranks of this process in a run of several processes, under the wall clock, from
// joining the others to leaving them; and its actors alone, for links and a clock of another kind.
//
// Every process runs the same function; none is first. See run_lifecycle.hpp for what happens when.
#pragma once
#include "actors/cluster/cluster.hpp"
#include "actors/cluster/console_server.hpp"
#include "actors/cluster/transfers.hpp"
#include "actors/run/run.hpp"

namespace grapevine {

struct NodeSettings {
  std::string run = "grapevine";  // the run's name: nodes of another are refused
  std::string name;               // this node's, its own in the run
  std::string listen;             // empty: a unix socket of this user, by the name
  std::vector<std::string> join;  // addresses of nodes; any live one will do
  std::optional<RunKey> key;
  bool no_key = false;  // TCP on loopback without one
  bool bulk_encryption = true;
  bool same_host = true;  // pass payloads through shared memory where it can be had
  int first_rank = -1;    // -1: whichever are free
  int total_ranks = 0;    // to wait for before the run begins; 0: it begins at once
  double patience_s = 15;
  uint32_t generation = 0;  // of the run: one that is resumed has a later one
  // "name=value" lines (messages/setting_lines.hpp): who names another value of one of `settings`
  // is refused; who joins is told both.
  std::string settings, defaults;
};

class GuestHall;  // actors/guest_hall.hpp

struct NodeHooks {
  RunHooks run;
  std::shared_ptr<GuestHall> guests;  // whose scripts compute the steps of the ranks here
  std::function<void(const std::string& address)> on_listening;
  // What consoles ask for; where one is empty, they are told so.
  std::function<std::string(const NodeStatus&)> render;
  std::function<std::string(const Mean&)> describe_snapshot;
  std::function<Result<Plan>(const std::string& text)> read_plan;
};

struct NodeResult {
  Outcome outcome;                     // of the ranks here
  std::shared_ptr<const Buffer> mean;  // over the ranks of all nodes that were there at the end
  std::shared_ptr<const Buffer>
      statistics;                     // likewise (Objective::statistics); null: there are none
  int ranks = 0, nodes = 0;           // that are in it
  std::vector<std::string> missing;   // nodes of whom it is not known that they have the same
  std::vector<Departure> departures;  // of other nodes, and of this one
};

/// What the actors of a process tell once, when it is over for them.
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

/// REQUIRES: check(settings) with the wall clock, settings.local_ranks set, an objective as for
/// run(). Fails where it cannot listen, or meets nobody.
Result<NodeResult> run_node(const Settings&, const NodeSettings&, std::shared_ptr<Objective>,
                            NodeHooks);

}  // namespace grapevine
