#include "app/checkpoint/go_on.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "actors/algorithms/method_registry.hpp"
#include "actors/run/fits.hpp"
#include "actors/settings/alarm.hpp"
#include "app/checkpoint/place_ranks.hpp"
#include "app/checkpoint/real_disk.hpp"
#include "app/system/json_text.hpp"
#include "app/system/words.hpp"
#include "kernels/memory/hash.hpp"
#include "models/guest.hpp"

namespace grapevine {

namespace fs = std::filesystem;

Error refused(const Checkpoint& checkpoint, const std::string& why) {
  return user_error(fmt::format("resume is \"{}\", {}", checkpoint.path, why));
}

namespace {

// "3 edges (0-1, 2-3, 4-5)".
std::string named(const std::vector<std::pair<int, int>>& edges) {
  constexpr size_t kNamed = 8;
  std::string names;
  for (size_t k = 0; k < std::min(kNamed, edges.size()); ++k)
    names += fmt::format("{}{}-{}", k > 0 ? ", " : "", edges[k].first, edges[k].second);
  return fmt::format("{} edge{} ({}{})", edges.size(), edges.size() == 1 ? "" : "s", names,
                     edges.size() > kNamed ? ", ..." : "");
}

}  // namespace

void tell_drift(const std::vector<RankFile>& ranks, std::vector<std::string>& told) {
  const Drift drift = drift_of(ranks);
  std::vector<std::pair<int, int>> edges;
  for (const Drift::Edge& edge : drift.edges)
    edges.push_back({edge.i, edge.j});
  constexpr double kRounding = 1.005;  // rounded up: the bound has three digits
  if (!edges.empty())
    told.push_back(
        fmt::format("the sum that gossip conserves has an error of at most {} in norm: one end "
                    "recorded one exchange more on {}",
                    as_short(kRounding * drift.at_most), named(edges)));
  if (!drift.unknown.empty())
    told.push_back(
        fmt::format("it is unknown whether both ends recorded the same exchanges on {}: the other "
                    "end is in another node's files",
                    named(drift.unknown)));
}

std::string run_of(const std::string& path) {
  const fs::path whole = fs::path(path).lexically_normal();
  const fs::path folder = whole.filename().empty() ? whole.parent_path() : whole;
  if (!fs::exists(folder / kManifestName)) return folder.string();
  const fs::path above = folder.parent_path();
  return above.filename() == kCheckpointsFolder ? above.parent_path().string() : "";
}

std::string folder_of_node(const std::string& folder, int node) {
  return fmt::format("{}/node-{}", folder, node);
}

int nodes_in(const std::string& folder) {
  int nodes = 0;
  std::error_code unreadable;
  while (fs::is_directory(folder_of_node(folder, nodes), unreadable))
    ++nodes;
  return nodes;
}

namespace {

// Push-sum: the weights sum to the number of ranks if nothing is under way.
void tell_weights(const std::vector<RankRecordPtr>& ranks, bool all_here,
                  std::vector<std::string>& told) {
  double sum = 0;
  bool has_any = false;
  for (const RankRecordPtr& rank : ranks)
    for (const RankRecord::Number& n : rank->numbers)
      if (n.is_real && n.name == "w") {
        sum += std::bit_cast<double>(n.bits);
        has_any = true;
      }
  const auto wanted = static_cast<double>(ranks.size());
  if (!has_any || std::abs(sum - wanted) <= 1e-6 * wanted) return;
  told.push_back(fmt::format("push-sum's weights here add up to {} for {} ranks: {}", as_short(sum),
                             ranks.size(),
                             all_here ? "weight in a message was saved at neither end, or at both"
                                      : "the rest was in messages, or is at other nodes"));
}

std::vector<std::string> told_of(const Checkpoint& checkpoint, const Resumption& resumption,
                                 const std::vector<RankFile>& of_all, int total) {
  std::vector<std::string> told;
  for (const std::string& line : checkpoint.passed_over)
    told.push_back("skipped: " + line);
  const auto& score = checkpoint.manifest.score;
  told.push_back(fmt::format("resumes from {}, after {} gradients{}", checkpoint.path,
                             with_commas(static_cast<double>(gradients_of(resumption))),
                             score ? "; the last test: " + score_text(*score) : ""));
  tell_drift(of_all, told);
  tell_weights(checkpoint.ranks, static_cast<int>(checkpoint.ranks.size()) == total, told);
  return told;
}

// The number of ranks of all processes of the run.
int ranks_of_all(const CheckpointManifest& manifest) {
  using Json = nlohmann::ordered_json;
  const Json options = json_of_text<Json>(manifest.run.options);
  const auto ranks = options.is_object() ? options.find("ranks") : options.end();
  const bool told = options.is_object() && ranks != options.end() && ranks->is_number_integer();
  return std::max(manifest.ranks.back().rank + 1, told ? ranks->get<int>() : 0);
}

// The places of the ranks in the record.
RankPlaces places_of(const Checkpoint& checkpoint, const Settings& s) {
  const int first = s.local_ranks > 0 ? checkpoint.ranks.front()->rank : 0;
  const int least = checkpoint.ranks.back()->rank + 1;
  return {first, least - first, ranks_of_all(checkpoint.manifest)};
}

// The ranks of the checkpoint, and those of the other nodes of its launch, whose folders are next
// to it: from the newest manifest of each node whose run had the same number of ranks. One list per
// process.
std::vector<std::vector<RankFile>> ranks_of_launch(const Checkpoint& checkpoint, int total) {
  std::vector<std::vector<RankFile>> ranks = {checkpoint.manifest.ranks};
  const std::string run = run_of(checkpoint.path);
  const std::string launch = fs::path(run).parent_path();
  std::vector<std::string> nodes;
  for (int k = 0; k < nodes_in(launch); ++k)
    nodes.push_back(folder_of_node(launch, k));
  if (std::erase(nodes, run) == 0) return ranks;  // no node of a launch
  for (const std::string& node : nodes) {
    auto manifest = newest_manifest(real_disk(), node);
    if (!manifest || ranks_of_all(*manifest) != total) continue;
    ranks.push_back(std::move(manifest->ranks));
  }
  return ranks;
}

std::vector<RankFile> together(const std::vector<std::vector<RankFile>>& processes) {
  std::vector<RankFile> ranks;
  for (const std::vector<RankFile>& process : processes)
    ranks.insert(ranks.end(), process.begin(), process.end());
  return ranks;
}

// A rank without a script takes no part, so it may be far behind the other ranks of its process.
std::vector<std::vector<RankFile>> each_alone(const std::vector<RankFile>& ranks) {
  std::vector<std::vector<RankFile>> lists;
  for (const RankFile& rank : ranks)
    lists.push_back({rank});
  return lists;
}

Status check_fits(const Checkpoint& checkpoint, const Resumption& resumption, const Settings& s,
                  const Objective& objective) {
  const RunIdentity own = identity_of(s, objective, "{}");
  if (checkpoint.manifest.run.job != own.job)
    return refused(checkpoint, fmt::format("a checkpoint of {}, accepted: one of {}",
                                           checkpoint.manifest.run.job_is, own.job_is));
  if (Status fit = fits(s, objective, resumption); !fit)
    return refused(checkpoint, "where " + fit.error().message);
  const bool pooled = pools(s) && s.local_ranks == 0;
  const uint64_t horizon = pools(s) ? 0 : s.gradients / static_cast<uint64_t>(s.ranks);
  const bool all =
      pooled ? gradients_of(resumption) >= s.gradients
             : std::all_of(resumption.ranks.begin(), resumption.ranks.end(),
                           [&](const RankRecordPtr& r) { return r->gradients >= horizon; });
  if ((pooled || horizon > 0) && all)
    return refused(checkpoint,
                   "which has no gradients left to take, accepted: a run with gradients left");
  return Done{};
}

// No sample comes again before all others have been taken.
Status walk_on(const Checkpoint& checkpoint, const std::vector<RankFile>& recorded,
               const PlacedRanks& placed, RankPlaces were, RankPlaces are, Objective& objective,
               std::vector<DataCut>& cuts) {
  if (objective.gradients_per_pass(0) == 0) return Done{};
  cuts = checkpoint.manifest.run.cuts;
  if (were.total != are.total) {
    if (cuts.size() == kCutsAtMost) cuts.clear();
    cuts.push_back(cut_of(recorded, placed, were, are));
  }
  if (cuts.empty()) return Done{};
  if (Status fits = objective.go_on_in_data(cuts); !fits)
    return refused(checkpoint, "where " + fits.error().message);
  return Done{};
}

}  // namespace

RunIdentity identity_of(const Settings& s, const Objective& objective, const std::string& options,
                        const std::string& node) {
  RunIdentity run;
  std::string state =
      fmt::format("{}/{}/{}/{}", s.method, s.rule.compress, static_cast<int>(s.rule.optimizer.kind),
                  s.rule.optimizer.momentum != 0);
  if (inner_steps_of(s)) state += fmt::format("/outer {}", s.outer_momentum != 0);
  const uint64_t shapes[] = {objective.layout().hash(), objective.statistics().hash()};
  run.job = fnv1a(std::as_bytes(std::span(shapes)), fnv1a(state));
  run.layout = shapes[0];
  for (const ParameterEntry& entry : objective.layout().entries())
    run.tensors.push_back({entry.name, entry.shape});
  run.job_is = fmt::format("{} of {} parameters", s.method,
                           with_commas(static_cast<double>(objective.layout().size())));
  run.options = options;
  run.node = node;
  run.data = objective.data_hash();
  if (run.data != 0) run.data_is = objective.description();
  if (objective.gradients_per_pass(0) > 0) run.batch = static_cast<uint64_t>(s.objective.batch);
  return run;
}

Result<GoingOn> go_on(const Checkpoint& checkpoint, const Settings& s, int first_rank,
                      Objective& objective) {
  const RankPlaces were = places_of(checkpoint, s);
  const int first = first_rank < 0 ? were.first : first_rank;
  const RankPlaces are{first, ranks_here(s), s.ranks};
  const auto processes = ranks_of_launch(checkpoint, were.total);
  const std::vector<RankFile> recorded = together(processes);
  PlacedRanks placed = place_ranks(checkpoint.ranks, were, are);
  const Method& method = method_named(s.method);
  const bool of_scripts = s.objective.objective == kGuestObjective;
  if (method.pattern != Pattern::pairwise && method.waits)
    level_rounds(of_scripts ? each_alone(recorded) : processes, placed, were, are,
                 method.pattern == Pattern::collective && !of_scripts);
  GoingOn on;
  const CheckpointManifest& manifest = checkpoint.manifest;
  on.resumption = {placed.ranks, manifest.epoch, manifest.run.generation, manifest.trained_s};
  if (Status fit = check_fits(checkpoint, on.resumption, s, objective); !fit) return fit.error();
  if (Status walks = walk_on(checkpoint, recorded, placed, were, are, objective, on.cuts); !walks)
    return walks.error();
  Settings with_graph = s;
  with_graph.topology = checkpoint.manifest.topology;
  const bool has_graph = were.total == s.ranks && !with_graph.topology.empty() && check(with_graph);
  on.topology = has_graph ? with_graph.topology : s.topology;
  on.first_rank = s.local_ranks > 0 && first + ranks_here(s) <= s.ranks ? first : first_rank;
  on.kept.resize(on.resumption.ranks.size());
  for (size_t k = 0; k < checkpoint.ranks.size(); ++k) {
    const auto place = static_cast<size_t>(checkpoint.ranks[k]->rank - were.first);
    if (place < on.kept.size()) on.kept[place] = checkpoint.kept[k];
  }
  on.told = told_of(checkpoint, on.resumption, recorded, were.total);
  on.told.insert(on.told.end(), placed.told.begin(), placed.told.end());
  const RunIdentity& was = manifest.run;
  if (was.data != 0 && was.data != objective.data_hash())
    on.told.push_back(
        fmt::format("{}the data have changed since {} was written: it was {}; the run continues "
                    "with the present data",
                    kAlarm, checkpoint.path, was.data_is));
  return on;
}

}  // namespace grapevine
