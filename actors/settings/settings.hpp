// Settings: all settings of a run. A value, the same for both clocks; app/ fills it from options
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

enum class Clock { wall, simulated };
enum class Pacing {
  poisson,  // gradients at the events of a Poisson process
  greedy,   // the next gradient starts when the last one ends
};
/// How snapshots on a device reach another process: in place where its device reaches this one's
/// memory, by NCCL where both ask for that, else through the host's memory.
enum class DeviceLink {
  automatic,  // in place where that is possible
  host,       // never in place
  vmm,        // in place, for runs on devices alone
  nccl        // experimental: by a communicator of the two devices, in the clear
};
/// Whose the gradients of a run are.
enum class Share {
  automatic,  // pool where ranks do not wait for each other and no data are a rank's own
  pool,       // the run's: whoever is free takes the next one (actors/rank/work_pool.hpp)
  equal       // each rank has as many as any other
};
enum class Schedule { constant, step, cosine };

struct LearningRate {
  double peak = 0.1;
  Schedule schedule = Schedule::cosine;
  double warmup = 0.05;  // fraction of the horizon, linear from 0

  /// The factor on a gradient that is `done` of the way (0..1) through the run; step: a tenth at
  /// 1/2 and 3/4.
  double at(double done) const;
};

struct Settings {
  Clock clock = Clock::wall;
  std::string method = "a2cid2";  // algorithms/method_registry.cpp has them
  std::string topology = "ring";
  int ranks = 16;       // of the whole run
  int local_ranks = 0;  // of this process; 0: all
  double rate = 1;      // exchanges per rank and mean gradient
  uint64_t seed = 1;
  Pacing pacing = Pacing::greedy;
  Pairing pairing = Pairing::free;
  ObjectiveSpec objective;     // its ranks, threads and seed are set from here
  uint64_t gradients = 40000;  // of all ranks together; 0: until `until_s`
  Share share = Share::automatic;
  double fastest_at_most = 10;  // times the median pace of a rank that a member's is believed
  LearningRate lr;
  RuleSettings rule = with_optimizer({0.9, 5e-4});
  // Steps that a rank takes alone, by that optimizer, before it hands what they did to the method
  // as a gradient, whose step has Nesterov's momentum then.
  uint64_t inner_steps = 1;
  double outer_lr = 0;  // 0: 0.7 with inner steps, and without them none are handed over
  double outer_momentum = 0.9;
  std::string weights = "metropolis";  // of the gossip matrix (topologies/weights.hpp)
  int threads = 0;                     // that compute gradients; 0: one per core
  std::string device = "cpu";          // where ranks live: cpu, cuda[:K], auto (a GPU, if any)
  DeviceLink device_link = DeviceLink::automatic;
  Plan plan;
  double sample_s = 1;  // between two samples of the consensus distance; 0: none
  double alarm_s = 30;  // patience with what stands still (node/stall_watch.hpp); 0: for ever

  // The virtual clock's model.
  LinkModel link;
  double gradient_s = 1;    // of a rank that no plan slows down
  double speed_spread = 0;  // sigma of the log-normal duration of one gradient, its mean kept
  double until_s = 0;       // stop at this time; 0: at the gradients
  double target = 0;        // stop when |pi x| has shrunk by this factor; 0: no target

  // Controls for experiments (see PairwiseOptions), which no option names.
  bool allow_repeats = false;
  int exchanges_at_once = 1;
  bool guarded = true;  // false: whatever is finite is averaged whole (actors/guard)
};

inline int ranks_here(const Settings& s) { return s.local_ranks > 0 ? s.local_ranks : s.ranks; }

/// The inner steps of the ranks.
InnerSteps inner_steps_of(const Settings&);
/// The settings of the rules, whose optimizer is the outer one where there are inner steps.
RuleSettings rule_settings_of(const Settings&);

/// Whether the ranks take their gradients from one pool; or will as soon as a script says how many
/// there are.
bool pools(const Settings&);
bool may_pool(const Settings&);

/// The number of the GPU that a name means. "cuda" is the first, "auto" the one with the most free
/// memory, "cpu" none. "auto" without a GPU is none too. Error (user): an unknown name.
Result<std::optional<int>> gpu_named(const std::string& name);

/// Everything that can be refused before a run: names, ranges, a method that cannot use the graph,
/// the plan.
Status check(const Settings&);

}  // namespace grapevine
