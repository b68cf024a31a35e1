// Faults: the actor that applies a plan to ranks: pause, kill, restart, and changes of the graph.
//
// Slow ranks read the plan themselves. The transport applies faults of links.
#pragma once
#include <functional>
#include <vector>

#include "actors/clocks/run_clock.hpp"
#include "actors/mail/mail_node.hpp"
#include "actors/settings/plan.hpp"

namespace grapevine {

struct FaultsDependencies {
  RunClock clock;
  Plan plan;
  int ranks = 0;
  NodeActor node;
  MembershipActor membership;
};

class Faults final : public FaultsActor::base {
 public:
  Faults(caf::actor_config& config, FaultsDependencies deps);

 protected:
  behavior_type make_behavior() override;
  void on_exit() override { incidents_.clear(); }

 private:
  struct Incident {
    double at = 0;
    std::function<void()> happens;
  };
  template <class Message>
  void for_each_rank(const RankFault&, double at, Message message);

  FaultsDependencies deps_;
  std::vector<Incident> incidents_;
};

}  // namespace grapevine
