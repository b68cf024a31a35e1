// grapevine simulate: the same actors on the virtual clock, for one seed or several.
#include <cstdio>

#include "app/commands.hpp"
#include "app/execute.hpp"
#include "app/interrupts.hpp"
#include "app/json_output.hpp"
#include "app/report.hpp"

namespace grapevine {

Result<int> simulate(Options options) {
  Settings& settings = options.settings;
  std::vector<Summary> runs;
  for (uint64_t k = 0; k < options.seeds; ++k) {
    Settings one = settings;
    one.seed += k;
    auto objective = make_objective_of(one);
    if (!objective) return objective.error();
    Watch watch;
    watch.interrupts = &interrupts();
    runs.push_back(execute(one, *objective, watch));
    if (runs.back().failure) return *runs.back().failure;
    if (interrupts() > 0) break;
  }
  if (options.json) {
    print_json(simulation_json(settings, runs));
  } else {
    print_simulation(settings, runs);
  }
  return 0;
}

}  // namespace grapevine

namespace grapevine {
Result<int> train(Options) { return user_error("train is not there yet"); }
Result<int> stragglers(Options) { return user_error("stragglers is not there yet"); }
}
