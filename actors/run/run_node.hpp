// run_node: the ranks of this process in a run of several processes, under the wall clock, from
// joining the others to leaving them.
//
// Every process runs the same function; none is first. actors/cluster/run_lifecycle.hpp describes
// the order of events.
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
  std::string run = "grapevine";  // nodes of a run of another name are refused
  std::string name;               // of this node, unique in the run; empty: HOST-PROCESS
  std::string listen;             // empty: a unix socket of this user, named after the node
  std::string advertise;          // the address that other nodes are told; empty: `listen`
  std::vector<std::string> join;  // addresses of nodes; one live node is enough
  std::string join_is;            // in words, for the line that none of them answers
  std::optional<RunKey> key;
  // This process signs with it. With the same key it is the same member after a restart.
  std::shared_ptr<const NodeKey> own_key;  // null: a new one
  uint64_t life = 0;    // differs at each start of the process; 0: drawn at random
  bool no_key = false;  // allow TCP on loopback without a key
  bool bulk_encryption = true;
  bool same_host = true;  // pass payloads through shared memory where possible
  int first_rank = -1;    // -1: any free ones
  int total_ranks = 0;    // ranks that must be there before the run begins; 0: none
  double patience_s = 15;
  // "name=value" lines (messages/setting_lines.hpp). A node with another value of one of `settings`
  // is refused. A node that joins is told both.
  std::string settings, defaults;
};

class GuestServer;  // actors/guests/guest_server.hpp
struct Mean;        // actors/cluster/mean_exchange.hpp
struct NodeStatus;  // actors/cluster/node_status.hpp

struct NodeHooks {
  RunHooks run;
  // True: an interrupt ends the run of all nodes. Null or false: this node leaves the others.
  const std::atomic<bool>* interrupt_is_for_all = nullptr;
  std::shared_ptr<GuestServer> guests;  // its scripts compute the steps of the ranks here
  std::function<void(const std::string& address)> on_listening;
  // Answers to requests of consoles. If a function is empty, the console is told so.
  std::function<std::string(const NodeStatus&)> render;
  std::function<std::string(const Mean&)> describe_snapshot;
  std::function<Result<Plan>(const std::string& text)> read_plan;
};

struct NodeResult {
  Outcome outcome;                     // of the ranks here
  std::shared_ptr<const Buffer> mean;  // over the ranks of all nodes that were there at the end
  // Their mean statistics (Objective::statistics); null: the objective has none.
  std::shared_ptr<const Buffer> statistics;
  int ranks = 0, nodes = 0;           // that are in the mean
  std::vector<std::string> missing;   // nodes that may not have the same mean
  std::vector<std::string> lost;      // nodes that stopped answering and did not come back
  std::vector<std::string> left;      // nodes that left while others trained and did not come back
  std::vector<Departure> departures;  // of other nodes and of this one
  bool drained = false;               // somebody asked this node to leave; the others continue
  bool stopped = false;               // drained, and no other node was left
  double mass_lost = 0;  // the weight (push-sum) of the ranks here, which have left the others
};

/// HOST-PROCESS, which is unique in a run.
std::string name_of_this_process();

/// check(settings), but accepts link faults in a plan: the links between processes are real.
Status check_of_node(const Settings&);

/// Checks all that can be checked before this process connects to others: names, addresses, ranks.
Status check(const NodeSettings&, const Settings&);

/// settings.ranks counts the ranks of the whole run, settings.local_ranks those here (0: all of
/// them). Errors: one of the two checks refuses; the objective is null or has no parameters; the
/// process cannot listen or reaches no other node; the objective or a hook threw (with the text of
/// the exception; this process then leaves the others).
/// REQUIRES: the objective is made for settings.ranks and compute_threads(settings).
Result<NodeResult> run_node(const Settings&, const NodeSettings&, std::shared_ptr<Objective>,
                            NodeHooks = {});

}  // namespace grapevine
