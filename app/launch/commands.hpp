// The command line of each node that `launch` starts, here or over ssh. Pure.
#pragma once
#include <string>
#include <vector>

#include "app/options/options.hpp"

namespace grapevine {

struct LaunchHost {
  std::string ssh;      // for ssh: user@host
  std::string address;  // where the other hosts reach it
};

/// The hosts in a file, one per line: `user@host` or `user@host ADDRESS`; # starts a comment.
/// Errors (user): the file cannot be read or names no host; a line has more than two words.
Result<std::vector<LaunchHost>> read_hosts(const std::string& path);

struct LaunchedNode {
  int number = 0;
  std::string listen;  // empty: the node's default
  std::vector<std::string> join;
  std::string plan;  // a file; empty: none
  int starts = 1;    // including this one
};

/// The name in the run: NAME.NUMBER. REQUIRES: launch.peers.name.
std::string name_of_node(const Options& launch, int number);

/// The compute threads of each process: the given number, or its share of this machine's cores and
/// at least one; 0 if each process has its own machine and uses all of it.
int threads_of_each(const Options& launch);

/// The arguments of `grapevine node` for this node, without the program's name: every option of the
/// run that is not the default, and the node's place in the run.
std::vector<std::string> node_arguments(const Options& launch, const LaunchedNode&);

/// The same, to be run on `host`. `program` is the path of grapevine, the same on all hosts.
std::vector<std::string> over_ssh(const LaunchHost& host, const std::string& program,
                                  const std::vector<std::string>& arguments);

/// The faults in the plan's text that nodes apply themselves: slow and those of links. Empty: there
/// are none. REQUIRES: the text is a valid plan.
std::string plan_for_nodes(const std::string& text);

}  // namespace grapevine
