#include "actors/guard/guard.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace grapevine {

namespace {

constexpr uint16_t kFading = 1024;           // steps after a comparison, in which usual_e fades
constexpr double kFade = 1 - 1.0 / kFading;  // of usual, per step
constexpr double kGrowth = 1 + 1.0 / 64;     // of the usual norm, by an own part that is far

bool precedes(const Guard::Edge& known, int peer) { return known.peer < peer; }

}  // namespace

Limits smaller(const Limits& a, const Limits& b) {
  return {std::min(a.bound, b.bound), std::min(a.allowance, b.allowance)};
}

// --- the rank's own steps

void Guard::learn(double length) {
  count_ = static_cast<uint8_t>(std::min(count_ + 1U, kRemembered));
  const double weight = 1.0 / count_;
  rms_ = std::sqrt((1 - weight) * rms_ * rms_ + weight * length * length);
  largest_ = std::max(largest_, static_cast<float>(rms_));
  const double least = std::max(rms_, kRounding * static_cast<double>(largest_));
  usual_ = std::max(least, kFade * usual_);
  for (Edge& e : edges_) {
    const double fade = e.fading > 0 ? kFade : 1;
    if (e.fading > 0) --e.fading;
    e.usual = static_cast<float>(std::max(least, fade * static_cast<double>(e.usual)));
  }
}

void Guard::refill() {
  const auto is_far = [](const Edge& e) { return e.peer >= 0 && e.verdict == Verdict::far; };
  const auto far = static_cast<uint32_t>(std::count_if(edges_.begin(), edges_.end(), is_far));
  const double of_peers = 2 * far > degree_ ? kApartRefill : kRefill;
  for (Edge& e : edges_) {
    const double back = (is_far(e) ? of_peers : kRefill) / degree_;
    e.used = std::max(0.0F, e.used - static_cast<float>(back));
  }
}

void Guard::stepped(double length) {
  if (!std::isfinite(length)) return;
  learn(length);
  path_ += length;
  way_ += static_cast<float>(length);
  refill();
}

double Guard::usual_step() const {
  return count_ < kRemembered ? std::max(usual_, static_cast<double>(inherited_)) : usual_;
}

double GuardRecord::usual_step() const {
  return steps < Guard::kRemembered ? std::max(usual, inherited) : usual;
}

double Guard::usual_step(const Edge* edge) const {
  const double usual = usual_step();
  return edge != nullptr ? std::max(usual, static_cast<double>(edge->usual)) : usual;
}

double Guard::reach() const {
  const double usual = usual_step();
  if (!steps_ || usual == 0) return std::numeric_limits<double>::infinity();
  return kReach * (kAllowance * usual + path_);
}

// --- edges

std::optional<double> Guard::apart_by() const {
  int edges = 0, longer = 0;  // > 0: own steps are longer on more edges
  double nearest = std::numeric_limits<double>::infinity();
  for (const Edge& e : edges_) {
    if (!e.is_met) continue;
    const auto own = static_cast<double>(e.distance), theirs = static_cast<double>(e.peer_distance);
    if (e.verdict != Verdict::far || std::max(own, theirs) <= kOutOfMean) return std::nullopt;
    ++edges;
    longer += kLonger * own < theirs ? 1 : kLonger * theirs < own ? -1 : 0;
    nearest = std::min(nearest, theirs);
  }
  const bool is_own_doing = edges == 1 ? longer > 0 : edges > 1 && longer >= 0;
  return is_own_doing ? std::optional(nearest) : std::nullopt;
}

void Guard::meet(std::span<const int> peers) {
  constexpr size_t kMost = std::numeric_limits<uint16_t>::max();
  degree_ = static_cast<uint16_t>(std::clamp<size_t>(peers.size(), 1, kMost));
  for (Edge& e : edges_)
    e.is_met = false;
  for (const int peer : peers)
    at(peer).is_met = true;
}

const Guard::Edge* Guard::find(int peer) const {
  const auto at = std::lower_bound(edges_.begin(), edges_.end(), peer, precedes);
  return at != edges_.end() && at->peer == peer ? &*at : nullptr;
}

Guard::Edge& Guard::at(int peer) {
  const auto at = std::lower_bound(edges_.begin(), edges_.end(), peer, precedes);
  if (at != edges_.end() && at->peer == peer) return *at;
  return *edges_.insert(
      at,
      Edge{.peer = peer, .path = static_cast<float>(path_), .usual = static_cast<float>(usual_)});
}

Limits Guard::limits(int peer, double ranks) const {
  const Edge* const edge = find(peer);
  const double usual = usual_step(edge);
  if (!steps_ || (usual == 0 && count_ > 0)) return {};
  const double used = edge != nullptr ? static_cast<double>(edge->used) : 0;
  const double of_edge = edge != nullptr ? path_ - static_cast<double>(edge->path) : 0;
  const double way = std::max(static_cast<double>(way_), of_edge / degree_);
  return {static_cast<float>(ranks * kNear * ((kApart + ranks - 1) * usual + way)),
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
  const Limits limits = smaller(own, theirs);
  const bool untested = limits.bound == 0.0F && distance > 0;
  has_compared_ |= !untested;
  if (!untested) {
    edge.path = static_cast<float>(path_);
    edge.fading = kFading;
  }
  if (distance <= static_cast<double>(limits.bound)) {
    edge.verdict = Verdict::near;
    return {edge.verdict, 1};
  }
  if (untested) {
    edge.verdict = Verdict::untested;
    return {edge.verdict, 0};
  }
  edge.verdict = Verdict::far;
  const double share = std::clamp(static_cast<double>(limits.allowance) / distance, 0.0, 1.0);
  const double unit = usual_step(&edge);
  if (unit == 0) return {edge.verdict, share};  // the other end's limits apply
  const double used = static_cast<double>(edge.used) + share * distance / unit;
  edge.used = static_cast<float>(std::min(kAllowance, used));
  return {edge.verdict, share};
}

void Guard::end_exchange() {
  if (has_compared_) way_ = 0;
  has_compared_ = false;
}

Guard::Judgement Guard::judge_own(double norm) {
  Edge& all = at(kAll);
  all.path = static_cast<float>(path_);  // way = 0
  way_ = 0;
  const bool first = usual_step() == 0;
  const Judgement judged = judge(kAll, norm, first ? Limits{} : limits(kAll), {});
  if (judged.verdict == Verdict::not_finite) return judged;
  if (judged.verdict == Verdict::far) {
    usual_ *= kGrowth;
    rms_ *= kGrowth;
    all.usual *= static_cast<float>(kGrowth);
  } else {
    learn(norm);
  }
  refill();
  return judged;
}

// --- lives

void Guard::inherit(double usual) {
  inherited_ = static_cast<float>(usual);
  largest_ = std::max(largest_, inherited_);
}

GuardRecord Guard::record() const {
  GuardRecord record{.rms = rms_,
                     .usual = usual_,
                     .way = static_cast<double>(way_),
                     .inherited = static_cast<double>(inherited_),
                     .largest = static_cast<double>(largest_),
                     .steps = count_,
                     .used = {}};
  for (const Edge& e : edges_) {
    record.longest = std::max(record.longest, path_ - static_cast<double>(e.path));
    if (e.used > 0) record.used.emplace_back(e.peer, static_cast<double>(e.used));
  }
  return record;
}

void Guard::recall(const GuardRecord& r) {
  rms_ = r.rms;
  usual_ = r.usual;
  way_ = static_cast<float>(r.way);
  path_ = r.longest;  // edges count from 0
  inherit(r.inherited);
  largest_ = static_cast<float>(r.largest);
  count_ = static_cast<uint8_t>(std::min(r.steps, kRemembered));
  for (Edge& e : edges_) {
    e.path = 0;
    e.usual = static_cast<float>(usual_);
  }
  for (const auto& [peer, used] : r.used) {
    Edge& edge = at(peer);
    edge.path = 0;
    edge.used = static_cast<float>(used);
  }
}

}  // namespace grapevine
