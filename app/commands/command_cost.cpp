// grapevine cost: how the time of a finished run was spent, from its folder.
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "app/checkpoint/resume.hpp"
#include "app/commands/commands.hpp"
#include "app/output/cost_report.hpp"
#include "app/output/json_output.hpp"
#include "kernels/base/printable.hpp"

namespace grapevine {
namespace {

constexpr char kAccepted[] = "accepted: grapevine cost RUN, the folder of a run that has ended";

// The folders of the nodes of a launch, or the run's own.
std::vector<std::string> folders_of(const std::string& run) {
  std::vector<std::string> nodes;
  std::error_code failed;
  for (auto at = std::filesystem::directory_iterator(run, failed);
       !failed && at != std::filesystem::directory_iterator(); at.increment(failed))
    if (at->path().filename().string().starts_with("node-")) nodes.push_back(at->path().string());
  std::sort(nodes.begin(), nodes.end());
  return nodes.empty() ? std::vector<std::string>{run} : nodes;
}

std::optional<Cost> cost_in(const std::string& folder) {
  const Json record = record_in(folder);
  const bool has_result = record.is_object() && record.contains("result");
  const Json& result = has_result ? record["result"] : record;
  const bool told = has_result && result.is_object() && result.contains("cost");
  return told ? cost_of(result["cost"]) : std::nullopt;
}

}  // namespace

Result<int> show_cost(Options options) {
  const std::string& run = options.argument;
  if (run.empty()) return user_error(fmt::format("cost without a folder, {}", kAccepted));
  const std::vector<std::string> folders = folders_of(run);
  std::vector<Cost> costs;
  std::string without;
  for (const std::string& folder : folders) {
    if (auto cost = cost_in(folder))
      costs.push_back(*std::move(cost));
    else
      without += (without.empty() ? "" : ", ") + folder;
  }
  if (costs.empty())
    return user_error(fmt::format("{} has no result with the times of a run, {}", run, kAccepted));
  if (!without.empty())
    std::fprintf(stderr, "without %s: no result there\n", printable(without).c_str());
  const Cost all = sum_of(costs);
  if (options.json) {
    print_json(json_of(all));
  } else {
    print_cost(all);
  }
  return 0;
}

}  // namespace grapevine
