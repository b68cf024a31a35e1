// grapevine compare: methods x lists of options x seeds from one file, on the virtual clock.
#include <fmt/core.h>

#include <filesystem>

#include "app/commands/commands.hpp"
#include "app/compare/curves.hpp"
#include "app/compare/report.hpp"
#include "kernels/base/write_file.hpp"

namespace grapevine {
namespace {

Status write(const std::string& path, const std::string& text) {
  return write_whole_file(path, {{text.data(), text.size()}});
}

}  // namespace

Result<int> compare(Options options) {
  if (options.job.empty()) return user_error("compare without a job, accepted: compare FILE");
  if (options.settings.threads < 0) {
    return user_error(
        fmt::format("threads is {}, accepted: 0 (one per core) or more", options.settings.threads));
  }
  const auto job = read_job(options.job);
  if (!job) return job.error();
  const std::string folder =
      options.out.empty()
          ? std::filesystem::path(options.job).replace_extension(".results").string()
          : options.out;
  const auto lock = lock_results(folder);
  if (!lock) return lock.error();
  const auto outcome = run_job(*job, folder, options.settings.threads, options.log.quiet);
  if (!outcome) return outcome.error();
  if (outcome->refused == job->cells.size())
    return user_error(
        fmt::format("{}: no run finished; {}", options.job, outcome->cells.front().complaint));
  const Comparison comparison = compare_cells(*job, *outcome, folder);
  const Json json = comparison_json(*job, *outcome, comparison);
  if (Status ok = write(folder + "/compare.svg", comparison_svg(*job, *outcome)); !ok)
    return ok.error();
  if (Status ok = write(folder + "/compare.json", json_text(json) + "\n"); !ok) return ok.error();
  if (Status ok = write(folder + "/compare.csv", comparison_csv(*job, comparison)); !ok)
    return ok.error();
  if (Status ok = write(folder + "/curves.csv", curves_csv(*job, *outcome)); !ok) return ok.error();
  if (const std::string svg = ranks_svg(*job, *outcome); !svg.empty()) {
    if (Status ok = write(folder + "/ranks.svg", svg); !ok) return ok.error();
    if (Status ok = write(folder + "/ranks.csv", ranks_csv(*job, *outcome)); !ok) return ok.error();
  }
  if (options.json) {
    print_json(json);
  } else {
    print_comparison(*job, *outcome, comparison);
  }
  return outcome->failed > 0 ? 1 : 0;
}

}  // namespace grapevine
