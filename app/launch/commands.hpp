// The command line of each node that `launch` starts, here or over ssh. Pure.
#pragma once
#include <string>
#include <vector>

#include "app/options/options.hpp"

namespace grapevine {

struct LaunchHost {
  std::string ssh;      // as ssh takes it: user@host
  std::string address;  // where the others reach it
};

/// The hosts of a file: a line each, `user@host` or `user@host ADDRESS`; # begins a comment. Errors
/// (user): a file that cannot be read or names none, a line of more than two words.
Result<std::vector<LaunchHost>> read_hosts(const std::string& path);

struct LaunchedNode {
  int number = 0;
  std::string listen;  // empty: as a node does by itself
  std::vector<std::string> join;
  std::string plan;  // a file; empty: none
  int starts = 1;    // this one included
};

/// The name in the run: NAME.NUMBER. REQUIRES: launch.peers.name.
std::string name_of_node(const Options& launch, int number);

/// The compute threads of each process: the given number, or its share of this machine's cores and
/// at least one; 0 if each process has its own machine and uses all of it.
int threads_of_each(const Options& launch);

/// The words of `grapevine node ...` for it: every option of the run that is not the default, and
/// its place in it. Without the program's name.
std::vector<std::string> node_arguments(const Options& launch, const LaunchedNode&);

/// The same to be run on `host`. `program` is the path of grapevine, there as here.
std::vector<std::string> over_ssh(const LaunchHost& host, const std::string& program,
                                  const std::vector<std::string>& arguments);

/// The faults in the plan's text that nodes apply themselves: slow and those of links. Empty: there
/// are none. REQUIRES: the text of a valid plan.
std::string plan_for_nodes(const std::string& text);

}  // namespace grapevine
