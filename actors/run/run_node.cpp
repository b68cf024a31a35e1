#include "actors/run/run_node.hpp"

#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>

#include "actors/cluster/mean_sums.hpp"
#include "actors/guests/guest_server.hpp"
#include "actors/mail/promised.hpp"
#include "actors/run/prepared_run.hpp"
#include "actors/run/spawn_node.hpp"
#include "actors/transport/sockets.hpp"
#include "kernels/base/caught.hpp"
#include "messages/facts.hpp"

namespace grapevine {

namespace {

/// The end conditions of a run, which await_end polls.
struct Reached {
  std::function<bool()> has_diverged;  // the ranks here
  std::function<bool()> is_left;       // somebody ends this process, or a hook threw
  std::function<bool()> is_for_all;    // is_left, and all other nodes end too
  std::function<bool()> is_enough;     // for all nodes
  std::function<bool()> is_over;       // the time of the ranks here is up
};

// Waits until the run ends or this node has left it. The node may still leave while the run ends,
// because its device is lost or somebody ends it. If all nodes are interrupted, the node that looks
// first stops the run, and that may end the ranks here before this look: they are saved too.
ClusterEnding await_end(Promised<ClusterEnding>& ending, const ClusterActor& cluster,
                        const Reached& reached, const std::function<void()>& save) {
  for (bool ends = false, leaves = false;;) {
    if (auto end = ending.wait(std::chrono::milliseconds(50))) {
      if (!leaves && !end->failure && !reached.has_diverged() && reached.is_left()) save();
      return std::move(*end);
    }
    if (leaves) continue;
    if (reached.has_diverged()) {
      leaves = true;
      caf::anon_send(cluster, Leave{});
    } else if (reached.is_left()) {
      leaves = true;
      save();
      if (reached.is_for_all())
        caf::anon_send(cluster, Stop{});
      else
        caf::anon_send(cluster, Leave{});
    } else if (!ends && reached.is_enough()) {
      ends = true;
      caf::anon_send(cluster, Stop{});
    } else if (!ends && reached.is_over()) {
      ends = true;
      caf::anon_send(cluster, Finish{});
    }
  }
}

// Connects the scripts: they compute the steps and learn of every epoch.
void let_scripts_in(NodeHooks& hooks) {
  hooks.run.make_worker = guest_workers(hooks.guests->table());
  hooks.run.sink.on_epoch = [guests = hooks.guests,
                             told = hooks.run.sink.on_epoch](const EpochInfo& info) {
    guests->on_epoch(info);
    if (told) told(info);
  };
  hooks.guests->set_sink(hooks.run.sink.on_event);
}

std::shared_ptr<const Buffer> mean_statistics(const Objective& objective, const Outcome& outcome,
                                              int ranks) {
  const ParameterLayout& layout = objective.statistics();
  if (layout.size() == 0) return nullptr;
  Buffer one(layout.size(), layout.dtype()), sum(layout.size(), DType::f64);
  int count = 0;
  for (const RankParameters& p : ranks_in_mean(outcome)) {
    const int shard = p.rank % ranks;
    if (!objective.has_statistics(shard)) continue;
    objective.read_for_mean(shard, one);
    accumulate({}, one, sum);
    ++count;
  }
  if (count == 0) return nullptr;
  return std::make_shared<const Buffer>(mean_of(sum, count, layout.dtype()));
}

void take_mean(const ClusterEnding& end, const Objective& objective, int ranks,
               NodeResult& result) {
  if (end.mean && end.mean->ranks > 0) {
    result.mean = std::shared_ptr<const Buffer>(end.mean, &end.mean->vectors[0]);
    if (end.mean->vectors.size() > 1 && end.mean->ranks_in[1] > 0)
      result.statistics = std::shared_ptr<const Buffer>(end.mean, &end.mean->vectors[1]);
    result.ranks = end.mean->ranks;
  }
  result.nodes = end.nodes;
  if (!result.mean && !result.outcome.parameters.empty()) {  // the mean of the ranks here alone
    result.mean = std::make_shared<const Buffer>(mean_parameters(result.outcome));
    result.statistics = mean_statistics(objective, result.outcome, ranks);
    result.ranks = static_cast<int>(ranks_in_mean(result.outcome).size());
    result.nodes = 1;
  }
}

GuestServer::Run run_of_scripts(caf::actor_system& system, const SpawnedNode& node,
                                const Settings& s, bool on_device) {
  return {.system = &system,
          .cluster = node.cluster,
          .counters = node.run->counters,
          .pool = node.run->pool,
          .clock = node.run->clock,
          .gradients = s.gradients,
          .ranks = s.ranks,
          .checkpointer = node.run->checkpointer,
          .on_device = on_device};
}

// Writes the checkpoint of a node that somebody ends, if it has checkpoints.
void save_last(caf::actor_system& system, const SpawnedRun& run) {
  if (!run.checkpointer) return;
  const caf::scoped_actor self{system};
  self->request(run.checkpointer, kSaveAtMost, SaveNow{})
      .receive([](const std::string&) {}, [](const caf::error&) {});
}

// Scripts get the mean before the end is judged, which takes seconds for a large model.
// REQUIRES: the settings are checked, the objective and the hooks guarded.
Result<NodeResult> run_checked(const Settings& s, const NodeSettings& n,
                               std::shared_ptr<Objective> objective, NodeHooks hooks,
                               Thrown& thrown) {
  RunSystemConfig config(Clock::wall);
  caf::actor_system system{config};
  const RunClock clock(system);
  Promised<ClusterEnding> ending;
  Promised<Outcome> ended;
  Promised<Alarm> alarmed;  // of divergence here; a loss that is not a number counts
  hooks.run.sink.on_alarm = [&alarmed, told = hooks.run.sink.on_alarm](const Alarm& alarm) {
    if (told) told(alarm);
    if (alarm.what == Alarm::What::divergence) alarmed.keep(alarm);
  };
  const auto begun_s = std::make_shared<std::atomic<double>>(kNever);  // when the ranks here began
  hooks.run.sink.on_epoch = [begun_s, told = hooks.run.sink.on_epoch](const EpochInfo& info) {
    begun_s->store(std::min(begun_s->load(), info.at_s));
    if (told) told(info);
  };
  if (hooks.guests) let_scripts_in(hooks);
  SpawnedNode node = spawn_node(system, s, n, objective, hooks,
                                {[&](Outcome o) { ended.keep(std::move(o)); },
                                 [&](ClusterEnding e) { ending.keep(std::move(e)); }});
  hooks.run.resumption = {};  // the ranks have their records
  auto opened = Links::open(node.options, node.events);
  if (!opened) {
    node.stop();
    return opened.error();
  }
  const std::shared_ptr<Links> links = std::move(*opened);
  if (hooks.on_listening)
    guarded(thrown, "the hook on_listening", false,
            [&] { return hooks.on_listening(links->address()), true; });
  node.start(links);
  if (hooks.guests)
    hooks.guests->begin(run_of_scripts(system, node, s, hooks.run.device != nullptr));

  std::optional<Alarm> alarm;
  const auto* interrupts = hooks.run.interrupts;
  const auto* for_all = hooks.interrupt_is_for_all;
  const auto* is_enough = hooks.run.is_enough;
  const Reached reached{
      .has_diverged =
          [&] { return (alarm = alarmed.wait(std::chrono::milliseconds(0))).has_value(); },
      .is_left = [&] { return thrown.any() || (interrupts != nullptr && interrupts->load() > 0); },
      .is_for_all = [&] { return !thrown.any() && for_all != nullptr && for_all->load(); },
      .is_enough = [&] { return is_enough != nullptr && is_enough->load(); },
      .is_over = [&] { return s.until_s > 0 && clock.now() - *begun_s >= s.until_s; }};
  const ClusterEnding end =
      await_end(ending, node.cluster, reached, [&] { save_last(system, *node.run); });
  NodeResult result;
  if (auto outcome = ended.wait(std::chrono::milliseconds(0))) result.outcome = std::move(*outcome);
  if (!alarm) alarm = alarmed.wait(std::chrono::milliseconds(0));
  if (alarm) result.outcome.fail(*alarm);
  take_mean(end, *objective, s.ranks, result);
  if (hooks.guests)
    hooks.guests->end(result.mean, result.statistics, result.ranks, reached.is_left);
  if (!thrown.any()) judge_end(s, *objective, *node.run->counters, hooks.run.sink, result.outcome);
  const auto ledgers = node.run->ledgers;
  node.stop();
  result.outcome.costs = final_costs(*ledgers, clock, hooks.run.checkpoints.stop);
  if (end.drained) charge_drain(result.outcome.costs);
  if (end.failure) return *end.failure;
  result.missing = end.missing;
  result.lost = end.lost, result.left = end.left;
  result.departures = end.departures;
  result.drained = end.drained;
  result.stopped = end.stopped;
  result.mass_lost = end.mass_lost;
  return result;
}

Status check_text(const char* what, const std::string& text, size_t most) {
  const bool printable =
      std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c < 127; });
  if (printable && text.size() <= most) return Done{};
  return user_error(
      fmt::format("the node's {} has {} bytes{}, accepted: at most {}, printable ASCII", what,
                  text.size(), printable ? "" : ", not all printable", most));
}

Status check_addresses(const NodeSettings& n) {
  if (Status fits = check_text("listen", n.listen, kAddressBytes); !fits) return fits;
  if (Status fits = check_text("advertise", n.advertise, kAddressBytes); !fits) return fits;
  if (!n.advertise.empty())
    if (Status fits = check_advertised(n.advertise); !fits) return fits;
  for (const std::string& address : n.join) {
    if (Status fits = check_text("join", address, kAddressBytes); !fits) return fits;
    if (Status fits = check_joined(address); !fits) return fits;
  }
  return Done{};
}

void guard_answers(NodeHooks& hooks, const std::shared_ptr<Thrown>& thrown) {
  if (hooks.render)
    hooks.render = [told = std::move(hooks.render), thrown](const NodeStatus& status) {
      return guarded(*thrown, "the hook render", std::string(), [&] { return told(status); });
    };
  if (hooks.describe_snapshot)
    hooks.describe_snapshot = [told = std::move(hooks.describe_snapshot),
                               thrown](const Mean& mean) {
      return guarded(*thrown, "the hook describe_snapshot", std::string(),
                     [&] { return told(mean); });
    };
  if (hooks.read_plan)
    hooks.read_plan = [told = std::move(hooks.read_plan), thrown](const std::string& text) {
      return guarded(*thrown, "the hook read_plan", Result<Plan>(user_error("it cannot be read")),
                     [&] { return told(text); });
    };
}

}  // namespace

std::string name_of_this_process() {
  char host[64] = "node";
  gethostname(host, sizeof host - 1);
  const std::string process = fmt::format("-{}", getpid());
  return std::string(host).substr(0, kNameBytes - process.size()) + process;
}

Status check_of_node(const Settings& s) {
  Settings without_plan = s;
  without_plan.plan = {};
  if (Status fits = check(without_plan); !fits) return fits;
  return check(s.plan, s.ranks, false);
}

Status check(const NodeSettings& n, const Settings& s) {
  const int here = ranks_here(s);
  if (s.clock != Clock::wall)
    return user_error("the clock of a node is simulated, accepted: the wall clock");
  if (s.local_ranks < 0 || here > s.ranks || here > static_cast<int>(kRanksOfNodeAtMost))
    return user_error(fmt::format(
        "local_ranks is {} with ranks {}, accepted: 1 to {} for one node, or 0 for all",
        s.local_ranks, s.ranks, std::min(s.ranks, static_cast<int>(kRanksOfNodeAtMost))));
  const int last = static_cast<int>(kRankNumbersAtMost) - here;
  if (n.first_rank < -1 || n.first_rank > last)
    return user_error(
        fmt::format("first_rank is {}, accepted: -1, or 0 to {}", n.first_rank, last));
  const int needed = std::max(0, n.first_rank) + here;
  if (n.total_ranks != 0 && n.total_ranks < needed)
    return user_error(
        fmt::format("total_ranks is {}, accepted: 0, or {} or more, with those of this node",
                    n.total_ranks, needed));
  if (!(n.patience_s > 0 && n.patience_s < kNever))
    return user_error(fmt::format("patience_s is {}, accepted: a number above 0", n.patience_s));
  if (Status fits = check_text("run", n.run, kNameBytes); !fits) return fits;
  if (Status fits = check_text("name", n.name, kNameBytes); !fits) return fits;
  if (Status fits = check_addresses(n); !fits) return fits;
  for (const std::string* lines : {&n.settings, &n.defaults})
    if (lines->size() > kSettingsBytes)
      return user_error(
          fmt::format("the node's settings or defaults have {} bytes, accepted: at most {}",
                      lines->size(), kSettingsBytes));
  return Done{};
}

namespace {

// Checks --link for ranks that are on a GPU.
Status look_for_nccl(const Settings& s, std::shared_ptr<const Nccl>& out) {
  if (s.device_link != DeviceLink::nccl || out) return Done{};
  const auto gpu = gpu_named(s.device);
  if (!gpu) return gpu.error();
  if (!*gpu) return Done{};
  auto found = load_nccl(**gpu);
  if (!found)
    return user_error("link is nccl, and there is " + found.error().message +
                      ", accepted without it: auto, host, vmm");
  out = std::make_shared<const Nccl>(*std::move(found));
  return Done{};
}

}  // namespace

Result<NodeResult> run_node(const Settings& given, const NodeSettings& asked,
                            std::shared_ptr<Objective> objective, NodeHooks hooks) {
  if (Status possible = check_of_node(given); !possible) return possible.error();
  if (Status possible = check(asked, given); !possible) return possible.error();
  Settings settings = given;
  settings.local_ranks = ranks_here(given);
  NodeSettings node = asked;
  if (node.name.empty()) node.name = name_of_this_process();
  if (!node.own_key) node.own_key = std::make_shared<const NodeKey>(NodeKey::generate());
  if (node.life == 0) node.life = name_hash(fmt::format("{}", fmt::join(random_challenge(), " ")));
  if (!hooks.run.device)
    if (Status found = look_for_nccl(settings, hooks.run.nccl); !found) return found.error();
  auto prepared = prepare_checked(settings, objective, std::move(hooks.run));
  if (!prepared) return prepared.error();
  hooks.run = std::move(prepared->hooks);
  guard_answers(hooks, prepared->thrown);
  try {
    auto result = run_checked(prepared->settings, node, prepared->objective, std::move(hooks),
                              *prepared->thrown);
    if (const auto what = prepared->thrown->first()) return *what;
    return result;
  } catch (const std::system_error& refused) {
    return no_thread(refused);
  }
}

}  // namespace grapevine
