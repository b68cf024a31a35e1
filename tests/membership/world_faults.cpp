// The faults of a World, and the checks of its state.
#include <algorithm>
#include <limits>
#include <utility>

#include "tests/membership/world.hpp"

namespace grapevine::test {

// --- faults

void World::kill(int node) {
  Node& n = nodes_[index(node)];
  n.alive = n.stopped = false;
  n.waiting.clear();
  ++n.process;
  for (int other = 0; other < count(); ++other)
    unlink(node, other);
}

void World::slow(int node, double most_s, bool late_timers) {
  nodes_[index(node)].slow_s = most_s;
  nodes_[index(node)].late_timers = late_timers;
}

void World::stop(int node) { nodes_[index(node)].stopped = true; }

void World::go_on(int node) {
  Node& n = nodes_[index(node)];
  n.stopped = false;
  for (const auto& event : std::exchange(n.waiting, {}))
    event();
}

void World::restart(int node, bool keeps_key) {
  Node& n = nodes_[index(node)];
  if (n.alive) kill(node);
  ++n.process;
  n.alive = true;
  n.has_left = false;
  n.counter = 0;
  MembershipOptions options;
  options.seed = settings_.seed + n.process;
  options.topology = settings_.topology;
  for (int other = 0; other < count(); ++other) {
    if (other != node && nodes_[index(other)].alive) options.join.push_back(address(other));
  }
  Member self = n.membership->self();
  self.incarnation = 1;
  self.refutations = 0;
  self.state = MemberState::alive;
  self.means_asked = 0;
  self.stops = false;
  self.gone.clear();
  self.mean = {};
  self.unreachable.clear();
  self.life = n.process;
  if (!keeps_key) n.key = n.process;
  n.owners.clear();
  options.signing = signing_of(key(node));
  n.membership = std::make_unique<Membership>(self, options);
  n.timer_queued = n.timer_at = std::numeric_limits<double>::infinity();
  post(now_, node, [this](Membership& m, MembershipEffects& out) { m.start(now_, out); });
}

int World::join(int through) {
  settings_.acquainted = false;
  std::vector<std::string> addresses{address(through)};
  for (int other = 0; other < count(); ++other)
    addresses.push_back(address(other));
  add_node(addresses);
  return count() - 1;
}

void World::leave(int node) {
  nodes_[index(node)].has_left = true;
  act(node, [this](Membership& m, MembershipEffects& out) { m.leave(now_, out); });
  post(now_ + 0.1, node, [this, node](Membership&, MembershipEffects& out) {
    out.timer_at = std::numeric_limits<double>::infinity();
    kill(node);
  });
}

void World::partition(const std::set<int>& half) {
  for (int node = 0; node < count(); ++node)
    nodes_[index(node)].side = half.count(node) != 0;
}

void World::cut(int from, int to) { cuts_.insert({from, to}); }

void World::heal() {
  cuts_.clear();
  partition({});
}

// --- what is so

MemberState World::state_of(int node, int as_seen_by) const {
  const auto& table = at(as_seen_by).table();
  const auto member = table.find(name(node));
  return member ? table.at(*member).state : MemberState::left;
}

int World::accusations() const {
  int sum = 0;
  for (const Node& n : nodes_)
    sum += n.accusations;
  return sum;
}

int World::links_of(int node) const {
  const auto& links = nodes_[index(node)].links;
  return static_cast<int>(std::count(links.begin(), links.end(), true));
}

std::string World::view_difference() const {
  int first = 0;
  while (first < count() && !running(first))
    ++first;
  for (int j = 0; j < count(); ++j) {
    const MemberState state = j == first ? MemberState::alive : state_of(j, first);
    if (running(j) != (state == MemberState::alive)) {
      return name(first) + ": " + name(j) + " is in state " +
             std::to_string(static_cast<int>(state));
    }
  }
  uint32_t end = 0, ranks = 0, expected = 0;
  for (const Member& m : at(first).graph()) {
    if (m.first_rank < end) return "rank " + std::to_string(m.first_rank) + " twice";
    end = m.first_rank + m.ranks;
    ranks += m.ranks;
  }
  for (int i = 0; i < count(); ++i)
    expected += running(i) ? kRanks : 0;
  if (ranks != expected) return "the graph has " + std::to_string(ranks) + " ranks";
  for (int i = first + 1; i < count(); ++i) {
    if (!running(i)) continue;
    const std::string pair = name(i) + " and " + name(first) + ": ";
    if (at(i).epoch() != at(first).epoch()) return pair + "two epochs";
    if (at(i).table().digest() != at(first).table().digest()) return pair + "two views";
    for (int j = 0; j < count(); ++j) {
      if (!running(j) || i == j) continue;
      if (!at(i).needs_link(now_, name(j))) continue;
      const bool linked = at(i).linked(name(j)) && nodes_[index(i)].links[index(j)];
      if (!linked) return name(i) + ": no link to " + name(j);
    }
  }
  return "";
}

bool World::one_view() const { return view_difference().empty(); }

bool World::all_see(int node, MemberState state) const {
  for (int other = 0; other < count(); ++other) {
    if (other != node && running(other) && state_of(node, other) != state) return false;
  }
  return true;
}

}  // namespace grapevine::test
