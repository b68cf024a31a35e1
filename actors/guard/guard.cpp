#include "actors/guard/guard.hpp"

#include <algorithm>
#include <cmath>

namespace grapevine {

namespace {

constexpr double kGrowth = 1 + 1.0 / 64;  // of the usual norm, at an own part that is far

bool precedes(const Guard::Edge& known, int peer) { return known.peer < peer; }

}  // namespace

Limits smaller(const Limits& a, const Limits& b) {
  return {std::min(a.bound, b.bound), std::min(a.allowance, b.allowance)};
}

// --- the rank's own steps

void Guard::learn(double length) {
  ++count_;
  const double weight = 1 / static_cast<double>(std::min(count_, kRemembered));
  rms_ = std::sqrt((1 - weight) * rms_ * rms_ + weight * length * length);
  usual_ = std::max(rms_, kFade * usual_);
}

void Guard::refill() {
  const auto back = static_cast<float>(kRefill / degree_);
  for (Edge& e : edges_)
    e.used = std::max(0.0F, e.used - back);
}

void Guard::stepped(double length) {
  if (!std::isfinite(length)) return;
  learn(length);
  way_ += length;
  refill();
}

double Guard::usual_step() const {
  return count_ < kRemembered ? std::max(usual_, static_cast<double>(inherited_)) : usual_;
}

// --- edges

const Guard::Edge* Guard::find(int peer) const {
  const auto at = std::lower_bound(edges_.begin(), edges_.end(), peer, precedes);
  return at != edges_.end() && at->peer == peer ? &*at : nullptr;
}

Guard::Edge& Guard::at(int peer) {
  const auto at = std::lower_bound(edges_.begin(), edges_.end(), peer, precedes);
  if (at != edges_.end() && at->peer == peer) return *at;
  return *edges_.insert(at, Edge{.peer = peer});
}

Limits Guard::limits(int peer, double ranks) const {
  const double usual = usual_step();
  if (!steps_ || (usual == 0 && count_ > 0)) return {};
  const Edge* const edge = find(peer);
  const double used = edge != nullptr ? static_cast<double>(edge->used) : 0;
  return {static_cast<float>(ranks * kNear * ((kApart + ranks - 1) * usual + way_)),
          static_cast<float>(usual * (kAllowance - used))};
}

Guard::Judgement Guard::judge(int peer, double distance, const Limits& own, const Limits& theirs) {
  const double usual = usual_step();
  Edge& edge = at(peer);
  edge.distance = usual > 0 ? static_cast<float>(distance / usual) : 0;
  const auto bound = static_cast<double>(theirs.bound);
  edge.peer_distance = bound > 0 ? static_cast<float>(distance * kNear * kApart / bound) : 0;
  if (!std::isfinite(distance)) {
    edge.verdict = Verdict::not_finite;
    return {edge.verdict, 0};
  }
  way_ = 0;
  const Limits limits = smaller(own, theirs);
  if (distance <= static_cast<double>(limits.bound)) {
    edge.verdict = Verdict::near;
    return {edge.verdict, 1};
  }
  if (limits.bound == 0.0F) {
    edge.verdict = Verdict::untested;
    return {edge.verdict, 0};
  }
  edge.verdict = Verdict::far;
  const double share = std::clamp(static_cast<double>(limits.allowance) / distance, 0.0, 1.0);
  if (usual == 0) return {edge.verdict, share};  // the other end's limits count
  const double used = static_cast<double>(edge.used) + share * distance / usual;
  edge.used = static_cast<float>(std::min(kAllowance, used));
  return {edge.verdict, share};
}

Guard::Judgement Guard::judge_own(double norm) {
  way_ = 0;
  const bool first = usual_step() == 0;
  const Judgement judged = judge(kAll, norm, first ? Limits{} : limits(kAll), {});
  if (judged.verdict == Verdict::not_finite) return judged;
  if (judged.verdict == Verdict::far) {
    usual_ *= kGrowth;
    rms_ *= kGrowth;
  } else {
    learn(norm);
  }
  refill();
  return judged;
}

// --- lives

void Guard::inherit(double usual) { inherited_ = static_cast<float>(usual); }

GuardRecord Guard::record() const {
  GuardRecord record{rms_, usual_, way_, static_cast<double>(inherited_), count_, {}};
  for (const Edge& e : edges_)
    if (e.used > 0) record.used.emplace_back(e.peer, static_cast<double>(e.used));
  return record;
}

void Guard::recall(const GuardRecord& r) {
  rms_ = r.rms;
  usual_ = r.usual;
  way_ = r.way;
  inherit(r.inherited);
  count_ = r.steps;
  for (const auto& [peer, used] : r.used)
    at(peer).used = static_cast<float>(used);
}

}  // namespace grapevine
