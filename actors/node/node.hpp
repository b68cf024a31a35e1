// Node: the actor that supervises the ranks of a process, and ends the run.
//
// When every worker here has taken its gradients, Node tells the owner of the membership. Finished
// ranks keep exchanging. The run ends at Finish: nothing new starts, open exchanges finish, all
// ranks mix to one time, and the program that started the run gets the outcome.
//
// Its parts: node_ranks.hpp (the ranks, their actors and numbers) and run_end.hpp (the end). Node
// itself reports on the ranks, watches for those that make no progress, and tells the others the
// work of the ranks here.
#pragma once
#include <functional>
#include <optional>

#include "actors/node/node_ranks.hpp"
#include "actors/node/run_end.hpp"
#include "actors/node/stall_watch.hpp"

namespace grapevine {

class Node final : public NodeActor::base {
 public:
  Node(caf::actor_config& config, NodeDependencies deps);

 protected:
  behavior_type make_behavior() override;
  void on_exit() override;

 private:
  void have_begun();
  void check_finished();
  void diverged(const Diverged&);
  void report(std::function<void(NodeReport&)> then);
  void tell_report();
  void measure();
  void look_at_clock();
  void tell_work();
  void hear(const WorkHeard&);
  void again(double at_s, int tick);
  void on_tick(int tick);

  NodeDependencies deps_;
  NodeRanks ranks_;
  RunEnd end_;
  bool has_begun_ = false;
  std::optional<StallWatch> watch_;  // on the wall clock
  double pulse_at_s_ = 0;            // the next look at the clock; 0: there was none yet
};

}  // namespace grapevine
