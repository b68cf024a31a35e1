#include "actors/cluster/console_server.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <ctime>

#include "actors/cluster/state_pieces.hpp"
#include "topologies/topology.hpp"

namespace grapevine {

namespace {

constexpr size_t kEventsKept = 100, kReasonsKept = 32, kMeansKept = 2;
constexpr double kMeanKept_s = 30;
constexpr char kNotHere[] = "this node does not support this request";
constexpr char kFollow[] = "follow";  // an argument of `events`

std::string names_file(const std::string& topology) {
  return "topology \"" + topology + "\" names a file, accepted: a graph by its name";
}

// `count` bytes from `offset` on, of all vectors in order.
std::string bytes_of(const Mean& mean, uint64_t offset, uint64_t count) {
  std::string bytes;
  for (const Buffer& v : mean.vectors) {
    const uint64_t here = v.vec().bytes();
    if (offset < here && count > 0) {
      const uint64_t taken = std::min(count, here - offset);
      bytes.append(static_cast<const char*>(v.vec().data) + offset, taken);
      count -= taken;
    }
    offset -= std::min(offset, here);
  }
  return bytes;
}

// The text of an actor's refusal, or of one of CAF's errors.
std::string line_of(const caf::error& error) {
  const caf::message& context = error.context();
  if (context.match_elements<std::string>()) return context.get_as<std::string>(0);
  return to_string(error);
}

// For people, who compare the events of several nodes. No decision uses it.
std::string time_of_day() { return fmt::format("{:%H:%M:%S}", fmt::localtime(std::time(nullptr))); }

}  // namespace

ConsoleServer::ConsoleServer(caf::actor_config& config, ConsoleDependencies deps)
    : ConsoleActor::base(config), deps_(std::move(deps)) {}

void ConsoleServer::note(const std::string& what) {
  const std::string line = time_of_day() + " " + what;
  events_.push_back(line);
  if (events_.size() > kEventsKept) events_.pop_front();
  for (const uint64_t console : followers_)
    parts_.links->reply(console, {true, true, line + "\n", {}, 0});
}

void ConsoleServer::turned_away(const TurnedAway& away) {
  const bool known = turned_away_.count(away.reason) > 0 || turned_away_.size() < kReasonsKept;
  ++turned_away_[known ? away.reason : "other"];
  const std::string line = "refused " + away.from + ": " + away.reason;
  note(line);
  if (deps_.say) deps_.say(line);
}

// Lost frames need no action: exchanges request their data again.
void ConsoleServer::bulk_ended(const BulkEnded& ended) {
  if (ended.lost == 0) return;
  note(fmt::format("the bulk link with {} ended, {} lost: {}", ended.node,
                   ended.lost == 1 ? "1 frame was" : fmt::format("{} frames were", ended.lost),
                   ended.reason));
}

// Sends all past events, and then each event as it happens.
void ConsoleServer::follow(uint64_t console) {
  for (const std::string& line : events_)
    parts_.links->reply(console, {true, true, line + "\n", {}, 0});
  followers_.insert(console);
}

void ConsoleServer::reply(uint64_t console, bool ok, std::string text) {
  while (text.size() > kTextBytes) {
    parts_.links->reply(console, {ok, true, text.substr(0, kTextBytes), {}, 0});
    text.erase(0, kTextBytes);
  }
  parts_.links->reply(console, {ok, false, std::move(text), {}, 0});
}

void ConsoleServer::answer(const Asked& asked) {
  const ConsoleRequest& r = asked.request;
  switch (r.verb) {
    case ConsoleVerb::events:
      if (r.argument == kFollow) return follow(asked.console);
      return answer_status(asked.console);
    case ConsoleVerb::status:
    case ConsoleVerb::topology: return answer_status(asked.console);
    case ConsoleVerb::reconfigure: return reconfigure(asked.console, r.argument);
    case ConsoleVerb::drain: return drain(asked.console);
    case ConsoleVerb::stop:
      send(parts_.cluster, Stop{});
      return reply(asked.console, true, "all nodes finish open exchanges and end the run");
    case ConsoleVerb::inject: return inject(asked.console, r.argument);
    case ConsoleVerb::checkpoint: return take_checkpoint(asked.console);
    case ConsoleVerb::snapshot:
      if (r.mean == 0) return take_snapshot(asked.console);
      return give_snapshot(asked.console, r.mean, r.offset);
  }
}

// Records the ranks first, so that the node can be started again and resume.
void ConsoleServer::drain(uint64_t console) {
  constexpr std::chrono::seconds kAtMost{60};
  const auto leave = [this] { send(parts_.cluster, Leave{.drained = true}); };
  reply(console, true, "the node saves its ranks, finishes open exchanges and leaves");
  if (!parts_.checkpointer) return leave();
  request(parts_.checkpointer, kAtMost, SaveNow{})
      .then([leave](const std::string&) { leave(); }, [leave](const caf::error&) { leave(); });
}

void ConsoleServer::reconfigure(uint64_t console, const std::string& topology) {
  if (names_edge_file(topology)) return reply(console, false, names_file(topology));
  request(parts_.cluster, caf::infinite, Reconfigure{topology})
      .then([this, console](const std::string& line) { reply(console, true, line); },
            [this, console](const caf::error& error) { reply(console, false, line_of(error)); });
}

void ConsoleServer::inject(uint64_t console, const std::string& text) {
  if (!deps_.read_plan) return reply(console, false, kNotHere);
  Result<Plan> plan = deps_.read_plan(text);
  if (!plan) return reply(console, false, plan.error().message);
  if (!plan->rank_faults.empty())
    return reply(console, false,
                 "inject accepts faults of links and reconfigurations; slow, pause, kill and "
                 "restart belong in the plan of a process");
  for (const Reconfiguration& change : plan->reconfigurations)
    if (names_edge_file(change.topology)) return reply(console, false, names_file(change.topology));
  request(parts_.cluster, caf::infinite, WantStatus{})
      .then([this, console, given = *std::move(plan)](const NodeStatus& status) {
        Plan plan = given;
        uint32_t ranks = 0;
        for (const Member& m : status.members)
          if (in_graph(m)) ranks = std::max(ranks, m.first_rank + m.ranks);
        if (const Status known = check(plan, static_cast<int>(ranks), false); !known)
          return reply(console, false, known.error().message);
        const double now = deps_.clock.now();
        for (LinkFault& fault : plan.link_faults) {
          fault.at += now;
          fault.until += now;
        }
        deps_.transport->set_faults(plan.link_faults);
        for (const Reconfiguration& change : plan.reconfigurations)
          caf::delayed_anon_send(parts_.cluster,
                                 std::chrono::nanoseconds(static_cast<int64_t>(change.at * 1e9)),
                                 Reconfigure{change.topology});
        reply(console, true, "injected; it replaces the faults that were injected before");
      });
}

// Records the ranks here. The answer comes once the checkpoint is written or has failed.
void ConsoleServer::take_checkpoint(uint64_t console) {
  if (!parts_.checkpointer)
    return reply(console, false, "this node writes no checkpoints: it has no run directory");
  request(parts_.checkpointer, caf::infinite, SaveNow{})
      .then([this, console](const std::string& line) {
        reply(console, !line.starts_with(kNoCheckpoint), line);
      });
}

// --- status

void ConsoleServer::answer_status(uint64_t console) {
  if (!deps_.render) return reply(console, false, kNotHere);
  request(parts_.cluster, caf::infinite, WantStatus{}).then([this, console](NodeStatus& known) {
    auto status = std::make_shared<NodeStatus>(std::move(known));
    status->epoch = epoch_;  // may be newer than the members, and has all epochs that they have
    request(parts_.node, caf::infinite, Report{}).then([this, console, status](NodeReport& ranks) {
      status->ranks = std::move(ranks);
      finish_status(console, std::move(*status));
    });
  });
}

void ConsoleServer::finish_status(uint64_t console, NodeStatus known) {
  auto status = std::make_shared<NodeStatus>(std::move(known));
  status->uptime_s = deps_.clock.now();
  status->frames = deps_.transport->counts();
  status->device_edges = deps_.transport->device_edges();
  status->turned_away = turned_away_;
  status->refusals = parts_.links->refusals();
  status->link_totals = parts_.links->totals();
  status->events.assign(events_.begin(), events_.end());
  for (NodeStatus::Link& link : status->links)
    link.counts = parts_.links->counts(link.node);
  std::erase_if(status->device_edges, [&](const DeviceEdge& edge) {
    return std::none_of(status->links.begin(), status->links.end(),
                        [&](const NodeStatus::Link& link) { return link.node == edge.node; });
  });
  auto awaited = std::make_shared<size_t>(parts_.states.size() + 1);
  const auto one_less = [this, console, status, awaited] {
    if (--*awaited == 0) reply(console, true, deps_.render(*status));
  };
  request(parts_.transfers, caf::infinite, WantRefused{})
      .then(
          [status, one_less](Refused& refused) {
            status->refused_pieces = std::move(refused.by_reason);
            one_less();
          },
          [one_less](const caf::error&) { one_less(); });
  for (const StateActor& state : parts_.states)
    request(state, caf::infinite, Report{})
        .then(
            [status, one_less](StateReport& report) {
              status->states.push_back(std::move(report));
              one_less();
            },
            [one_less](const caf::error&) { one_less(); });
}

// --- snapshots

void ConsoleServer::take_snapshot(uint64_t console) {
  if (!deps_.describe)
    return reply(console, false, "the program that runs this node writes no snapshots");
  request(parts_.cluster, caf::infinite, WantMean{})
      .then(
          [this, console](const MeanResult& result) {
            if (!result.mean) {
              std::string names;
              for (const std::string& node : result.missing)
                names += (names.empty() ? "" : ", ") + node;
              return reply(console, false,
                           "there is no mean: " + (names.empty() ? "no ranks are here"
                                                                 : "nothing came from " + names));
            }
            forget_means();
            if (kept_.size() == kMeansKept) kept_.pop_front();
            kept_.push_back({result.mean, deps_.clock.now()});
            delayed_send(caf::actor_cast<ConsoleActor>(this),
                         std::chrono::seconds(static_cast<int>(kMeanKept_s) + 1), Tick{});
            reply(console, true, deps_.describe(*result.mean));
          },
          [this, console](const caf::error& error) { reply(console, false, line_of(error)); });
}

void ConsoleServer::give_snapshot(uint64_t console, uint64_t mean, uint64_t offset) {
  const auto found = std::find_if(kept_.begin(), kept_.end(),
                                  [mean](const Kept& k) { return k.mean->number == mean; });
  if (found == kept_.end())
    return reply(console, false, "that snapshot is no longer stored, ask for a new one");
  found->used_s = deps_.clock.now();
  const std::string bytes = bytes_of(*found->mean, offset, kAnswerBytes);
  const uint64_t hash = piece_hash(ConstVec(bytes.data(), bytes.size(), DType::bytes));
  size_t at = 0;
  for (; bytes.size() - at > kTextBytes; at += kTextBytes)
    parts_.links->reply(console, {true, true, {}, bytes.substr(at, kTextBytes), 0});
  parts_.links->reply(console, {true, false, {}, bytes.substr(at), hash});
}

void ConsoleServer::forget_means() {
  const double now = deps_.clock.now();
  std::erase_if(kept_, [now](const Kept& k) { return now >= k.used_s + kMeanKept_s; });
}

ConsoleServer::behavior_type ConsoleServer::make_behavior() {
  return {
      [this](ConsoleStart& start) { parts_ = std::move(start); },
      [this](Asked& asked) {
        if (!parts_.links)  // ConsoleStart has not come yet
          return send(caf::actor_cast<ConsoleActor>(this), std::move(asked));
        answer(asked);
      },
      [this](const ConsoleGone& gone) { followers_.erase(gone.console); },
      [this](const TurnedAway& away) { turned_away(away); },
      [this](const BulkEnded& ended) { bulk_ended(ended); },
      [this](const EpochInfo& info) {
        const bool begins = std::exchange(epoch_, info).epoch != info.epoch;
        if (begins)
          note(fmt::format("the graph is {} of {} rank{}", info.topology, info.ranks,
                           info.ranks == 1 ? "" : "s"));
      },
      [this](const Note& told) { note(told.line); },
      [this](Tick) {
        forget_means();
        if (!kept_.empty())
          delayed_send(caf::actor_cast<ConsoleActor>(this),
                       std::chrono::seconds(static_cast<int>(kMeanKept_s) + 1), Tick{});
      },
  };
}

void ConsoleServer::on_exit() {
  parts_ = {};
  deps_.transport.reset();
  deps_.render = {};
  deps_.describe = {};
  deps_.read_plan = {};
  deps_.say = {};
}

}  // namespace grapevine
