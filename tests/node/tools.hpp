// Shared by the tests of several processes: a node that continues while the test reads its output.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "app/output/json_output.hpp"
#include "app/system/child_process.hpp"
#include "messages/console.hpp"

namespace grapevine::test {

/// A `grapevine ARGUMENTS` of its own; killed with the object. It leaves no run directory that was
/// not asked for.
class Process {
 public:
  /// `variables`: NAME=VALUE, of its environment. `program`: of the build folder; hostile members
  /// are the program with a patch (tests/hostile).
  explicit Process(std::vector<std::string> arguments, std::vector<std::string> variables = {},
                   const std::string& program = "grapevine");

  std::string address();  // where it listens; fails the test where it ends before
  void signal(int number) { child_->signal(number); }
  /// As below, of this node; fails the test with what it said where it ends.
  Json wait_for(const std::function<bool(const Json&)>& holds);
  int end();  // its exit status; fails the test after a minute, with what is still open
  bool ended();
  Json result();  // what it printed; after end()
  const std::string& err() const { return child_->err(); }
  ChildProcess& child() { return *child_; }

 private:
  std::string address_said() const;  // "" before it has

  std::unique_ptr<ChildProcess> child_;
};

/// Its status, by its console; null where it does not answer. `key`: the run key's file, if any.
Json status_of(const std::string& address, const std::string& key = "");

/// Asks until it holds, for at most a minute, some fifty times a second: the nodes need the cores
/// too. Returns the last answer.
Json wait_for_status(
    const std::string& address, const std::function<bool(const Json&)>& holds,
    const std::function<void()>& otherwise = [] { ChildProcess::wait_any({}, 20); });

/// Its status of now: a node that got no core for too long to answer is asked again.
Json status_when_there(const std::string& address);

/// The numbers of a .safetensors file with one tensor, of f64.
std::vector<double> numbers_of(const std::string& path);
/// The largest difference between two of equal length; infinite otherwise.
double farthest(const std::vector<double>&, const std::vector<double>&);

/// The state of a member in a status, "" where it is not known.
std::string state_of(const Json& status, const std::string& node);
/// Of those in a status: who gets no core for a fifth of a second is a suspect for a while.
bool all_alive(const Json& status);
/// Of the edge between two ranks, the lower one first; 0 where it is not known.
uint64_t exchanges_of(const Json& status, int rank, int peer);
uint64_t sum_of(const Json& numbers);

/// `nodes` processes with `ranks` each, named a, b, c, ...: the first listens, the others join it.
/// Quadratics, unless `more` names an objective; the first @ of a word becomes the node's name.
std::vector<std::unique_ptr<Process>> start_nodes(int nodes, int ranks,
                                                  const std::vector<std::string>& more);

}  // namespace grapevine::test
