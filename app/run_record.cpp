#include "app/run_record.hpp"

#include <fmt/core.h>

#include <fstream>
#include <sstream>

#include "app/curves.hpp"
#include "app/interrupts.hpp"
#include "app/json_output.hpp"
#include "app/report.hpp"

namespace grapevine {

std::string run_path(const Options& o, const std::string& node) {
  if (!o.out.empty() || !o.save) return o.out;
  return default_run_path(o.settings.method, o.settings.topology, o.settings.seed, node);
}

RunRecord::RunRecord(const char* command, const Options& options, const std::string& description)
    : command_(command), options_(options), description_(description), started_(utc_now()) {
  progress_.emplace(options.settings, options.quiet);
  watch_.interrupts = &interrupts();
  watch_.test_s = options.test_s;
  watch_.on_point = [this](const RunSample& p) {
    stream(json_of(p).dump());
    if (progress_) progress_->point(p);
  };
  watch_.on_epoch = [this](const EpochInfo& e) {
    stream(json_of(e).dump());
    const bool news = e.epoch > 1 || options_.settings.clock == Clock::wall;
    if (progress_ && news) progress_->say(epoch_text(e));
  };
  watch_.on_event = [this](const std::string& event) {
    stream(Json{{"event", event}}.dump());
    if (progress_) progress_->say(event);
  };
}

Result<std::unique_ptr<RunRecord>> RunRecord::begin(const char* command, const Options& options,
                                                    const std::string& description,
                                                    const std::string& directory) {
  std::unique_ptr<RunRecord> record(new RunRecord(command, options, description));
  if (directory.empty()) return record;
  auto made = RunDirectory::make(directory);
  if (!made) return made.error();
  record->directory_.emplace(std::move(*made));
  if (Status s = record->directory_->write("run.json", record->run_json("running", "")); !s)
    return s.error();
  if (options.plan.empty()) return record;
  std::ostringstream plan;
  plan << std::ifstream(options.plan).rdbuf();
  if (Status s = record->directory_->write("plan.toml", plan.str()); !s) return s.error();
  return record;
}

std::string RunRecord::run_json(const char* state, const std::string& result) const {
  Json object = {{"command", command_},
                 {"state", state},
                 {"seed", options_.settings.seed},
                 {"started", started_},
                 {"versions",
                  {{"grapevine", GRAPEVINE_VERSION},
                   {"compiler", __VERSION__},
                   {"caf", runtime_version()},
                   {"libtorch", GRAPEVINE_TORCH_VERSION}}},
                 {"objective", description_},
                 {"options", json_of(options_)}};
  if (!result.empty()) {
    object["ended"] = utc_now();
    object["result"] = Json::parse(result);
  }
  return object.dump(2) + "\n";
}

void RunRecord::stream(const std::string& line) {
  if (!directory_) return;
  const Status written = directory_->stream(line);
  if (!written && progress_) progress_->say("ALARM: " + written.error().message);
}

void RunRecord::quiet() { progress_.reset(); }

Status RunRecord::finish(const Summary& s, Objective& objective, const std::string& result) {
  quiet();
  if (!directory_) return Done{};
  const Status metrics = directory_->end_stream(), whole = write_all(s, objective);
  const char* state = s.failure || !whole ? "failed" : s.interrupted ? "interrupted" : "finished";
  const Status recorded = directory_->write("run.json", run_json(state, result));
  return !whole ? whole : !recorded ? recorded : metrics;
}

Status RunRecord::write_all(const Summary& s, Objective& objective) {
  const Settings& settings = options_.settings;
  const std::string title = fmt::format("{}, {} of {}, seed {}", settings.method, settings.topology,
                                        settings.ranks, settings.seed);
  if (Status ok = directory_->write("curves.svg", curves_svg(title, s.curve)); !ok) return ok;
  if (s.failure) return Done{};
  return objective.save_model(directory_->path(), s.mean.vec());
}

}  // namespace grapevine
