// run_node: the ranks of this process in a run of several processes, under the wall clock, from
// joining the others to leaving them.
//
// Every process runs the same function; none is first. See actors/cluster/run_lifecycle.hpp for
// what happens when.
#pragma once
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/run/run.hpp"
#include "actors/transport/run_key.hpp"

namespace grapevine {

class NodeKey;  // actors/transport/node_key.hpp

struct NodeSettings {
  std::string run = "grapevine";  // the run's name: nodes of another are refused
  std::string name;               // this node's, its own in the run; empty: HOST-PROCESS
  std::string listen;             // empty: a unix socket of this user, by the name
  std::string advertise;          // the address that others are told; empty: where it listens
  std::vector<std::string> join;  // addresses of nodes; any live one will do
  std::optional<RunKey> key;
  // What this process signs with: the same one each time makes it the same member to the others.
  std::shared_ptr<const NodeKey> own_key;  // null: a new one
  uint64_t life = 0;    // another each time that the process is started; 0: drawn
  bool no_key = false;  // TCP on loopback without one
  bool bulk_encryption = true;
  bool same_host = true;  // pass payloads through shared memory where it can be had
  int first_rank = -1;    // -1: whichever are free
  int total_ranks = 0;    // to wait for before the run begins; 0: it begins at once
  double patience_s = 15;
  // "name=value" lines (messages/setting_lines.hpp): who names another value of one of `settings`
  // is refused; who joins is told both.
  std::string settings, defaults;
};

class GuestServer;  // actors/guests/guest_server.hpp
struct Mean;        // actors/cluster/mean_exchange.hpp
struct NodeStatus;  // actors/cluster/node_status.hpp

struct NodeHooks {
  RunHooks run;
  // True: an interrupt ends the run of all nodes. Null or false: this node leaves the others.
  const std::atomic<bool>* interrupt_is_for_all = nullptr;
  std::shared_ptr<GuestServer> guests;  // whose scripts compute the steps of the ranks here
  std::function<void(const std::string& address)> on_listening;
  // Requests of consoles; if one is empty, consoles are told so.
  std::function<std::string(const NodeStatus&)> render;
  std::function<std::string(const Mean&)> describe_snapshot;
  std::function<Result<Plan>(const std::string& text)> read_plan;
};

struct NodeResult {
  Outcome outcome;                     // of the ranks here
  std::shared_ptr<const Buffer> mean;  // over the ranks of all nodes that were there at the end
  // Likewise (Objective::statistics); null: there are none.
  std::shared_ptr<const Buffer> statistics;
  int ranks = 0, nodes = 0;           // that are in it
  std::vector<std::string> missing;   // nodes of whom it is not known that they have the same
  std::vector<std::string> lost;      // nodes that answered no more, and did not come back
  std::vector<std::string> left;      // nodes that left while others trained, and are not back
  std::vector<Departure> departures;  // of other nodes, and of this one
  bool drained = false;               // somebody asked this node to leave the others, who go on
  bool stopped = false;               // and there were no others left
  double mass_lost = 0;  // push-sum's weight of the ranks here, which have left the others
};

/// HOST-PROCESS: no other process of a run has it.
std::string name_of_this_process();

/// check(settings), but that a plan may have faults of links: between processes they are real ones.
Status check_of_node(const Settings&);

/// Everything that can be refused before this process meets others: names, addresses, ranks.
Status check(const NodeSettings&, const Settings&);

/// settings.ranks are those of the whole run, settings.local_ranks (0: all of them) those here.
/// Errors: what both checks refuse; an objective that is null or has no parameters; it cannot
/// listen, or meets nobody; what the objective or a hook threw, by its text: this process then
/// leaves the others.
/// REQUIRES: the objective is made for settings.ranks and compute_threads(settings).
Result<NodeResult> run_node(const Settings&, const NodeSettings&, std::shared_ptr<Objective>,
                            NodeHooks = {});

}  // namespace grapevine
