// Simulated scripts: guests on the virtual clock. Each does SGD on an objective in a modelled time,
// as a rank's own worker would, and meets its rank as any script does, in a seat.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "actors/guests/guest_worker.hpp"
#include "actors/run/spawn_run.hpp"

namespace grapevine {

struct ScriptOptions {
  double lr = 0.1, momentum = 0;
  double slowness = 1;                  // a step takes settings.gradient_s times this
  double comes_s = 0, goes_s = kNever;  // it sits down, it is killed
  uint64_t steps = 0;                   // then it says that it has done its share; 0: never
  double tests_at = 0, tests_s = 0;     // after so many steps it does something else for so long
  double spoils_at = 0;                 // after so many steps one number is none; 0: never
  bool writes_early = false;            // a step is in the front when its time begins
};

/// The events that scripts have seen.
struct ScriptLog {
  uint64_t steps = 0;  // answered
  uint64_t first = 0;  // of the rank, when the script first had parameters
  uint64_t exchanges = 0;
  int not_finite = 0;  // answers that said so
  bool end = false;
  std::vector<double> answered_s;  // when
};

/// For rank k here scripts[k], one after the other.
class SimulatedScripts {
 public:
  SimulatedScripts(Settings, std::shared_ptr<Objective>, std::vector<std::vector<ScriptOptions>>);

  RunHooks hooks() const;
  const ScriptLog& log(size_t place, size_t script) const { return *logs_[place][script]; }

 private:
  Settings settings_;
  std::shared_ptr<Objective> objective_;
  std::vector<std::vector<ScriptOptions>> scripts_;
  std::vector<std::vector<std::shared_ptr<ScriptLog>>> logs_;
};

}  // namespace grapevine
