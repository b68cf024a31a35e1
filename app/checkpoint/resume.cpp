#include "app/checkpoint/resume.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "actors/run/fits.hpp"
#include "app/checkpoint/place_ranks.hpp"
#include "app/checkpoint/real_disk.hpp"
#include "app/json_output.hpp"
#include "app/run_directory.hpp"
#include "app/words.hpp"
#include "kernels/hash.hpp"

namespace grapevine {
namespace {

namespace fs = std::filesystem;

// What may differ from one life of a run to the next: where it is, who sees it, how fast it is.
bool may_differ(const std::string& name) {
  static const std::set<std::string> names = {
      "out",   "save",    "resume",      "init",           "config",     "json",
      "quiet", "plan",    "until",       "sample-seconds", "test-every", "checkpoint-every",
      "data",  "threads", "tensorboard", "alarm-seconds",  "early-stop"};
  return names.count(name) != 0;
}

std::string text_of(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

// As set_option understands it, so that 0.1 and 1e-1 are one value.
std::string normal(const std::string& name, const std::string& text) {
  Options scratch;
  const OptionTable table = option_table(scratch);
  const Option* option = find_option(table, name);
  return option != nullptr && set_option(*option, text) ? option_text(*option) : text;
}

// The run's folder of a path that is one, or a checkpoint in it.
std::string run_of(const std::string& path) {
  const fs::path whole = fs::path(path).lexically_normal();
  const fs::path folder = whole.filename().empty() ? whole.parent_path() : whole;
  if (!fs::exists(folder / kManifestName)) return folder.string();
  const fs::path above = folder.parent_path();
  return above.filename() == kCheckpointsFolder ? above.parent_path().string() : "";
}

// run.json, or nothing.
Json record_in(const std::string& folder) {
  const auto text = real_disk().read(folder + "/run.json");
  return text ? Json::parse(*text, nullptr, false) : Json();
}

std::string state_of(const Json& record) {
  const auto found = record.is_object() ? record.find("state") : record.end();
  const bool told = record.is_object() && found != record.end() && found->is_string();
  return told ? found->get<std::string>() : "";
}

// It was killed, or ended because somebody wanted the machine.
bool is_left(const Json& record) {
  const std::string state = state_of(record);
  return state == "running" || (state == "interrupted" && record.contains("preempted"));
}

Status same_options(const Json& record, const Options& options) {
  const Json now = json_of(options);
  const Json before = record.contains("options") ? record["options"] : Json::object();
  for (const auto& [name, value] : now.items()) {
    if (may_differ(name) || !before.contains(name) || before[name] == value) continue;
    return user_error(fmt::format(
        "{} is {}, but the run that was left in out \"{}\" has {}, accepted: the same, or another "
        "folder",
        name, text_of(value), options.out, text_of(before[name])));
  }
  return Done{};
}

Error refused(const Checkpoint& checkpoint, const std::string& why) {
  return user_error(fmt::format("resume is \"{}\", {}", checkpoint.path, why));
}

void tell_drift(const CheckpointManifest& manifest, std::vector<std::string>& told) {
  const Drift drift = drift_of(manifest);
  if (drift.edges.empty()) return;
  constexpr size_t kNamed = 8;
  std::string edges;
  for (size_t k = 0; k < std::min(kNamed, drift.edges.size()); ++k)
    edges += fmt::format("{}{}-{}", k > 0 ? ", " : "", drift.edges[k].i, drift.edges[k].j);
  if (drift.edges.size() > kNamed) edges += ", ...";
  told.push_back(fmt::format(
      "the sum that gossip conserves is off by at most {} in norm: of {} edge{} one end "
      "had an exchange more ({})",
      as_short(drift.at_most), drift.edges.size(), drift.edges.size() == 1 ? "" : "s", edges));
}

void tell(const Checkpoint& checkpoint, Beginning& begins) {
  const uint64_t gradients = gradients_of(begins.resumption);
  for (const std::string& line : checkpoint.passed_over)
    begins.told.push_back("passed over: " + line);
  const auto& score = checkpoint.manifest.score;
  begins.told.push_back(fmt::format("goes on from {}, after {} gradients{}", checkpoint.path,
                                    with_commas(static_cast<double>(gradients)),
                                    score ? "; the last test: " + score_text(*score) : ""));
  tell_drift(checkpoint.manifest, begins.told);
}

std::string folder_of_node(const std::string& folder, int node) {
  return fmt::format("{}/node-{}", folder, node);
}

// The folders of a launch's nodes, from the first on.
int nodes_in(const std::string& folder) {
  int nodes = 0;
  std::error_code unreadable;
  while (fs::is_directory(folder_of_node(folder, nodes), unreadable))
    ++nodes;
  return nodes;
}

// As many ranks as all processes of the run together had.
int ranks_of_all(const CheckpointManifest& manifest) {
  const Json options = Json::parse(manifest.run.options, nullptr, false);
  const auto ranks = options.is_object() ? options.find("ranks") : options.end();
  const bool told = options.is_object() && ranks != options.end() && ranks->is_number_integer();
  return std::max(manifest.ranks.back().rank + 1, told ? ranks->get<int>() : 0);
}

// Where the ranks of the record were.
RankPlaces places_of(const Checkpoint& checkpoint, const Settings& s) {
  const int first = s.local_ranks > 0 ? checkpoint.ranks.front()->rank : 0;
  const int least = checkpoint.ranks.back()->rank + 1;
  return {first, least - first, ranks_of_all(checkpoint.manifest)};
}

// The ranks of the checkpoint, and those of the other nodes of its launch, whose folders are beside
// its run's: as the newest manifest of each has them, if its run was of as many ranks.
std::vector<RankFile> ranks_of_launch(const Checkpoint& checkpoint, int total) {
  std::vector<RankFile> ranks = checkpoint.manifest.ranks;
  const std::string run = run_of(checkpoint.path);
  const std::string launch = fs::path(run).parent_path();
  std::vector<std::string> nodes;
  for (int k = 0; k < nodes_in(launch); ++k)
    nodes.push_back(folder_of_node(launch, k));
  if (std::erase(nodes, run) == 0) return ranks;  // a node of no launch
  for (const std::string& node : nodes) {
    auto manifest = newest_manifest(real_disk(), node);
    if (!manifest || ranks_of_all(*manifest) != total) continue;
    std::move(manifest->ranks.begin(), manifest->ranks.end(), std::back_inserter(ranks));
  }
  return ranks;
}

Status check_fits(const Checkpoint& checkpoint, const Resumption& resumption,
                  const Options& options, const Objective& objective) {
  const RunIdentity own = identity_of(options, objective);
  const Settings& s = options.settings;
  if (checkpoint.manifest.run.job != own.job)
    return refused(checkpoint, fmt::format("a checkpoint of {}, accepted: one of {}",
                                           checkpoint.manifest.run.job_is, own.job_is));
  if (Status fit = fits(s, objective, resumption); !fit)
    return refused(checkpoint, "where " + fit.error().message);
  const uint64_t horizon = s.gradients / static_cast<uint64_t>(s.ranks);
  const bool all = std::all_of(resumption.ranks.begin(), resumption.ranks.end(),
                               [&](const RankRecordPtr& r) { return r->gradients >= horizon; });
  if (horizon > 0 && all)
    return refused(checkpoint,
                   "which has nothing left to do, accepted: a run with gradients to come");
  return Done{};
}

// Of samples that have been taken none comes again before the others have.
Status walk_on(const Checkpoint& checkpoint, const PlacedRanks& placed, RankPlaces were,
               RankPlaces are, Objective& objective, Beginning& begins) {
  if (objective.gradients_per_pass(0) == 0) return Done{};
  begins.cuts = checkpoint.manifest.run.cuts;
  if (were.total != are.total) {
    if (begins.cuts.size() == kCutsAtMost) begins.cuts.clear();
    begins.cuts.push_back(
        cut_of(ranks_of_launch(checkpoint, were.total), placed, were, are));
  }
  if (begins.cuts.empty()) return Done{};
  if (Status fits = objective.go_on_in_data(begins.cuts); !fits)
    return refused(checkpoint, "where " + fits.error().message);
  return Done{};
}

Status go_on(const Checkpoint& checkpoint, Options& options, Objective& objective,
             Beginning& begins) {
  Settings& s = options.settings;
  const RankPlaces were = places_of(checkpoint, s);
  const int first = options.peers.first_rank < 0 ? were.first : options.peers.first_rank;
  const RankPlaces are{first, ranks_here(s), s.ranks};
  const PlacedRanks placed = place_ranks(checkpoint.ranks, were, are);
  begins.resumption.ranks = placed.ranks;
  begins.resumption.epoch = checkpoint.manifest.epoch;
  if (Status fit = check_fits(checkpoint, begins.resumption, options, objective); !fit) return fit;
  if (Status on = walk_on(checkpoint, placed, were, are, objective, begins); !on) return on;
  Settings with_graph = s;  // that the run had come to
  with_graph.topology = checkpoint.manifest.topology;
  if (were.total == s.ranks && !with_graph.topology.empty() && check(with_graph))
    s.topology = with_graph.topology;
  if (s.local_ranks > 0 && first + ranks_here(s) <= s.ranks) options.peers.first_rank = first;
  begins.kept.resize(begins.resumption.ranks.size());
  for (size_t k = 0; k < checkpoint.ranks.size(); ++k) {
    const auto place = static_cast<size_t>(checkpoint.ranks[k]->rank - were.first);
    if (place < begins.kept.size()) begins.kept[place] = checkpoint.kept[k];
  }
  tell(checkpoint, begins);
  begins.told.insert(begins.told.end(), placed.told.begin(), placed.told.end());
  return Done{};
}

// Its last life may still be about to end: what it leaves is looked at once it has.
Result<FolderLock> lock_run(const std::string& folder) {
  constexpr double kPatience_s = 2;
  auto lock = FolderLock::take(folder, kPatience_s);
  if (!lock) return lock.error();
  if (!*lock) return run_is_taken(folder);
  return std::move(**lock);
}

// The same command again. What was killed before its first checkpoint begins anew.
Result<Beginning> after_kill(Options& options, Objective& objective) {
  Beginning begins;
  if (options.out.empty() || !is_left(record_in(options.out))) return begins;
  auto lock = lock_run(options.out);
  if (!lock) return lock.error();
  const Json record = record_in(options.out);
  if (!is_left(record)) return begins;
  if (Status same = same_options(record, options); !same) return same.error();
  begins.lock.emplace(std::move(*lock));
  const auto there = checkpoints_in(real_disk(), options.out + "/" + kCheckpointsFolder);
  if (std::all_of(there.begin(), there.end(), [](const auto& folder) {
        return folder.second.manifest == CheckpointFolder::Manifest::none;
      })) {
    begins.told.push_back("the run that was left here has no checkpoint: it begins anew");
    return begins;
  }
  const auto checkpoint = load_checkpoint(real_disk(), options.out);
  if (!checkpoint) return checkpoint.error();
  if (Status on = go_on(*checkpoint, options, objective, begins); !on) return on.error();
  return begins;
}

}  // namespace

std::string resumed_by_node(const Options& launch, int node) {
  const int had = launch.hosts.empty() ? nodes_in(launch.resume) : 0;
  return folder_of_node(launch.resume, had > 0 ? node % had : node);
}

std::vector<std::string> told_of_nodes(const Options& launch) {
  const std::string& folder = launch.resume.empty() ? launch.out : launch.resume;
  CheckpointManifest all;
  std::vector<std::string> told;
  if (!launch.hosts.empty()) return told;
  if (launch.resume.empty() && !is_left(record_in(folder_of_node(folder, 0)))) return told;
  const int had = nodes_in(folder), nodes = launch.nodes;
  for (int k = 0; k < had; ++k) {
    auto manifest = newest_manifest(real_disk(), folder_of_node(folder, k));
    if (!manifest) continue;
    if (k >= nodes)
      told.push_back(fmt::format("node-{} has no place any more: its {} ranks are left out", k,
                                 manifest->ranks.size()));
    else
      std::move(manifest->ranks.begin(), manifest->ranks.end(), std::back_inserter(all.ranks));
  }
  if (nodes > had && had > 0)
    told.push_back(
        fmt::format("{} has {} nodes: the others begin with the x of theirs", folder, had));
  tell_drift(all, told);
  return told;
}

Result<std::vector<ConfigEntry>> with_record(Command command,
                                             const std::vector<ConfigEntry>& given) {
  const auto last = std::find_if(given.rbegin(), given.rend(),
                                 [](const ConfigEntry& e) { return e.name == "resume"; });
  if (last == given.rend() || last->text.empty()) return given;
  const bool several = (command & kProcesses) != 0;
  const std::string path = command == kLaunch ? last->text + "/node-0" : last->text;
  const auto manifest = newest_manifest(real_disk(), path);
  if (!manifest) return manifest.error();
  Json record = Json::parse(manifest->run.options, nullptr, false);
  if (record.contains("epochs") && record["epochs"] != 0)
    record.erase("gradients");  // they follow from the epochs
  Options scratch;
  const OptionTable table = option_table(scratch);
  std::vector<ConfigEntry> entries;
  for (const auto& [name, value] : record.items()) {
    const Option* option = find_option(table, name);
    const bool own = may_differ(name) || (several && name == "ranks");
    const bool goes_on = name == "until" || name == "test-every" || name == "early-stop";
    const bool taken = option != nullptr && (!own || goes_on);
    if (taken) entries.push_back({option->name, text_of(value), last->text + ": "});
  }
  const bool other_ranks = !several && std::any_of(given.begin(), given.end(), [&](const auto& e) {
    return e.name == "ranks" && record.contains("ranks") && e.text != text_of(record["ranks"]);
  });
  for (const ConfigEntry& entry : given) {
    const bool own = may_differ(entry.name) || entry.name == "ranks" ||
                     (other_ranks && entry.name == "topology");
    const bool recorded = record.contains(entry.name) && !own;
    if (recorded && normal(entry.name, entry.text) != text_of(record[entry.name]) &&
        normal(entry.name, entry.text) != normal(entry.name, text_of(record[entry.name])))
      return user_error(
          fmt::format("{}{} is {} with resume \"{}\", whose run has {}, accepted: {}, "
                      "or no {}",
                      entry.where, entry.name, entry.text, last->text, text_of(record[entry.name]),
                      text_of(record[entry.name]), entry.name));
    entries.push_back(entry);
  }
  return entries;
}

RunIdentity identity_of(const Options& options, const Objective& objective,
                        const std::string& node) {
  const Settings& s = options.settings;
  RunIdentity run;
  const std::string state =
      fmt::format("{}/{}/{}/{}", s.method, s.rule.compress, static_cast<int>(s.rule.optimizer.kind),
                  s.rule.optimizer.momentum != 0);
  const uint64_t shapes[] = {objective.layout().hash(), objective.statistics().hash()};
  run.job = fnv1a(std::as_bytes(std::span(shapes)), fnv1a(state));
  run.layout = shapes[0];
  run.job_is = fmt::format("{} of {} parameters", s.method,
                           with_commas(static_cast<double>(objective.layout().size())));
  run.options = json_of(options).dump();
  run.node = node;
  if (objective.gradients_per_pass(0) > 0) run.batch = static_cast<uint64_t>(s.objective.batch);
  return run;
}

Result<Beginning> beginning_of(Options& options, Objective& objective) {
  if (options.resume.empty()) return after_kill(options, objective);
  const std::string run = run_of(options.resume);
  const bool is_of_run = !run.empty() && record_in(run).is_object();
  if (options.out.empty() && options.save && is_of_run) options.out = run;
  Beginning begins;
  std::error_code unlike;
  if (!options.out.empty() && fs::equivalent(run, options.out, unlike)) {
    auto lock = lock_run(run);
    if (!lock) return lock.error();
    begins.lock.emplace(std::move(*lock));
  }
  const auto checkpoint = load_checkpoint(real_disk(), options.resume);
  if (!checkpoint) return checkpoint.error();
  if (begins.lock && state_of(record_in(run)) == "finished")
    return refused(*checkpoint,
                   "whose run has finished, accepted: one that has not, or another "
                   "folder by --out");
  if (Status on = go_on(*checkpoint, options, objective, begins); !on) return on.error();
  return begins;
}

}  // namespace grapevine
