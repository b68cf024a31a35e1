#include "app/checkpoint/resume.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "app/checkpoint/go_on.hpp"
#include "app/checkpoint/place_ranks.hpp"
#include "app/checkpoint/real_disk.hpp"
#include "app/output/json_output.hpp"
#include "app/output/run_directory.hpp"
#include "models/guest.hpp"

namespace grapevine {
namespace {

namespace fs = std::filesystem;

// Options that may differ between lives of a run: places, output, speed.
bool may_differ(const std::string& name) {
  static const std::set<std::string> names = {
      "out",   "save",    "resume",      "init",           "config",     "json",
      "quiet", "plan",    "until",       "sample-seconds", "test-every", "checkpoint-every",
      "data",  "threads", "tensorboard", "alarm-seconds",  "early-stop", "device",
      "link",  "sample"};
  return names.count(name) != 0;
}

std::string text_of(const Json& value) {
  const auto text = bytes_of(value);
  return text ? *text : json_text(value);
}

// In the form of set_option, so that 0.1 and 1e-1 are equal.
std::string normal(const std::string& name, const std::string& text) {
  Options scratch;
  const OptionTable table = option_table(scratch);
  const Option* option = find_option(table, name);
  return option != nullptr && set_option(*option, text) ? option_text(*option) : text;
}

std::string state_of(const Json& record) {
  const auto found = record.is_object() ? record.find("state") : record.end();
  const bool told = record.is_object() && found != record.end() && found->is_string();
  return told ? found->get<std::string>() : "";
}

// Why the run failed, from run.json; empty: unknown, or it did not fail.
std::string failed_by(const Json& record) {
  if (state_of(record) != "failed" || !record.contains("failure")) return "";
  const Json& failure = record["failure"];
  const bool told = failure.is_object() && failure.contains("by") && failure["by"].is_string();
  return told ? failure["by"].get<std::string>() : "";
}

// Whether the run can resume. It was killed, drained or stopped; or preempted; or it failed for a
// reason that may have passed: a full disk, a lost device, a port in use. A run that has diverged
// would diverge again, and a service that restarts it would never stop.
bool is_left(const Json& record) {
  const std::string state = state_of(record), by = failed_by(record);
  return state == "running" || state == "drained" || state == "stopped" ||
         (state == "interrupted" && record.contains("preempted")) || by == "world" ||
         by == kStartRefused;
}

// Error: the same command would fail again.
Status may_run_again(const std::string& out, const Json& record) {
  if (const auto by = failed_by(record); by != "divergence" && by != "user") return Done{};
  const Json& line = record["failure"].contains("line") ? record["failure"]["line"] : Json();
  return user_error(
      fmt::format("out is \"{}\", which holds a run already: it failed and would fail again ({}), "
                  "accepted: another folder",
                  out, text_of(line)));
}

Status same_options(const Json& record, const Options& options) {
  const Json now = json_of(options);
  const Json before = record.contains("options") ? record["options"] : Json::object();
  for (const auto& [name, value] : now.items()) {
    if (may_differ(name) || !before.contains(name) || before[name] == value) continue;
    return user_error(fmt::format(
        "{} is {}, but the run in out \"{}\" has {}, accepted: the same, or another folder{}", name,
        text_of(value), options.out, text_of(before[name]),
        name == "ranks" ? "; --resume accepts another number of ranks" : ""));
  }
  return Done{};
}

Status take_up(const Checkpoint& checkpoint, Options& options, Objective& objective,
               Beginning& begins) {
  auto on = go_on(checkpoint, options.settings, options.peers.first_rank, objective);
  if (!on) return on.error();
  options.settings.topology = on->topology;
  options.peers.first_rank = on->first_rank;
  begins.resumption = std::move(on->resumption);
  begins.kept = std::move(on->kept);
  begins.cuts = std::move(on->cuts);
  begins.told.insert(begins.told.end(), on->told.begin(), on->told.end());
  return Done{};
}

// The run's last life may be about to end: waits for it.
Result<FolderLock> lock_run(const std::string& folder) {
  constexpr double kPatience_s = 2;
  auto lock = FolderLock::take(folder, kPatience_s);
  if (!lock) return lock.error();
  if (!*lock) return run_is_taken(folder);
  return std::move(**lock);
}

// The same command again. A run that was killed before its first checkpoint starts from the
// beginning.
Result<Beginning> after_kill(Options& options, Objective& objective) {
  Beginning begins;
  if (options.out.empty()) return begins;
  const Json left = record_in(options.out);
  if (Status may = may_run_again(options.out, left); !may) return may.error();
  if (!is_left(left)) return begins;
  auto lock = lock_run(options.out);
  if (!lock) return lock.error();
  const Json record = record_in(options.out);
  if (!is_left(record)) return begins;
  const bool has_begun = failed_by(record) != kStartRefused;
  if (Status same = same_options(record, options); has_begun && !same) return same.error();
  begins.lock.emplace(std::move(*lock));
  const auto there = checkpoints_in(real_disk(), options.out + "/" + kCheckpointsFolder);
  if (std::all_of(there.begin(), there.end(), [](const auto& folder) {
        return folder.second.manifest == CheckpointFolder::Manifest::none;
      })) {
    begins.told.push_back("the run in this folder has no checkpoint: it starts from the beginning");
    return begins;
  }
  const auto checkpoint = load_checkpoint(real_disk(), options.out);
  if (!checkpoint) return checkpoint.error();
  if (Status on = take_up(*checkpoint, options, objective, begins); !on) return on.error();
  return begins;
}

}  // namespace

Json record_in(const std::string& folder) {
  const auto text = real_disk().read(folder + "/run.json");
  return text ? json_of_text<Json>(*text) : Json();
}

std::string resumed_by_node(const Options& launch, int node) {
  const int had = launch.hosts.empty() ? nodes_in(launch.resume) : 0;
  return folder_of_node(launch.resume, had > 0 ? node % had : node);
}

namespace {

// For nodes without a place. One checkpoint at a time is in memory.
std::string moved_mean(const std::string& folder, const std::vector<int>& there, int nodes) {
  MovedMean mean;
  size_t size = 0;
  for (const int node : there) {
    const auto checkpoint = load_checkpoint(real_disk(), folder_of_node(folder, node));
    if (!checkpoint) continue;
    for (const RankRecordPtr& rank : checkpoint->ranks) {
      if (size == 0) size = rank->vectors.front().values.size();
      if (rank->vectors.front().values.size() == size) mean.add(*rank, node < nodes);
    }
  }
  return mean.text();
}

// The nodes of an earlier launch whose folders are on this machine.
std::vector<int> nodes_here(const Options& launch, const std::string& folder) {
  std::vector<int> there;
  const int had = std::max(nodes_in(folder), launch.hosts.empty() ? 0 : launch.nodes);
  std::error_code unreadable;
  for (int k = 0; k < had; ++k)
    if (fs::is_directory(folder_of_node(folder, k), unreadable)) there.push_back(k);
  return there;
}

}  // namespace

std::vector<std::string> told_of_nodes(const Options& launch) {
  const std::string& folder = launch.resume.empty() ? launch.out : launch.resume;
  const std::vector<int> there = nodes_here(launch, folder);
  const auto goes_on = [&](int k) { return is_left(record_in(folder_of_node(folder, k))); };
  std::vector<std::string> told;
  if (launch.resume.empty() && std::none_of(there.begin(), there.end(), goes_on)) return told;
  const int nodes = launch.nodes;
  std::vector<RankFile> all;
  bool is_less = false;
  for (const int k : there) {
    auto manifest = newest_manifest(real_disk(), folder_of_node(folder, k));
    if (!manifest) continue;
    is_less = is_less || k >= nodes;
    if (k >= nodes)
      told.push_back(fmt::format("node-{} is not needed any more: its {} ranks are dropped", k,
                                 manifest->ranks.size()));
    else
      std::move(manifest->ranks.begin(), manifest->ranks.end(), std::back_inserter(all));
  }
  if (const std::string moved = is_less ? moved_mean(folder, there, nodes) : ""; !moved.empty())
    told.push_back("without those ranks " + moved);
  const auto had = static_cast<int>(there.size());
  if (nodes > had && had > 0 && launch.hosts.empty())
    told.push_back(
        fmt::format("{} has {} nodes: additional nodes start with the x of these", folder, had));
  tell_drift(all, told);
  return told;
}

namespace {

// The numbers of processes and of ranks of a run of several processes, as far as they are not
// given. `total`: the ranks of all processes. A folder of a node that an earlier life of the run
// did not need any more is no process. With scripts, or if ranks had no equal shares: none.
std::vector<ConfigEntry> recorded_numbers(Command command, const std::vector<ConfigEntry>& given,
                                          const std::string& folder,
                                          const CheckpointManifest& manifest, const Json& record) {
  const auto has = [&](const char* name) {
    return std::any_of(given.begin(), given.end(), [&](const auto& e) { return e.name == name; });
  };
  const auto objective = record.find("objective"), all = record.find("ranks");
  const bool of_scripts =
      has("guests") || (objective != record.end() && *objective == kGuestObjective);
  const int total = all != record.end() && all->is_number_integer() ? all->get<int>() : 0;
  const int here = static_cast<int>(manifest.ranks.size());
  if (of_scripts || total < here) return {};
  int nodes = 0, ranks = here;
  if (command == kLaunch && !has("hosts")) {
    nodes = nodes_in(folder);
    if (total % nodes != 0 || total / nodes < here) nodes = total % here == 0 ? total / here : 0;
    if (nodes == 0) return {};
    ranks = total / nodes;
  }
  std::vector<ConfigEntry> entries;
  if (!has("ranks")) entries.push_back({"ranks", std::to_string(ranks), folder + ": "});
  if (nodes > 0 && !has("nodes"))
    entries.push_back({"nodes", std::to_string(nodes), folder + ": "});
  return entries;
}

// The last one counts. Null: none.
const ConfigEntry* last_named(const std::vector<ConfigEntry>& given, const std::string& name) {
  const auto last = std::find_if(given.rbegin(), given.rend(),
                                 [&](const ConfigEntry& e) { return e.name == name; });
  return last != given.rend() ? &*last : nullptr;
}

}  // namespace

Result<std::vector<ConfigEntry>> with_record(Command command,
                                             const std::vector<ConfigEntry>& given) {
  const ConfigEntry* const last = last_named(given, "resume");
  if (last == nullptr || last->text.empty()) return given;
  const bool several = (command & kProcesses) != 0;
  const ConfigEntry* const guests = last_named(given, "guests");  // then the launch is one node
  const bool is_of_nodes = command == kLaunch && (guests == nullptr || guests->text == "0");
  const std::string path = is_of_nodes ? folder_of_node(last->text, 0) : last->text;
  const auto manifest = newest_manifest(real_disk(), path);
  const auto there = checkpoints_in(real_disk(), path + "/" + kCheckpointsFolder);
  if (there.empty() && state_of(record_in(path)) == "finished")
    return user_error(
        fmt::format("resume is \"{}\", whose run has finished without a checkpoint, "
                    "accepted: a run that has not finished",
                    last->text));
  if (!manifest) return manifest.error();
  Json record = json_of_text<Json>(manifest->run.options);
  if (record.contains("epochs") && record["epochs"] != 0)
    record.erase("gradients");  // the epochs determine them
  Options scratch;
  const OptionTable table = option_table(scratch);
  std::vector<ConfigEntry> entries;
  if (several) entries = recorded_numbers(command, given, last->text, *manifest, record);
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
  return identity_of(options.settings, objective, json_text(json_of(options)), node);
}

Status may_begin(const Options& options) {
  const std::string run = options.resume.empty() ? "" : run_of(options.resume);
  const std::string& out = options.out.empty() ? run : options.out;
  if (out.empty()) return RunDirectory::may_be_made(default_run_folder(), false);
  const Json record = record_in(out);
  std::error_code unlike;
  const bool resumes_there = fs::equivalent(run, out, unlike);
  if (Status may = may_run_again(out, record); options.resume.empty() && !may) return may;
  const bool takes_up = resumes_there || (options.resume.empty() && is_left(record));
  if (Status can = RunDirectory::may_be_made(out, takes_up); !can) return can;
  if (!fs::is_directory(out, unlike)) return Done{};
  const auto lock = lock_run(out);
  return lock ? Status(Done{}) : lock.error();
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
                   "whose run has finished, accepted: an unfinished run, or another "
                   "folder by --out");
  if (Status on = take_up(*checkpoint, options, objective, begins); !on) return on.error();
  // The same command again is the same run, which may still be alive.
  ++begins.resumption.generation;
  return begins;
}

}  // namespace grapevine
