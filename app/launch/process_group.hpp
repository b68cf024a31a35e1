// ProcessGroup: the processes of a `launch` and their state. One thread uses it.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "app/launch/commands.hpp"
#include "app/output/json_output.hpp"
#include "app/system/child_process.hpp"

namespace grapevine {

class ProcessGroup {
 public:
  /// `hosts`: one for each node; empty: all nodes are here. `plan`: a file for the nodes; may be
  /// empty.
  ProcessGroup(const Options& launch, std::vector<LaunchHost> hosts, std::string plan);

  /// Starts all: the first node, and once it listens the others. Error: the last message of a node
  /// that ended.
  Status start();
  /// Processes the messages of the nodes, for at most this time.
  void wait(int timeout_ms);

  size_t size() const { return nodes_.size(); }
  bool ended() const;  // all of them
  bool ended(int node) const;
  bool listens(int node) const { return !at(node).address.empty() && !ended(node); }
  const std::string& address(int node) const { return at(node).address; }
  const std::string& task(int node) const { return at(node).task; }
  std::string name(int node) const { return name_of_node(launch_, node); }
  int status(int node) const { return at(node).child->status(); }
  Json result(int node) const;            // null: it left none
  std::string complaint(int node) const;  // the signal that ended it, or its last line
  /// Whether it was ended by a signal that this process did not send: the system's, because memory
  /// ran out, or another user's.
  bool died(int node) const;
  bool lost(int node) const { return at(node).killed; }  // by kill()
  bool paused(int node) const { return at(node).paused; }

  void kill(int node);
  void pause(int node, bool on);
  Status restart(int node);  // kills it first if it is running
  /// Whether a process that starts now can join: a node listens, or there are no nodes at all.
  bool can_start() const;
  /// Ends the run at all nodes, with the mean of all. Each node is told to stop, so that none
  /// leaves the others. It also gets the signal that this process got, which tells it whether it
  /// may resume later.
  void interrupt();

  /// Makes each node take a checkpoint.
  void save();

  /// The status of a node, from its console; null: it does not answer.
  Json ask(int node) const;

 private:
  struct Node {
    std::unique_ptr<ChildProcess> child;
    std::string address;  // once it listens
    std::string task;     // what it trains on, where it says so
    bool killed = false, paused = false;
    int starts = 0;
  };
  const Node& at(int node) const { return nodes_[static_cast<size_t>(node)]; }
  Status start(int node, std::vector<std::string> join);
  std::vector<std::string> contacts() const;

  const Options& launch_;
  std::vector<LaunchHost> hosts_;
  std::string plan_;
  std::vector<Node> nodes_;
};

}  // namespace grapevine
