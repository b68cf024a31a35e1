// grapevine launch: starts the processes of a run, applies the plan to them, and reports for all.
#include <fmt/core.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <thread>

#include "actors/cluster/needed_links.hpp"
#include "actors/run/run_node.hpp"
#include "actors/settings/alarm.hpp"
#include "app/checkpoint/resume.hpp"
#include "app/commands/commands.hpp"
#include "app/launch/guest_scripts.hpp"
#include "app/launch/process_group.hpp"
#include "app/launch/report.hpp"
#include "app/output/cost_report.hpp"
#include "app/output/progress.hpp"
#include "app/output/report.hpp"
#include "app/run/interrupts.hpp"
#include "app/run/run_record.hpp"
#include "app/system/ask_node.hpp"
#include "app/system/words.hpp"
#include "kernels/base/cores.hpp"
#include "kernels/base/write_file.hpp"

namespace grapevine {
namespace {

constexpr int kLaunchPoll_ms = 50;
constexpr double kBetweenLooks_s = 1;  // at the nodes' status

// A file that the destructor removes.
class PassingFile {
 public:
  static Result<std::string> write(const std::string& text, PassingFile& file) {
    std::error_code none;
    const std::string folder = std::filesystem::temp_directory_path(none).string();
    std::string name = folder + "/grapevine-plan-XXXXXX";
    const int fd = mkstemp(name.data());
    if (fd < 0) return world_error(fmt::format("cannot make a temporary file in \"{}\"", folder));
    close(fd);
    file.path_ = name;
    if (Status ok = write_whole_file(name, {{text.data(), text.size()}}); !ok) return ok.error();
    return file.path_;
  }
  ~PassingFile() {
    if (!path_.empty()) unlink(path_.c_str());
  }

 private:
  std::string path_;
};

// For all nodes together. Only the nodes know the length of a pass over the data.
Settings known_end(const Options& options) {
  Settings s = options.settings;
  s.local_ranks = 0;
  if (options.epochs > 0) s.gradients = 0;
  return s;
}

class Launch {
 public:
  Launch(const Options& options, std::vector<LaunchHost> hosts, std::string plan)
      : options_(options),
        processes_(options, std::move(hosts), std::move(plan)),
        progress_(known_end(options), options.log) {}

  Result<int> run() {
    tell_shares();
    for (const std::string& line : told_of_nodes(options_))
      progress_.say(line);
    if (Status started = processes_.start(); !started) return started.error();
    begin_ = std::chrono::steady_clock::now();
    schedule();
    while (!processes_.ended() || next_ < incidents_.size()) {
      processes_.wait(kLaunchPoll_ms);
      if (interrupts() > 0 && !interrupted_) {
        interrupted_ = true;
        processes_.interrupt();
      }
      if (const int asked = checkpoint_requests(); asked != saves_) {
        saves_ = asked;
        processes_.save();
      }
      if (Status back = bring_back(); !back) return back.error();
      if (processes_.ended() && (interrupted_ || !comes_back())) break;
      for (; next_ < incidents_.size() && since_begin() >= incidents_[next_].at; ++next_)
        if (Status ok = incidents_[next_].happens(); !ok) return ok.error();
      tell_addresses();
      tell_ends();
      if (since_begin() >= poll_at_s_) poll();
    }
    tell_ends();
    return report();
  }

 private:
  struct Reached {  // by a node that may be gone or start again
    uint64_t gradients = 0, exchange_ends = 0;
  };
  struct Incident {
    double at = 0;
    std::function<Status()> happens;
    bool restart = false;
  };

  void tell_shares() {
    const auto counted = [](int n, const char* one, const char* several) {
      return fmt::format("{} {}", n, n == 1 ? one : several);
    };
    const int threads = threads_of_each(options_);
    progress_.say(fmt::format("{} with {} and {} each, {} here",
                              counted(options_.nodes, "process", "processes"),
                              counted(options_.settings.local_ranks, "rank", "ranks"),
                              threads == 0 ? "a compute thread for each core there"
                                           : counted(threads, "compute thread", "compute threads"),
                              counted(usable_cores(), "core", "cores")));
  }

  double since_begin() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }

  // After all processes have ended. The run is over if one of them has finished it.
  bool comes_back() const {
    for (int k = 0; k < options_.nodes; ++k)
      if (processes_.status(k) == 0 && !processes_.lost(k)) return false;
    return std::any_of(incidents_.begin() + static_cast<ptrdiff_t>(next_), incidents_.end(),
                       [](const Incident& i) { return i.restart; });
  }

  std::vector<int> nodes_of(const RankFault& fault) const {
    std::vector<int> nodes;
    for (const int rank : fault.ranks)
      nodes.push_back(rank / options_.settings.local_ranks);
    for (int k = 0; fault.ranks.empty() && k < options_.nodes; ++k)
      nodes.push_back(k);
    std::sort(nodes.begin(), nodes.end());
    nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
    return nodes;
  }

  void schedule() {
    const auto add = [this](double at, bool restart, std::function<Status()> happens) {
      incidents_.push_back({at, std::move(happens), restart});
    };
    const Plan& plan = options_.settings.plan;
    for (const RankFault& fault : plan.rank_faults) {
      for (const int node : nodes_of(fault)) {
        if (fault.kind == RankFaultKind::kill) {
          add(fault.at, false, [this, node] { return processes_.kill(node), Status(Done{}); });
        } else if (fault.kind == RankFaultKind::restart) {
          add(fault.at, true, [this, node] {
            ended_.erase(node);
            alarms_.erase(node);
            progress_.say(processes_.name(node) + " is started again");
            return processes_.restart(node);
          });
        } else if (fault.kind == RankFaultKind::pause) {
          add(fault.at, false, [this, node] { return pause(node, true); });
          if (fault.until < kNever)
            add(fault.until, false, [this, node] { return pause(node, false); });
        }
      }
    }
    for (const Reconfiguration& change : plan.reconfigurations)
      add(change.at, false, [this, spec = change.topology] { return reconfigure(spec); });
    std::stable_sort(incidents_.begin(), incidents_.end(),
                     [](const Incident& a, const Incident& b) { return a.at < b.at; });
  }

  Status pause(int node, bool on) {
    progress_.say(processes_.name(node) + (on ? " is paused" : " continues"));
    processes_.pause(node, on);
    return Done{};
  }

  Status reconfigure(const std::string& spec) {
    for (int k = 0; k < options_.nodes; ++k) {
      if (!processes_.listens(k) || processes_.paused(k)) continue;
      const auto answer =
          ask_node(processes_.address(k), options_.peers.key, {ConsoleVerb::reconfigure, spec});
      progress_.say(answer ? *answer : answer.error().message);
      return Done{};
    }
    return Done{};
  }

  // A node that was killed from outside resumes in its folder, or with the state of others.
  Status bring_back() {
    constexpr int kTimes = 3;
    for (int k = 0; k < options_.nodes && !interrupted_; ++k) {
      if (!processes_.died(k) || restarts_[k] >= kTimes || !processes_.can_start()) continue;
      ended_.erase(k);
      alarms_.erase(k);
      progress_.warn(fmt::format("{}{}; it is started again ({} of {})", kAlarm,
                                 processes_.complaint(k), ++restarts_[k], kTimes));
      if (Status started = processes_.restart(k); !started) return started;
    }
    return Done{};
  }

  // For users who want to open a console.
  void tell_addresses() {
    for (int k = 0; k < options_.nodes; ++k) {
      if (!processes_.listens(k) || !told_.insert(processes_.address(k)).second) continue;
      const bool is_first = told_.size() == 1;  // all have the same data
      if (is_first && !processes_.task(k).empty()) progress_.say(processes_.task(k));
      progress_.say(fmt::format("{} listens on {}", processes_.name(k), processes_.address(k)));
    }
  }

  void tell_ends() {
    for (int k = 0; k < options_.nodes; ++k) {
      if (!processes_.ended(k) || !ended_.insert(k).second || processes_.status(k) == 0) continue;
      progress_.say(processes_.lost(k) ? processes_.name(k) + " was killed"
                                       : processes_.complaint(k));
    }
  }

  // One line for all nodes, from their consoles.
  void poll() {
    RunSample p;
    p.consensus_distance = std::numeric_limits<double>::quiet_NaN();
    double loss = 0, heard = 0;  // by ranks
    for (int k = 0; k < options_.nodes; ++k) {
      if (!processes_.listens(k) || processes_.paused(k)) continue;
      const Json status = processes_.ask(k);
      if (!status.is_object()) continue;
      uint64_t gradients = 0, exchange_ends = 0;
      for (const Json& g : status["gradients"])
        gradients += g.get<uint64_t>();
      for (const Json& e : status["exchanges"])
        exchange_ends += e.get<uint64_t>();
      if (status["loss"].is_number()) {
        const auto ranks = static_cast<double>(status["gradients"].size());
        loss += ranks * status["loss"].get<double>();
        heard += ranks;
      }
      Reached& reached = reached_[k];
      reached.gradients = std::max(reached.gradients, gradients);
      reached.exchange_ends = std::max(reached.exchange_ends, exchange_ends);
      tell_members(status);
      tell_alarms(k, status.value("alarms", Json::array()));
    }
    uint64_t exchange_ends = 0;
    for (const auto& [node, reached] : reached_) {
      p.gradients += reached.gradients;
      exchange_ends += reached.exchange_ends;
    }
    p.exchanges = exchange_ends / 2;
    p.loss = heard > 0 ? loss / heard : std::numeric_limits<double>::quiet_NaN();
    if (p.gradients > 0) progress_.reached(p.gradients);
    p.at_s = since_begin();  // after the answers, which may take some time
    if (p.gradients + p.exchanges > 0) progress_.point(p);
    poll_at_s_ = since_begin() + kBetweenLooks_s;
  }

  void tell_members(const Json& status) {
    for (const Json& m : status["members"]) {
      const std::string name = m["node"], state = m["state"];
      const uint64_t incarnation = m["incarnation"];
      auto& known = members_[name];
      if (std::pair(incarnation, state) == known || incarnation < known.first) continue;
      const bool first = known.first == 0;
      known = {incarnation, state};
      const std::string line = status["node"].get<std::string>() + " reports that " + name +
                               (state == "left" ? " has left" : " is " + state);
      if (state == "dead")
        progress_.warn(kAlarm + line);
      else if (!first || state != "alive")
        progress_.say(line);
    }
  }

  // Reports each alarm when it starts and when it is over.
  void tell_alarms(int node, const Json& alarms) {
    std::map<std::string, std::string> standing;
    for (const Json& a : alarms)
      standing[a["kind"].dump() + a["rank"].dump() + "-" + a["peer"].dump()] = a["line"];
    auto& told = alarms_[node];
    for (const auto& [place, line] : standing)
      if (told.count(place) == 0)
        progress_.warn(fmt::format("{}{}: {}", kAlarm, processes_.name(node), line));
    for (const auto& [place, line] : told) {
      const std::string what = line.substr(0, line.find(';'));
      if (standing.count(place) == 0)
        progress_.warn(fmt::format("{}{}: {}", kAlarmOver, processes_.name(node), what));
    }
    told = std::move(standing);
  }

  Result<int> report() {
    Json told;
    Json nodes = Json::array();
    uint64_t gradients = 0;
    std::map<std::string, uint64_t> sums;
    std::vector<Cost> costs;
    std::optional<double> worst_rank;
    for (int k = 0; k < options_.nodes; ++k) {
      const Json result = processes_.ended(k) ? processes_.result(k) : Json();
      nodes.push_back({{"node", processes_.name(k)},
                       {"status", processes_.status(k)},
                       {"restarts", restarts_.count(k) > 0 ? restarts_.at(k) : 0}});
      if (!result.is_object()) continue;
      gradients += result["gradients"].get<uint64_t>();
      for (const char* name : {"exchanges", "bytes", "payload_bytes", "messages",
                               "broken_exchanges", "protocol_errors", "resumed_at"})
        sums[name] += result[name].get<uint64_t>();
      if (auto cost = cost_of(result.value("cost", Json()))) costs.push_back(*std::move(cost));
      if (const Json least = result.value("worst_rank_accuracy", Json()); least.is_number())
        worst_rank = std::min(worst_rank.value_or(1), least.get<double>());
      nodes.back()["mean_hash"] = result["mean_hash"];
      nodes.back()["diverged"] = result["diverged"];
      if (told.is_null() || told["diverged"]) told = result;
    }
    if (told.is_null()) return failure();
    const double seconds = std::max(1e-9, told["seconds"].get<double>());
    told["gradients"] = gradients;
    for (const auto& [name, sum] : sums)
      told[name] = sum;
    if (worst_rank) told["worst_rank_accuracy"] = *worst_rank;
    told["cost"] = json_of(sum_of(costs));
    if (!costs.empty()) told["cost"]["nodes"] = costs.size();
    told["interrupted"] = interrupted_;
    told["gradients_per_second"] = static_cast<double>(gradients - sums["resumed_at"]) / seconds;
    told["total_seconds"] = since_begin();
    told["run_dir"] = options_.out;
    told["processes"] = nodes;
    const std::string lacks = lacking(told);
    if (!lacks.empty()) told["incomplete"] = lacks;
    const bool diverged = told["diverged"];  // then all have diverged
    if (options_.json) {
      print_json(told);
    } else if (!diverged) {
      print_launch(options_.settings, told);
    }
    if (diverged) return failure();
    if (!lacks.empty()) return shortfall(lacks);
    if (auto failed = failure_of_a_node()) return *std::move(failed);
    return 0;
  }

  // With equal shares no other rank takes the gradients of a rank that came late or is gone. A rank
  // may lack one gradient, by rounding.
  std::string lacking(const Json& told) const {
    const Settings& s = options_.settings;
    const bool is_bounded = options_.epochs > 0 || s.gradients == 0 || s.until_s > 0;
    if (is_bounded || pools(s) || interrupted_ || told["stopped_early"]) return "";
    const auto taken = told["gradients"].get<uint64_t>();
    if (taken + static_cast<uint64_t>(s.ranks) > s.gradients) return "";
    return fmt::format("{} of {} gradients were taken", with_commas(static_cast<double>(taken)),
                       with_commas(static_cast<double>(s.gradients)));
  }

  Error failure() const {
    if (interrupted_) return world_error("stopped before there was a result");
    return failure_of_a_node().value_or(world_error("every node is gone"));
  }

  std::optional<Error> failure_of_a_node() const {
    for (int k = 0; k < options_.nodes; ++k)
      if (processes_.status(k) != 0 && !processes_.lost(k))
        return Error{processes_.status(k) == 2 ? Error::Kind::user : Error::Kind::world,
                     processes_.complaint(k)};
    return std::nullopt;
  }

  const Options& options_;
  ProcessGroup processes_;
  Progress progress_;
  std::chrono::steady_clock::time_point begin_;
  std::vector<Incident> incidents_;
  size_t next_ = 0;
  double poll_at_s_ = kBetweenLooks_s;
  bool interrupted_ = false;
  int saves_ = 0;  // checkpoints that were asked for
  std::set<int> ended_;
  std::map<int, int> restarts_;     // by node, of those that were killed from outside
  std::map<int, Reached> reached_;  // by node
  std::map<int, std::map<std::string, std::string>> alarms_;  // by node and place: their lines
  std::set<std::string> told_;                                // addresses
  std::map<std::string, std::pair<uint64_t, std::string>> members_;  // incarnation and state
};

// For many processes: whether the nodes can have enough links.
Status check_links_of(const Options& options) {
  const Settings& s = options.settings;
  std::vector<uint32_t> nodes;
  for (int rank = 0; rank < options.peers.total_ranks; ++rank)
    nodes.push_back(static_cast<uint32_t>(rank / s.local_ranks));
  const auto graph = make_topology(s.topology, options.peers.total_ranks, s.rate);
  return graph ? check_links(s, *graph, nodes) : Status(graph.error());
}

}  // namespace

Result<int> launch(Options options) {
  if (options.guests > 0) return launch_guests(std::move(options));
  std::vector<LaunchHost> hosts;
  if (!options.hosts.empty()) {
    auto read = read_hosts(options.hosts);
    if (!read) return read.error();
    hosts = std::move(*read);
    if (!options.plan.empty()) return user_error("plan with --hosts, accepted: one of the two");
    options.nodes = static_cast<int>(hosts.size());
    options.peers.total_ranks = options.nodes * options.settings.local_ranks;
    options.settings.ranks = options.peers.total_ranks;
  }
  if (const Status fits = check_links_of(options); !fits) return fits.error();
  if (options.peers.name.empty()) options.peers.name = name_of_this_process();
  // It resumes in the same folder.
  if (options.out.empty() && options.save) options.out = options.resume;
  options.out = run_path(options);
  PassingFile file;
  std::string plan;
  if (!options.plan.empty()) {
    std::ostringstream text;
    text << std::ifstream(options.plan).rdbuf();
    if (const std::string theirs = plan_for_nodes(text.str()); !theirs.empty()) {
      auto path = PassingFile::write(theirs, file);
      if (!path) return path.error();
      plan = *path;
    }
  }
  return Launch(options, std::move(hosts), std::move(plan)).run();
}

}  // namespace grapevine
