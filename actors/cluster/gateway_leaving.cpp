// What leaving means: the mean that changes, the push-sum mass that is handed over, and the nodes
// that have gone.
#include <cmath>

#include "actors/algorithms/method_registry.hpp"
#include "actors/cluster/gateway.hpp"
#include "kernels/ops.hpp"

namespace grapevine {

namespace {

constexpr double kPoll_s = 1;        // at the means of the others, by a node that leaves
constexpr double kHandOver_s = 2;    // until the heir has said that it has all
constexpr double kFarewell_s = 0.1;  // for the news that this node leaves
constexpr uint64_t kHandOver = 1;    // its number: a node leaves once
constexpr size_t kDeparturesKept = 100, kInheritancesKept = 16;

bool serves(const Member& m, int rank) {
  return static_cast<uint32_t>(rank) - m.first_rank < m.ranks;
}

std::string short_number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", value);
  return text;
}

}  // namespace

// --- this node leaves, the others train on

void Gateway::leave() {
  if (leaving_ || phase_ > Phase::training) return;
  fetcher_.reset();
  leaving_ = true;
  const bool gives = method_named(deps_.settings->method).one_peer;  // push-sum
  const bool looks = phase_ == Phase::training && !snapshot_.then && !gives;
  phase_ = Phase::ending;
  const auto finish = [this] { send(parts_.node, Finish{}); };
  if (!looks) return finish();
  take_snapshot(kPoll_s, [this, finish] {
    tell_what_leaving_changes();
    finish();
  });
}

// With a of n ranks here, m their mean and M that of all: the others' mean is a (M - m) / (n - a)
// away from M.
void Gateway::tell_what_leaving_changes() {
  const auto& [own, here] = snapshot_.own;
  if (!own || snapshot_.shares.empty()) return;
  const auto [all, ranks] = together(*own, here, snapshot_.shares);
  Buffer difference(own->size(), own->dtype());
  scale({}, 1, *all, difference);
  axpy({}, -1, *own, difference);
  const double norm = std::sqrt(dot({}, difference, difference));
  record({membership_->self().node, true, here, ranks, deps_.clock.now(),
          norm * here / (ranks - here)});
}

// The others hear that this node leaves. The push-sum mass of the ranks here, and their weighted
// mean, go to one rank of the next node.
void Gateway::hand_over() {
  double weight = 0;
  for (const RankParameters& p : own_.parameters)
    weight += p.counts.push_weight;
  const Member self = membership_->self();
  std::optional<Member> heir;  // by rising first rank, from ours on
  for (const Member& m : membership_->graph()) {
    if (m.node == self.node || !membership_->linked(m.node)) continue;
    if (!heir || (heir->first_rank < self.first_rank && m.first_rank > self.first_rank)) heir = m;
  }
  const double now = deps_.clock.now();
  phase_ = Phase::left;
  deadline_s_ = now + kFarewell_s;
  if (weight > 0 && heir) {
    const DType dtype = deps_.shape.dtype;
    SnapshotPool pool(deps_.shape.count, dtype, 1);
    Payload payload{pool.take(), dtype, deps_.shape.count, 0};
    const Vec mean = payload.lease.writable();
    scale({}, 0, *own_.parameters.front().x, mean);
    for (const RankParameters& p : own_.parameters)
      axpy({}, p.counts.push_weight / weight, *p.x, mean);
    const Parcel mass{PushSumMass{kHandOver, heir->first_rank, weight}, dtype, deps_.shape.count};
    if (parts_.links->send_parcel(heir->node, mass, payload)) heir_ = heir->node;
    if (heir_.empty()) say("nobody takes over the push-sum mass of the ranks here");
    if (!heir_.empty()) deadline_s_ = now + kHandOver_s;
  }
  handle([&](Membership& m, MembershipEffects& out) { m.leave(now, out); });
}

// What was handed over from here has arrived.
void Gateway::on_receipt(const std::string& node, const MassReceipt& receipt) {
  if (heir_.empty() || node != heir_ || receipt.hand_over != kHandOver) return;
  heir_.clear();
  say(node + " has the push-sum mass of the ranks here");
  record({membership_->self().node, true, own_.ranks, graph_ranks_, deps_.clock.now(), 0});
  deadline_s_ = deps_.clock.now() + kFarewell_s;
  consider();
}

void Gateway::inherit(ParcelCame& came) {
  const auto& mass = std::get<PushSumMass>(came.parcel.what);
  const bool fits = came.payload.count == deps_.shape.count &&
                    came.payload.dtype == deps_.shape.dtype &&
                    serves(membership_->self(), static_cast<int>(mass.rank));
  if (phase_ != Phase::training || !fits || inheritances_.size() >= kInheritancesKept) return;
  parts_.links->send(came.node, MassReceipt{mass.hand_over});
  inheritances_.push_back(std::move(came));
  settle_inheritances();
}

// The news that a node leaves and what it hands over travel apart.
void Gateway::settle_inheritances() {
  std::erase_if(inheritances_, [this](ParcelCame& came) {
    for (const Member& m : membership_->members())
      if (m.node == came.node && !is_over(m)) return false;
    const auto& mass = std::get<PushSumMass>(came.parcel.what);
    const auto rank = static_cast<int>(mass.rank);
    const StateActor& state = parts_.states[static_cast<size_t>(rank) % parts_.states.size()];
    send(state, Inherit{rank, mass.weight, std::move(came.payload), roster_epoch_});
    say("rank " + std::to_string(rank) + " takes over the push-sum mass " +
        short_number(mass.weight) + " of " + came.node);
    return true;
  });
}

// --- others are gone

void Gateway::record(Departure d) {
  const std::string jump =
      std::isnan(d.mean_changed_by) ? "" : ", the mean moves by " + short_number(d.mean_changed_by);
  say(std::to_string(d.ranks) + " of " + std::to_string(d.of) + " ranks go with " + d.node + jump);
  auto& kept = told_.departures;
  if (kept.size() >= kDeparturesKept) kept.erase(kept.begin());
  kept.push_back(std::move(d));
}

void Gateway::departed(const std::string& node) {
  if (phase_ != Phase::training) return;
  for (const Member& m : membership_->members()) {
    if (m.node != node || m.ranks == 0 || m.first_rank == kAnyRank) continue;
    Departure d{node, m.state == MemberState::left, static_cast<int>(m.ranks), graph_ranks_,
                deps_.clock.now()};
    ask_states([this, m, d](const std::vector<StateReport>& states) mutable {
      double squares = 0, mass = 0;
      int edges = 0;
      for (const StateReport& state : states) {
        for (const EdgeDistance& e : state.distances)
          if (serves(m, e.peer)) squares += e.distance * e.distance, ++edges;
        for (const auto& [rank, counts] : state.counts)
          mass += counts.push_weight;
      }
      if (edges > 0) d.mean_changed_by = std::sqrt(squares / edges) * d.ranks / d.of;
      if (mass > 0 && d.polite) d.mean_changed_by = 0;
      record(std::move(d));
    });
  }
}

void Gateway::ask_states(std::function<void(std::vector<StateReport>)> then) {
  struct All {
    std::vector<StateReport> reports;
    size_t awaited = 0;
  };
  auto all = std::make_shared<All>();
  all->awaited = parts_.states.size();
  const auto one_less = [all, then = std::move(then)] {
    if (--all->awaited == 0) then(std::move(all->reports));
  };
  for (const StateActor& state : parts_.states) {
    request(state, caf::infinite, Report{})
        .then(
            [all, one_less](StateReport& report) {
              all->reports.push_back(std::move(report));
              one_less();
            },
            [one_less](const caf::error&) { one_less(); });
  }
}

// The next of the ranks here: all of them are neighbours, or nearly.
int Gateway::donor_of(int rank) const {
  const Member& self = membership_->self();
  const uint32_t place = static_cast<uint32_t>(rank) - self.first_rank;
  return static_cast<int>(self.first_rank + (place + 1) % std::max(1u, self.ranks));
}

void Gateway::suspect(int rank) {
  if (!membership_) return;
  for (const Member& m : membership_->members()) {
    if (is_over(m) || !serves(m, rank) || m.node == membership_->self().node) continue;
    ++told_.suspects;
    return handle([&](Membership& membership, MembershipEffects& out) {
      membership.suspect(deps_.clock.now(), m.node, out);
    });
  }
}

}  // namespace grapevine
