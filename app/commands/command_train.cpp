// grapevine train: a run under the wall clock, tested, reported and saved.
#include <fmt/core.h>

#include <chrono>
#include <grapevine/checkpoint.hpp>

#include "actors/run/run.hpp"
#include "app/commands/commands.hpp"
#include "app/output/json_output.hpp"
#include "app/output/report.hpp"
#include "app/run/interrupts.hpp"
#include "app/run/run_record.hpp"

namespace grapevine {
namespace {

using Instant = std::chrono::steady_clock::time_point;

Instant now() { return std::chrono::steady_clock::now(); }

double since(Instant start) { return std::chrono::duration<double>(now() - start).count(); }

Json training_json(const Settings& settings, const Summary& s, const TrainingTimes& times,
                   const std::string& run_dir) {
  Json object = json_of(settings, s);
  object["seconds"] = s.seconds;
  object["evaluation_seconds"] = times.evaluation_s;
  object["total_seconds"] = times.total_s;
  object["run_dir"] = run_dir;
  return object;
}

}  // namespace

Result<int> train(Options options) {
  const auto start = now();
  Settings& settings = options.settings;
  auto objective = make_objective_of(settings);
  if (!objective) return objective.error();
  objective = warm_start(options.init, options.settings.ranks, std::move(*objective));
  if (!objective) return objective.error();
  if (Status taken = take_epochs(options.epochs, **objective, settings); !taken)
    return taken.error();
  if (interrupts() > 0) return kInterrupted;
  auto begins = beginning_of(options, **objective);
  if (!begins) return begins.error();
  options.out = run_path(options);
  auto record = RunRecord::begin("train", options, **objective, options.out, std::move(*begins));
  if (!record) return record.error();
  if (!options.log.quiet && options.log.level == LogLevel::info)
    announce(options.log,
             fmt::format("{}; {} threads", (*objective)->description(), compute_threads(settings)));

  Summary summary = execute(settings, *objective, (*record)->watch());
  (*record)->complete(summary);
  TrainingTimes times;
  if (!summary.failure) {
    const auto tested = now();
    evaluate(settings, (*record)->watch(), **objective, summary);
    times.evaluation_s = since(tested);
  }
  times.total_s = since(start);
  const Json object = training_json(settings, summary, times, options.out);
  const Status saved = (*record)->finish(summary, **objective, json_text(object));
  if (summary.failure) {
    if (options.json && summary.alarm) print_json(object);
    return saved ? *summary.failure : saved.error();
  }
  if (options.json) {
    print_json(object);
  } else {
    print_training(settings, summary, times, options.out);
  }
  if (!saved) return saved.error();
  if (const auto lacks = shortfall_of(summary)) return *lacks;
  return 0;
}

}  // namespace grapevine
