// Settings: all settings of a run. A value, the same for both clocks. app/ fills it from options
// and files.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "actors/algorithms/rule_settings.hpp"
#include "actors/conversations/pairing.hpp"
#include "actors/settings/plan.hpp"
#include "actors/transport/link_model.hpp"
#include "models/objective.hpp"

namespace grapevine {

class Topology;  // topologies/topology.hpp

enum class Clock { wall, simulated };
enum class Pacing {
  poisson,  // gradients at the events of a Poisson process
  greedy,   // the next gradient starts when the last one ends
};
/// How snapshots on a device reach another process: in place if its device can reach the memory of
/// this one, by NCCL if both ask for it, else through the host's memory.
enum class DeviceLink {
  automatic,  // in place if possible
  host,       // never in place
  vmm,        // as automatic, and reports each node that gets copies
  nccl        // experimental: by a communicator of the two devices, not encrypted
};
/// How the ranks share the gradients of a run.
enum class Share {
  automatic,  // pool if ranks do not wait for each other and have no data of their own
  pool,       // a free rank takes the next one (actors/rank/work_pool.hpp)
  equal       // each rank takes an equal number
};
enum class Schedule { constant, step, cosine };

struct LearningRate {
  double peak = 0.1;
  Schedule schedule = Schedule::cosine;
  double warmup = 0.05;  // fraction of the horizon, linear from 0

  /// The factor for a gradient at `done` (0..1) of the run. step: a tenth at 1/2 and again at 3/4.
  double at(double done) const;
};

struct Settings {
  Clock clock = Clock::wall;
  std::string method = "a2cid2";  // see algorithms/method_registry.cpp
  std::string topology = "ring";
  int ranks = 16;       // of the whole run
  int local_ranks = 0;  // of this process; 0: all
  double rate = 1;      // exchanges per rank and gradient, on average
  uint64_t seed = 1;
  Pacing pacing = Pacing::greedy;
  Pairing pairing = Pairing::free;
  ObjectiveSpec objective;     // its ranks, threads and seed are set from here
  uint64_t gradients = 40000;  // of all ranks together; 0: until `until_s`
  Share share = Share::automatic;
  double fastest_at_most = 10;  // times the median pace of a rank; a faster member is not believed
  LearningRate lr;
  RuleSettings rule = with_optimizer({0.9, 5e-4});
  // Steps that a rank takes alone, with that optimizer. The method then takes their sum as a
  // gradient, in an outer step with Nesterov momentum.
  uint64_t inner_steps = 1;
  double outer_lr = 0;  // 0: 0.7 with inner steps; without them there are no outer steps
  double outer_momentum = 0.9;
  std::string weights = "metropolis";  // of the gossip matrix (topologies/weights.hpp)
  int threads = 0;                     // that compute gradients; 0: one per core
  std::string device = "cpu";          // of the ranks: cpu, cuda[:K], auto (a GPU, if there is one)
  DeviceLink device_link = DeviceLink::automatic;
  Plan plan;
  double sample_s = 1;  // between two samples of the consensus distance; 0: none
  double alarm_s = 30;  // patience before alarms (node/stall_watch.hpp); 0: no such alarms

  // The virtual clock's model.
  LinkModel link;
  double gradient_s = 1;    // of a rank that no plan slows down
  double speed_spread = 0;  // sigma of the log-normal duration of a gradient; the mean stays
  double until_s = 0;       // stop at this time; 0: only at the gradients
  double target = 0;        // stop when |pi x| has shrunk by this factor; 0: no target

  // Controls for experiments (see PairwiseOptions), without an option.
  bool allow_repeats = false;
  int exchanges_at_once = 1;
  bool guarded = true;  // false: finite data are always averaged whole (actors/guard)
};

inline int ranks_here(const Settings& s) { return s.local_ranks > 0 ? s.local_ranks : s.ranks; }

/// The inner steps of the ranks.
InnerSteps inner_steps_of(const Settings&);
/// The settings of the rules. With inner steps their optimizer is the outer one.
RuleSettings rule_settings_of(const Settings&);

/// Whether the ranks take their gradients from one pool; or will, once a script says how many there
/// are.
bool pools(const Settings&);
bool may_pool(const Settings&);

/// The number of the GPU with this name. "cuda" is the first, "auto" the one with the most free
/// memory, "cpu" none. "auto" without a GPU is none too. Error (user): an unknown name.
Result<std::optional<int>> gpu_named(const std::string& name);

/// Checks all that can be checked before a run: names, ranges, a method that cannot use the graph,
/// the plan.
Status check(const Settings&);

/// The graph of that spec, for the run or for a later epoch with `ranks` ranks. Error (user): it
/// cannot be made, or the method cannot use it with these settings.
Result<Topology> usable_graph(const Settings&, const std::string& topology, int ranks);

}  // namespace grapevine
