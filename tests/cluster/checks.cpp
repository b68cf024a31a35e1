// The checks at the end of a Scenario, after all its faults.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "tests/cluster/scenario.hpp"

namespace grapevine::test {

namespace {

constexpr double kOneView_s = 20;  // after the last fault
constexpr double kEnd_s = 60;      // to the end of all nodes, once nothing more is to be done

}  // namespace

void Scenario::ask_all() {
  for (int p = 0; p < cluster_.count(); ++p) {
    cluster_.at(p).status_at_s = -1;
    if (cluster_.running(p)) cluster_.ask(p, ConsoleVerb::status);
  }
  cluster_.run(cluster_.now() + 0.25);
}

std::string Scenario::difference_at(int process) {
  const auto& p = cluster_.at(process);
  const NodeStatus& s = p.status;
  if (p.status_at_s < 0) return p.name + " does not answer its console";
  int ranks = 0;
  for (const Member& m : s.members) {
    ranks += in_graph(m) ? static_cast<int>(m.ranks) : 0;
    const int at = newest(std::stoi(m.node.substr(1)) - 100);
    const bool lives = cluster_.running(at) && !cluster_.at(at).leaving;
    if (lives && !(m.state == MemberState::alive && in_graph(m)))
      return p.name + ": " + m.node + " is in state " + std::to_string(static_cast<int>(m.state)) +
             (m.ready ? "" : ", not ready");
    if (!lives && !is_over(m)) return p.name + ": " + m.node + " is not known to be gone";
  }
  if (s.epoch.epoch != s.roster_epoch) return p.name + ": its manager is in an earlier epoch";
  if (s.epoch.ranks != ranks)
    return p.name + ": a graph of " + std::to_string(s.epoch.ranks) + " of " +
           std::to_string(ranks) + " ranks";
  const auto self = std::find_if(s.members.begin(), s.members.end(),
                                 [&](const Member& m) { return m.node == p.name; });
  for (size_t k = 0; k < s.ranks.communicators.size(); ++k)
    if (s.ranks.communicators[k].rank != static_cast<int>(self->first_rank + k))
      return p.name + ": serves rank " + std::to_string(s.ranks.communicators[k].rank) +
             ", said to begin with " + std::to_string(self->first_rank);
  if (s.ranks.communicators.size() != self->ranks) return p.name + ": too few ranks";
  return {};
}

std::string Scenario::difference() {
  ask_all();
  const NodeStatus* first = nullptr;
  for (int p = 0; p < cluster_.count(); ++p) {
    if (!cluster_.running(p) || cluster_.at(p).leaving) continue;
    if (std::string why = difference_at(p); !why.empty()) return why;
    const NodeStatus& s = cluster_.at(p).status;
    if (first == nullptr) first = &s;
    const std::string pair = first->node + " and " + s.node + ": ";
    if (s.roster_epoch != first->roster_epoch) return pair + "two epochs";
    if (s.epoch.topology != first->epoch.topology)
      return pair + s.epoch.topology + " and " + first->epoch.topology;
  }
  return {};
}

void Scenario::agree() {
  const double until = cluster_.now() + kOneView_s;
  std::string why = difference();
  while (!why.empty() && cluster_.now() < until) {
    cluster_.run(cluster_.now() + 0.5);
    why = difference();
  }
  if (!why.empty()) complain("no one view: " + why);
}

/// All ranks take gradients, and (in pairs) exchange.
void Scenario::train_on() {
  std::map<int, uint64_t> gradients, applied;
  const auto look = [&](bool again) {
    ask_all();
    for (int p = 0; p < cluster_.count(); ++p) {
      if (!cluster_.running(p) || cluster_.at(p).leaving) continue;
      for (const WorkerReport& w : cluster_.at(p).status.ranks.workers) {
        const bool done = by_share_ && w.gradients >= settings_.gradients /
                                                          static_cast<uint64_t>(settings_.ranks);
        if (again && !done && w.gradients <= gradients[w.rank])
          complain("rank " + std::to_string(w.rank) + " stands still");
        gradients[w.rank] = w.gradients;
      }
      for (const CommunicatorReport& c : cluster_.at(p).status.ranks.communicators) {
        if (again && c.counts.applied <= applied[c.rank] && settings_.method != "relaysgd_async")
          complain("rank " + std::to_string(c.rank) + " exchanges nothing");
        applied[c.rank] = c.counts.applied;
      }
    }
  };
  look(false);
  const double round_s = cluster_.at(0).device ? 40 : 10;  // for a round; its parts are late there
  cluster_.run(cluster_.now() + (pairwise() ? 40 * settings_.gradient_s : round_s));
  look(true);
}

/// By all ranks, as far as their nodes have told.
uint64_t Scenario::gradients_taken() {
  ask_all();
  uint64_t sum = 0;
  for (int p = 0; p < cluster_.count(); ++p)
    for (const WorkerReport& w : cluster_.at(p).status.ranks.workers)
      sum += w.gradients;
  return sum;
}

void Scenario::finish() {
  if (!by_share_) cluster_.ask(someone(), ConsoleVerb::stop);
  const auto over = [&] {
    for (int p = 0; p < cluster_.count(); ++p)
      if (cluster_.at(p).alive && !cluster_.at(p).ending) return false;
    return true;
  };
  const auto wait = [&] {
    const double until = cluster_.now() + kEnd_s;
    while (!over() && cluster_.now() < until)
      cluster_.run(cluster_.now() + 1);
  };
  wait();
  for (uint64_t before = 0; by_share_ && !over(); wait()) {  // as long as a share takes
    const uint64_t taken = gradients_taken();
    if (taken <= before) break;
    before = taken;
  }
  for (int p = 0; p < cluster_.count(); ++p)
    if (cluster_.at(p).alive && !cluster_.at(p).ending)
      complain(cluster_.at(p).name + " does not come to its end");
  cluster_.run(cluster_.now() + 1);
}

void Scenario::check_ends() {
  check_means();
  check_edges();
  if (gentle_ && broken_ > 0)
    complain(std::to_string(broken_) + " exchanges broke in a gentle run");
  if (complaint_.empty()) check_sums();
  if (complaint_.empty()) check_mass();
}

void Scenario::check_means() {
  const SimulatedCluster::Process* first = nullptr;
  for (int p = 0; p < cluster_.count(); ++p) {
    const auto& node = cluster_.at(p);
    if (!node.ending || node.leaving) continue;
    if (node.ending->failure) return complain(node.name + ": " + node.ending->failure->message);
    if (!node.ending->mean) return complain(node.name + " has no mean");
    if (first == nullptr) first = &node;
    const std::string pair = first->name + " and " + node.name + ": ";
    if (!node.ending->missing.empty())
      return complain(node.name + " has nothing of " + node.ending->missing.front());
    if (node.ending->mean->ranks != first->ending->mean->ranks)
      complain(pair + "means of " + std::to_string(first->ending->mean->ranks) + " and " +
               std::to_string(node.ending->mean->ranks) + " ranks");
    if (node.ending->mean->hash != first->ending->mean->hash) complain(pair + "two means");
  }
}

/// Of the ranks whose node has told its state, in which incarnation that node is: in the first its
/// ranks have been its own from the beginning, and were nobody else's before.
std::map<int, uint32_t> Scenario::incarnations() {
  std::map<int, uint32_t> all;
  for (int p = 0; p < cluster_.count(); ++p) {
    const auto& node = cluster_.at(p);
    if (!node.outcome || node.status_at_s < 0) continue;
    for (const Member& m : node.status.members) {
      if (m.node != node.name) continue;
      for (const CommunicatorReport& c : node.outcome->communicators)
        all[c.rank] = m.incarnation;
    }
  }
  return all;
}

/// Of each edge both ends have applied the same exchanges, but for those that are counted as
/// broken: wherever both ends are who they were in the beginning, whatever became of others.
void Scenario::check_edges() {
  std::map<std::pair<int, int>, uint64_t> applied;
  std::map<int, uint64_t> broken;
  for (int p = 0; p < cluster_.count(); ++p) {
    const auto& node = cluster_.at(p);
    for (const CommunicatorReport& c : node.last_words.communicators)
      broken_ += c.counts.broken_before + c.counts.broken_after;
    if (!node.outcome) continue;
    for (const CommunicatorReport& c : node.outcome->communicators) {
      if (c.counts.protocol_errors > 0)
        complain("rank " + std::to_string(c.rank) + " counts protocol errors");
      broken[c.rank] = c.counts.broken_before + c.counts.broken_after;
      broken_ += broken[c.rank];
      if (pairwise() && !c.quiet) complain("rank " + std::to_string(c.rank) + " is not quiet");
      for (const EdgeCount& e : c.edges)
        applied[{c.rank, e.peer}] = e.applied;
    }
  }
  if (!pairwise()) return;
  const std::map<int, uint32_t> incarnation = incarnations();
  const auto is_first = [&](int rank) {
    const auto found = incarnation.find(rank);
    return found != incarnation.end() && found->second == 1;
  };
  for (const auto& [edge, count] : applied) {
    const auto [i, j] = edge;
    if (!is_first(i) || !is_first(j)) continue;
    ++edges_checked_;
    const auto other = applied.find({j, i});
    const uint64_t there = other == applied.end() ? 0 : other->second;
    if (count > there + broken[i] + broken[j])
      complain("of the exchanges of ranks " + std::to_string(i) + " and " + std::to_string(j) +
               " one end has applied " + std::to_string(count) + ", the other " +
               std::to_string(there));
  }
}

/// If no exchange broke, gossip kept the sum: the final x + x~ of all ranks, also of those that
/// died or left, is the sum of their starts and of the steps that they took.
void Scenario::check_sums() {
  if (!pairwise() || broken_ > 0) return;
  Account all;
  for (int p = 0; p < cluster_.count(); ++p)
    cluster_.add_up(p, settings_, all);
  if (!all.unseen.empty()) return complain(all.unseen);
  if (!somebody_came_ && all.ranks != settings_.ranks)
    return complain(std::to_string(all.ranks) + " ranks at the end");
  sums_checked_ = true;
  if (!(all.is_off() <= 1e-11))
    complain(fmt::format("the sum of x + x~ is off by {:.3g} of itself", all.is_off()));
}

/// Push-sum: the weights of all, with those that ranks had when they left, add up to the number of
/// ranks; and a leaver has said what went with it.
void Scenario::check_mass() {
  if (settings_.method != "sgp" || somebody_came_ || somebody_died_) return;
  double mass = 0;
  for (int p = 0; p < cluster_.count(); ++p) {
    const auto& node = cluster_.at(p);
    if (!node.outcome) continue;
    double own = 0;
    for (const RankParameters& r : node.outcome->parameters)
      own += r.counts.push_weight;
    mass += own;
    const double lost = node.ending ? node.ending->mass_lost : 0;
    if (node.leaving && lost != own)
      return complain(
          fmt::format("{} has left with push-sum's weight {} and says {}", node.name, own, lost));
  }
  mass_checked_ = true;
  if (!(std::abs(mass - settings_.ranks) <= 1e-9 * settings_.ranks))
    complain("the weights of push-sum add up to " + std::to_string(mass) + " of " +
             std::to_string(settings_.ranks));
}

}  // namespace grapevine::test
