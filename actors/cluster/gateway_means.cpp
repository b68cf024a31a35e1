// The means of nodes: what a Gateway trades at the end of a run, and what a snapshot is made of.
#include <cstring>

#include "actors/cluster/gateway.hpp"
#include "actors/run/run.hpp"
#include "kernels/ops.hpp"

namespace grapevine {

namespace {

constexpr double kSnapshot_s = 5;    // that a snapshot waits for other nodes
constexpr double kAskAgain_s = 0.5;  // for a mean that has not come

std::shared_ptr<const Buffer> shared_mean(ConstVec sum, double n, DType dtype) {
  return std::make_shared<const Buffer>(mean_of(sum, n, dtype));
}

}  // namespace

// What Finish asked for has happened here: the mean goes to all.
void Gateway::trade() {
  if (leaving_) return hand_over();
  phase_ = Phase::trading;
  deadline_s_ = deps_.clock.now() + deps_.patience_s;
  ask_means_at_s_ = deps_.clock.now() + kAskAgain_s;
  if (!own_.mean) return;
  for (const Member& m : membership_->members())
    if (m.node != membership_->self().node && !is_over(m))
      send_mean(m, kFinal, *own_.mean, own_.ranks);
}

// Whether there are any to come. A mean may get lost: it is asked for again.
bool Gateway::awaits_means(double now) {
  bool any = false;
  const bool asks = now >= ask_means_at_s_;
  for (const Member& m : membership_->members()) {
    const bool awaited = m.node != membership_->self().node && m.ranks > 0 && m.ready &&
                         shares_.count(m.node) == 0 && m.state != MemberState::dead &&
                         membership_->linked(m.node);
    any |= awaited;
    if (awaited && asks)
      parts_.links->send(m.node, FetchState{FetchState::What::node_sum, kFinal, 0, {}});
  }
  if (asks) ask_means_at_s_ = now + kAskAgain_s;
  return any;
}

void Gateway::conclude() {
  if (!deps_.done) return;
  if (!heir_.empty())
    say(heir_ + " has not confirmed the push-sum mass of the ranks here: it may be lost");
  GatewayDependencies::Ending ending;
  ending.departures = told_.departures;
  if (own_.mean) {
    if (leaving_) shares_.clear();
    ending.nodes = 1 + static_cast<int>(shares_.size());
    std::tie(ending.mean, ending.ranks) = together(*own_.mean, own_.ranks, shares_);
  }
  std::exchange(deps_.done, {})(std::move(ending));
}

Gateway::Mean Gateway::together(const Buffer& own, int ranks,
                                const std::map<std::string, Share>& others) const {
  const Buffer zero(own.size(), DType::f64);
  Buffer part(own.size(), DType::f64), sum(own.size(), DType::f64);
  int all = 0;
  auto add = [&](ConstVec mean, int count) {
    if (mean.size != own.size()) return;
    scale({}, 0, part, part);
    add_deviation({}, mean, zero, part);
    axpy({}, count, part, sum);
    all += count;
  };
  const std::string& self = membership_->self().node;
  const auto after = others.upper_bound(self);
  for (auto it = others.begin(); it != after; ++it)
    add(it->second.mean.vec(), it->second.ranks);
  add(own.vec(), ranks);
  for (auto it = after; it != others.end(); ++it)
    add(it->second.mean.vec(), it->second.ranks);
  return {shared_mean(sum.vec(), all, own.dtype()), all};
}

// Whole, to each node.
void Gateway::send_mean(const Member& to, uint64_t transfer, const Buffer& mean, int ranks) {
  SnapshotPool pool(mean.size(), mean.dtype(), 1);
  Payload payload{pool.take(), mean.dtype(), mean.size(), 0};
  scale({}, 1, mean.vec(), payload.lease.writable());
  const MeanPiece piece{MeanPiece::Way::down, transfer, 0, 0, static_cast<uint32_t>(ranks)};
  parts_.links->send_parcel(to.node, {piece, mean.dtype(), mean.size()}, payload);
}

template <class Then>
void Gateway::mean_here(Then then) {
  struct Sum {
    std::vector<double> values;
    int ranks = 0;
    size_t awaited = 0;
  };
  auto all = std::make_shared<Sum>();
  all->awaited = parts_.states.size();
  const auto zero = std::make_shared<const std::vector<double>>(deps_.shape.count, 0.0);
  for (const StateActor& state : parts_.states) {
    request(state, caf::infinite, Sample{zero}).then([this, all, then](const SampleReply& reply) {
      all->values.resize(deps_.shape.count);
      all->ranks += reply.ranks;
      for (size_t k = 0; reply.sum && k < deps_.shape.count; ++k)
        all->values[k] += (*reply.sum)[k];
      if (--all->awaited > 0 || all->ranks == 0) return;
      const ConstVec sum(all->values.data(), deps_.shape.count, DType::f64);
      then(shared_mean(sum, all->ranks, deps_.shape.dtype), all->ranks);
    });
  }
}

void Gateway::give_mean(const std::string& to, uint64_t transfer) {
  const auto give = [this, to, transfer](const std::shared_ptr<const Buffer>& mean, int ranks) {
    for (const Member& m : membership_->members())
      if (m.node == to) send_mean(m, transfer, *mean, ranks);
  };
  if (transfer != kFinal) return mean_here(give);
  if (own_.mean && !leaving_) give(own_.mean, own_.ranks);  // else it will be sent unasked
}

void Gateway::take_snapshot(double patience_s, std::function<void()> then) {
  snapshot_.then = std::move(then);
  snapshot_.deadline_s = deps_.clock.now() + patience_s;
  snapshot_.awaited = 1;  // the ranks here
  snapshot_.own = {};
  snapshot_.shares.clear();
  FetchState fetch{FetchState::What::node_sum, ++snapshot_.transfer, 0, {}};
  for (const Member& m : membership_->members())
    if (m.node != membership_->self().node && in_graph(m) && parts_.links->send(m.node, fetch))
      ++snapshot_.awaited;
  mean_here([this, number = snapshot_.transfer](const std::shared_ptr<const Buffer>& mean, int n) {
    if (number != snapshot_.transfer || !snapshot_.then) return;
    snapshot_.own = {mean, n};
    if (--snapshot_.awaited == 0) snapshot_done();
  });
}

void Gateway::snapshot_done() {
  if (snapshot_.then) std::exchange(snapshot_.then, {})();
}

void Gateway::snapshot(uint64_t console) {
  if (!deps_.render_snapshot)
    return reply(console, false, "the program that runs this node writes no snapshots");
  if (snapshot_.then) return reply(console, false, "another snapshot is being taken");
  take_snapshot(kSnapshot_s, [this, console] {
    const Mean& own = snapshot_.own;
    if (!own.first) return reply(console, false, "no ranks are here");
    const auto [mean, ranks] = together(*own.first, own.second, snapshot_.shares);
    reply(console, true, deps_.render_snapshot(*mean, ranks));
  });
}

}  // namespace grapevine
