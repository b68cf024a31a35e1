#include "app/compare/runs.hpp"

#include <fmt/core.h>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <thread>

#include "app/checkpoint/real_disk.hpp"
#include "app/output/run_directory.hpp"
#include "app/run/interrupts.hpp"
#include "app/system/child_process.hpp"
#include "app/system/words.hpp"
#include "kernels/base/cores.hpp"
#include "kernels/base/printable.hpp"
#include "kernels/base/write_file.hpp"

namespace grapevine {
namespace {

using Instant = std::chrono::steady_clock::time_point;

double seconds_since(Instant begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// On a terminal one line that is rewritten; otherwise a line for each finished run.
class JobProgress {
 public:
  JobProgress(size_t all, size_t reused, bool quiet)
      : quiet_(quiet), terminal_(isatty(STDERR_FILENO) != 0), all_(all), reused_(reused) {
    if (!quiet_ && reused > 0)
      std::fprintf(stderr, "%zu of %zu runs are there already\n", reused, all);
  }
  ~JobProgress() { clear(); }

  void ended(const std::string& line, size_t finished) {
    last_ = std::chrono::steady_clock::now();
    last_s_ = seconds_since(begin_);
    if (quiet_ || terminal_) return;
    std::fprintf(stderr, "%zu/%zu %s\n", finished, all_, printable(line).c_str());
  }

  void tick(size_t finished, size_t going) {
    if (quiet_ || !terminal_) return;
    std::string left;
    if (last_s_ > 0) {
      const auto now = static_cast<double>(std::max<size_t>(1, finished - reused_));
      const double left_s = last_s_ / now * static_cast<double>(all_ - finished);
      left = fmt::format(", {} left", as_seconds(std::max(0.0, left_s - seconds_since(last_))));
    }
    std::fprintf(stderr, "\r\033[K%zu of %zu runs, %zu going%s", finished, all_, going,
                 left.c_str());
    standing_ = true;
  }

 private:
  void clear() {
    if (standing_) std::fprintf(stderr, "\r\033[K");
  }

  bool quiet_, terminal_, standing_ = false;
  size_t all_, reused_;
  Instant begin_ = std::chrono::steady_clock::now(), last_;  // of the job, of the last finished run
  double last_s_ = 0;                                        // between the two
};

// Alarms may come before it.
std::string last_line(std::string text) {
  while (text.ends_with('\n'))
    text.pop_back();
  return text.substr(text.rfind('\n') + 1);
}

// The stored record of a cell; null if there is no complete one.
Json read_record(const std::string& path) {
  const auto text = real_disk().read(path);
  if (!text) return nullptr;
  Json record = json_of_text<Json>(*text);
  const bool whole = record.is_object() && record.contains("result");
  return whole ? record : Json(nullptr);
}

class JobRunner {
 public:
  JobRunner(const Job& job, const std::string& folder, bool quiet)
      : job_(job), folder_(folder), quiet_(quiet) {
    outcome_.cells.resize(job.cells.size());
    for (size_t k = 0; k < job.cells.size(); ++k) {
      CellOutcome& cell = outcome_.cells[k];
      cell.record = read_record(path_of(k, ".json"));
      cell.reused = !cell.record.is_null();
      if (cell.reused)
        ++outcome_.reused;
      else
        waiting_.push_back(k);
    }
    outcome_.finished = outcome_.reused;
  }

  Result<JobOutcome> run(size_t at_once) {
    JobProgress progress(job_.cells.size(), outcome_.reused, quiet_);
    size_t next = 0;
    while (interrupts() == 0 && (next < waiting_.size() || !going_.empty())) {
      while (next < waiting_.size() && going_.size() < at_once)
        if (Status ok = start(waiting_[next++]); !ok) return ok.error();
      progress.tick(outcome_.finished, going_.size());
      std::vector<ChildProcess*> children;
      for (const Going& g : going_)
        children.push_back(g.child.get());
      ChildProcess::wait_any(children, 200);
      for (size_t k = going_.size(); k-- > 0;) {
        if (!going_[k].child->ended()) continue;
        const Going done = std::move(going_[k]);
        going_.erase(going_.begin() + static_cast<std::ptrdiff_t>(k));
        if (Status ok = finish(done, progress); !ok) return ok.error();
      }
    }
    outcome_.interrupted = interrupts() > 0;
    going_.clear();
    return std::move(outcome_);
  }

 private:
  struct Going {
    size_t cell;
    Instant begin;
    std::unique_ptr<ChildProcess> child;
  };

  std::string path_of(size_t cell, const char* ending) const {
    return fmt::format("{}/{}{}", folder_, job_.cells[cell].id, ending);
  }

  Status start(size_t k) {
    const std::string config = path_of(k, ".toml"), text = config_text(job_.cells[k]);
    if (Status ok = write_whole_file(config, {{text.data(), text.size()}}); !ok) return ok;
    auto child = ChildProcess::start(
        {"/proc/self/exe", "simulate", "--config", config, "--json", "--quiet"});
    if (!child) return child.error();
    going_.push_back({k, std::chrono::steady_clock::now(), std::move(*child)});
    return Done{};
  }

  Status finish(const Going& done, JobProgress& progress) {
    const Cell& cell = job_.cells[done.cell];
    CellOutcome& outcome = outcome_.cells[done.cell];
    const double wall_s = seconds_since(done.begin);
    const std::string name = fmt::format("{}, seed {}", cell.group, cell.options.settings.seed);
    Json result = json_of_text<Json>(done.child->out());
    if (done.child->status() != 0 || !result.is_object()) {
      std::string why = last_line(done.child->err());
      if (why.empty()) why = fmt::format("ended with status {}", done.child->status());
      outcome.complaint = fmt::format("{}: {}", name, why);
      ++outcome_.failed;
      const bool diverged = result.is_object() && result.value("diverged", false);
      outcome_.refused += diverged || done.child->status() == 2;
      progress.ended(outcome.complaint, outcome_.finished);
      return Done{};
    }
    outcome.record = {{"label", cell.label},
                      {"group", cell.group},
                      {"settings", settings_of(cell)},
                      {"wall_seconds", wall_s},
                      {"result", std::move(result)}};
    const std::string text = json_text(outcome.record) + "\n";
    const Status ok = write_whole_file(path_of(done.cell, ".json"), {{text.data(), text.size()}});
    if (!ok) return ok;
    ++outcome_.finished;
    progress.ended(fmt::format("{}: {}", name, as_seconds(wall_s)), outcome_.finished);
    return Done{};
  }

  const Job& job_;
  std::string folder_;
  bool quiet_;
  JobOutcome outcome_;
  std::vector<size_t> waiting_;
  std::vector<Going> going_;
};

}  // namespace

Json settings_of(const Cell& cell) {
  const Json all = json_of(cell.options);
  Json settings = Json::object();
  for (const ConfigEntry& entry : cell.entries)
    settings[entry.name] = all.at(entry.name);
  return settings;
}

Result<FolderLock> lock_results(const std::string& folder) {
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  if (failed) return unwritable(folder, failed.message());
  auto lock = FolderLock::take(folder);
  if (!lock) return unwritable(folder, lock.error().message);
  if (!*lock)
    return user_error(
        fmt::format("out is \"{}\", where another compare runs, accepted: another --out, or "
                    "start again after its end",
                    folder));
  if (const std::string& warning = (**lock).warning(); !warning.empty())
    std::fprintf(stderr, "%s\n", printable(warning).c_str());
  return std::move(**lock);
}

Result<JobOutcome> run_job(const Job& job, const std::string& folder, int at_once, bool quiet) {
  return JobRunner(job, folder, quiet)
      .run(static_cast<size_t>(at_once > 0 ? at_once : usable_cores()));
}

}  // namespace grapevine
