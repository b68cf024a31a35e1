// NodeProcess: a node with a device, as a process of its own: this very program, started anew.
#pragma once
#include <sys/types.h>

#include <cstdio>
#include <map>
#include <string>

#include "actors/run/run_node.hpp"
#include "kernels/device/device.hpp"
#include "messages/console.hpp"

namespace grapevine::testing {

class NodeProcess {
 public:
  static constexpr int kRanks = 1;  // of each

  /// One of `nodes` in a run of that name; `arguments`: of this program, by which it comes to
  /// serve().
  NodeProcess(const std::string& run, int number, int nodes, DeviceLink, const std::string& join,
              const char* arguments);
  ~NodeProcess();
  NodeProcess(const NodeProcess&) = delete;

  /// Runs the node, in the process that was started for it; returns false in any other. `settings`:
  /// those of the run, except ranks and link.
  static bool serve(Settings settings, const std::function<std::unique_ptr<Device>()>& device);

  const std::string& address() const { return address_; }
  void kill();
  /// The word behind this one, which begins a line that the process says; empty: it has ended.
  std::string word_after(const std::string& first);

  struct Edge {
    uint64_t lent = 0, borrowed = 0;
    bool in_place = false;
  };
  struct Told {
    double uptime_s = 0;
    uint64_t exchanges = 0;
    std::map<int, Edge> edges;  // by the other node's number
  };
  Told told();
  std::string asked(ConsoleVerb);

 private:
  pid_t pid_ = 0;
  std::FILE* out_ = nullptr;
  std::string address_;
};

}  // namespace grapevine::testing
