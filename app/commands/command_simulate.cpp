// grapevine simulate: the same actors on the virtual clock, for one seed or several.
#include <grapevine/checkpoint.hpp>

#include "app/commands/commands.hpp"
#include "app/output/json_output.hpp"
#include "app/output/log.hpp"
#include "app/output/report.hpp"
#include "app/run/interrupts.hpp"
#include "app/run/run_record.hpp"

namespace grapevine {
namespace {

// The first seed's run is tested, and saved if --out asks for it. The others only give their
// counts.
Status run_first(Options& options, std::vector<Summary>& runs) {
  Settings& settings = options.settings;
  auto objective = make_objective_of(settings);
  if (!objective) return objective.error();
  objective = warm_start(options.init, options.settings.ranks, std::move(*objective));
  if (!objective) return objective.error();
  if (Status taken = take_epochs(options.epochs, **objective, settings); !taken)
    return taken.error();
  auto begins = beginning_of(options, **objective);
  if (!begins) return begins.error();
  auto record = RunRecord::begin("simulate", options, **objective, options.out, std::move(*begins));
  if (!record) return record.error();
  if (is_of_own_data(settings)) Log(options.log).info((*objective)->description());
  runs.push_back(execute(settings, *objective, (*record)->watch()));
  Summary& summary = runs.back();
  (*record)->complete(summary);
  if (!summary.failure) evaluate(settings, (*record)->watch(), **objective, summary);
  const std::string result = json_text(simulation_json(settings, runs));
  if (Status saved = (*record)->finish(summary, **objective, result); !saved) return saved;
  if (summary.failure) return *summary.failure;
  return Done{};
}

Status run_another(Settings settings, std::vector<Summary>& runs) {
  auto objective = make_objective_of(settings);
  if (!objective) return objective.error();
  Watch watch;
  watch.interrupts = &interrupts();
  runs.push_back(execute(settings, *objective, watch));
  if (runs.back().failure) return *runs.back().failure;
  return Done{};
}

}  // namespace

Result<int> simulate(Options options) {
  const Settings& settings = options.settings;
  std::vector<Summary> runs;
  if (Status ok = run_first(options, runs); !ok) {
    if (options.json && !runs.empty() && runs.front().alarm)
      print_json(simulation_json(settings, runs));
    return ok.error();
  }
  for (uint64_t k = 1; k < options.seeds && interrupts() == 0; ++k) {
    Settings next = settings;
    next.seed += k;
    if (Status ok = run_another(std::move(next), runs); !ok) return ok.error();
  }
  if (options.json) {
    print_json(simulation_json(settings, runs));
  } else {
    print_simulation(settings, runs, options.out);
  }
  return 0;
}

}  // namespace grapevine
