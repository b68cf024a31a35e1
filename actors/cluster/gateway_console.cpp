// What a Gateway answers to consoles.
#include <algorithm>

#include "actors/cluster/gateway.hpp"
#include "topologies/topology.hpp"

namespace grapevine {

namespace {

constexpr size_t kEventsKept = 100, kReasonsKept = 32;
constexpr char kNotHere[] = "the program that runs this node has no answer to that";
constexpr char kFollow[] = "follow";  // the argument of events

}  // namespace

void Gateway::say(const std::string& line) {
  note(line);
  if (deps_.say) deps_.say(line);
}

void Gateway::note(const std::string& line) {
  events_.push_back(line);
  if (events_.size() > kEventsKept) events_.pop_front();
  for (const uint64_t console : followers_)
    parts_.links->reply(console, {true, true, line + "\n"});
}

void Gateway::turned_away(const TurnedAway& away) {
  auto& reasons = told_.turned_away;
  const bool known = reasons.count(away.reason) > 0 || reasons.size() < kReasonsKept;
  ++reasons[known ? away.reason : "other"];
  say("turned away " + away.from + ": " + away.reason);
}

// Exchanges ask again for what was lost.
void Gateway::bulk_ended(const BulkEnded& ended) {
  if (ended.lost == 0) return;
  note("the bulk link with " + ended.node + " ended, " + std::to_string(ended.lost) +
       (ended.lost == 1 ? " frame was lost: " : " frames were lost: ") + ended.reason);
}

// What has happened so far, and then each event as it comes.
void Gateway::follow(uint64_t console) {
  for (const std::string& line : events_)
    parts_.links->reply(console, {true, true, line + "\n"});
  followers_.insert(console);
}

void Gateway::reply(uint64_t console, bool ok, std::string text) {
  while (text.size() > kTextBytes) {
    parts_.links->reply(console, {ok, true, text.substr(0, kTextBytes)});
    text.erase(0, kTextBytes);
  }
  parts_.links->reply(console, {ok, false, std::move(text)});
}

void Gateway::answer(const Asked& asked) {
  const std::string& argument = asked.request.argument;
  switch (asked.request.verb) {
    case ConsoleVerb::events:
      if (argument == kFollow) return follow(asked.console);
      return answer_status(asked.console);
    case ConsoleVerb::status:
    case ConsoleVerb::topology: return answer_status(asked.console);
    case ConsoleVerb::reconfigure: {
      if (names_edge_file(argument))
        return reply(asked.console, false,
                     "topology \"" + argument + "\" names a file, accepted: a graph by its name");
      const Result<std::string> done = reconfigure(argument);
      return reply(asked.console, static_cast<bool>(done), done ? *done : done.error().message);
    }
    case ConsoleVerb::drain:
      leave();
      return reply(asked.console, true, "the node finishes what it has begun and leaves");
    case ConsoleVerb::stop:
      handle([this](Membership& m, MembershipEffects& out) { m.stop(deps_.clock.now(), out); });
      return reply(asked.console, true, "all nodes finish what they have begun");
    case ConsoleVerb::inject: return inject(asked.console, argument);
    case ConsoleVerb::snapshot: return snapshot(asked.console);
  }
}

// The graph changes once the nodes have heard of it.
Result<std::string> Gateway::reconfigure(const std::string& topology) {
  const auto graph = make_topology(topology, graph_ranks_, deps_.settings->rate);
  if (!graph) return graph.error();
  handle([&](Membership& m, MembershipEffects& out) {
    m.reconfigure(deps_.clock.now(), topology, out);
  });
  return "asked for " + graph->name() + ", which begins when the nodes have heard of it";
}

void Gateway::inject(uint64_t console, const std::string& text) {
  if (!deps_.read_plan) return reply(console, false, kNotHere);
  Result<Plan> plan = deps_.read_plan(text);
  if (!plan) return reply(console, false, plan.error().message);
  if (!plan->rank_faults.empty())
    return reply(console, false,
                 "inject takes faults of links and reconfigurations; slow, pause, kill and restart "
                 "belong to the plan that a process is started with");
  uint32_t ranks = 0;
  for (const Member& m : membership_->graph())
    ranks = std::max(ranks, m.first_rank + m.ranks);
  if (const Status known = check(*plan, static_cast<int>(ranks), false); !known)
    return reply(console, false, known.error().message);
  for (const Reconfiguration& change : plan->reconfigurations)
    if (names_edge_file(change.topology))
      return reply(
          console, false,
          "topology \"" + change.topology + "\" names a file, accepted: a graph by its name");
  const double now = deps_.clock.now();
  for (LinkFault& fault : plan->link_faults) {
    fault.at += now;
    fault.until += now;
  }
  deps_.transport->set_faults(plan->link_faults);
  for (const Reconfiguration& change : plan->reconfigurations)
    caf::delayed_anon_send(caf::actor_cast<GatewayActor>(this),
                           std::chrono::nanoseconds(static_cast<int64_t>(change.at * 1e9)),
                           Reconfigure{change.topology});
  reply(console, true, "injected; it replaces what was injected before");
}

void Gateway::answer_status(uint64_t console) {
  if (!deps_.render) return reply(console, false, kNotHere);
  request(parts_.node, caf::infinite, Report{}).then([this, console](NodeReport& report) {
    NodeStatus status = told_;
    status.node = membership_->self().node;
    status.uptime_s = deps_.clock.now();
    status.members = membership_->members();
    status.graph = membership_->spec();
    status.epoch = epoch_;
    status.roster_epoch = roster_epoch_;
    for (const auto& [why, count] : membership_->refusals())
      status.disbelieved.emplace(why, count);
    status.frames = deps_.transport->counts();
    status.refusals = parts_.links->refusals();
    status.events.assign(events_.begin(), events_.end());
    for (const Member& m : status.members)
      if (m.node != status.node && membership_->linked(m.node))
        status.links.push_back(
            {m.node, membership_->round_trip_s(m.node), parts_.links->counts(m.node)});
    status.rates = membership_->edge_rates();
    status.ranks = std::move(report);
    auto told = std::make_shared<NodeStatus>(std::move(status));
    ask_states([this, console, told](std::vector<StateReport> states) {
      told->states = std::move(states);
      reply(console, true, deps_.render(*told));
    });
  });
}

}  // namespace grapevine
