#include "actors/algorithms/relay.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

namespace grapevine {

Relay::Relay(size_t size, DType dtype, bool reuses)
    : size_(size), dtype_(dtype), reuses_(reuses), spans_{{0, size}} {}

void Relay::enter(const Execution& execution, const Neighbourhood& near) {
  uint8_t all = 1;
  for (const auto& neighbour : near.neighbours)
    all |= neighbour.trees;
  const auto trees = static_cast<size_t>(std::bit_width(all));
  std::vector<Held> kept(near.neighbours.size());
  for (size_t k = 0; k < kept.size(); ++k) {
    for (size_t old = 0; old < held_.size(); ++old) {
      const bool same = near_[old].rank == near.neighbours[k].rank &&
                        near_[old].trees == near.neighbours[k].trees;
      if (same && trees == trees_) kept[k] = held_[old];
    }
  }
  near_ = near.neighbours;
  held_ = std::move(kept);
  terms_.reserve(near_.size() + 2);
  if (trees == trees_) return;
  trees_ = trees;
  spans_.clear();
  for (size_t tree = 0, offset = 0; tree < trees; offset += spans_[tree++].size)
    spans_.push_back({offset, (size_ + trees - 1 - tree) / trees});
  parts_ = trees > 1 ? Buffer(execution, size_, dtype_) : Buffer();
  other_ = trees > 1 ? Buffer(execution, part_size(0), dtype_) : Buffer();
}

void Relay::forget() {
  for (Held& held : held_)
    held = {};
}

void Relay::say(const Execution& execution, ConstVec y) {
  y_ = y;
  for (size_t tree = 0; trees_ > 1 && tree < trees_; ++tree)
    gather(execution, y, tree, trees_, parts_.vec().part(spans_[tree].offset, spans_[tree].size));
}

ConstVec Relay::part(size_t tree) const {
  return trees_ == 1 ? y_ : ConstVec(parts_.vec().part(spans_[tree].offset, spans_[tree].size));
}

size_t Relay::place(size_t edge, size_t tree) const {
  size_t offset = 0;
  for (size_t k = 0; k < tree; ++k)
    offset += carries(edge, k) ? part_size(k) + 1 : 0;
  return offset;
}

ConstVec Relay::held_part(size_t edge, size_t tree) const {
  return held_[edge].payload.vec().part(place(edge, tree), part_size(tree));
}

double Relay::count_in(const Execution& execution, size_t edge, size_t tree,
                       const Payload& message) const {
  return number_at(execution, message.vec(), place(edge, tree) + part_size(tree));
}

void Relay::write(const Execution& execution, size_t edge, Payload& out) {
  const Vec message = out.writable(dtype_, message_size(edge));
  for (size_t tree = 0; tree < trees_; ++tree) {
    if (!carries(edge, tree)) continue;
    double count = 1;
    terms_.assign(1, {1, part(tree)});
    for (size_t k = 0; k < near_.size(); ++k) {
      if (k == edge || !held_[k] || !carries(k, tree)) continue;
      terms_.push_back({held_[k].share, held_part(k, tree)});
      count += held_[k].counts[tree];
    }
    combine(execution, terms_, message.part(place(edge, tree), part_size(tree)));
    fill(execution, count, message.part(place(edge, tree) + part_size(tree), 1));
  }
}

double Relay::distance(const Execution& execution, size_t edge, const Payload& m,
                       double own) const {
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  if (m.count != message_size(edge) || m.dtype != dtype_) return kNone;
  double squares = 0;
  for (size_t tree = 0; tree < trees_; ++tree) {
    if (!carries(edge, tree)) continue;
    const ConstVec sum = m.vec().part(place(edge, tree), part_size(tree));
    const double count = count_in(execution, edge, tree, m);
    if (!(count > 0)) return kNone;
    const ConstVec y = part(tree);
    squares += dot(execution, sum, sum);
    if (own != 0)
      squares += own * count * (own * count * dot(execution, y, y) - 2 * dot(execution, sum, y));
  }
  return std::sqrt(squares < 0 ? 0 : squares);  // negative only by rounding
}

double Relay::ranks_in(const Execution& execution, size_t edge, const Payload& m) const {
  double most = 1;
  if (m.count != message_size(edge) || m.dtype != dtype_) return most;
  for (size_t tree = 0; tree < trees_; ++tree)
    if (carries(edge, tree)) most = std::max(most, count_in(execution, edge, tree, m));
  return most;
}

void Relay::receive(const Execution& execution, std::span<const Received> in) {
  GV_CHECK(in.size() == near_.size());
  for (size_t k = 0; k < in.size(); ++k) {
    const Payload& message = in[k].payload;
    const bool ours =
        in[k] && in[k].share > 0 && message.count == message_size(k) && message.dtype == dtype_;
    Held last = std::exchange(held_[k], ours ? Held{message, in[k].share} : Held{});
    for (size_t tree = 0; held_[k] && tree < trees_; ++tree) {
      if (!carries(k, tree)) continue;
      const double count = count_in(execution, k, tree, message);
      held_[k].counts[tree] = in[k].share * count;
      if (!(count > 0)) held_[k] = {};
    }
    if (!held_[k] && reuses_) held_[k] = std::move(last);
  }
}

double Relay::count(size_t tree) const {
  double count = 1;
  for (size_t k = 0; k < near_.size(); ++k)
    if (held_[k] && carries(k, tree)) count += held_[k].counts[tree];
  return count;
}

void Relay::sum(const Execution& execution, size_t tree, double own, double received, double rest,
                ConstVec other, Vec out) {
  terms_.assign(1, {own, part(tree)});
  for (size_t k = 0; k < near_.size(); ++k)
    if (held_[k] && carries(k, tree))
      terms_.push_back({received * held_[k].share, held_part(k, tree)});
  if (trees_ == 1) {
    if (other && rest != 0) terms_.push_back({rest, other});
    return combine(execution, terms_, out);
  }
  const Vec target = parts_.vec().part(spans_[tree].offset, spans_[tree].size);
  if (other && rest != 0) {
    const Vec same = other_.vec().part(0, part_size(tree));
    gather(execution, other, tree, trees_, same);
    terms_.push_back({rest, same});
  }
  combine(execution, terms_, target);
  scatter(execution, target, tree, trees_, out);
}

// --- the rules

RelayRule::RelayRule(const RuleContext& context, bool reuses)
    : RoundRule(context), relay_(size(), dtype(), reuses) {}

void RelayRule::reset(double now, ConstVec x) {
  RoundRule::reset(now, x);
  relay_.forget();
  say();
  count_ = 1;
}

void RelayRule::enter(const Neighbourhood& near) {
  RoundRule::enter(near);
  relay_.enter(execution_, near);
  say();
}

void RelayRule::write(int, size_t edge, Payload& out) { relay_.write(execution_, edge, out); }

double RelayRule::distance(size_t edge, const Payload& message) {
  return relay_.distance(execution_, edge, message, 1);
}

double RelayRule::ranks_in(size_t edge, const Payload& message) {
  return relay_.ranks_in(execution_, edge, message);
}

void RelayRule::combine(double, int, std::span<const Received> in) {
  relay_.receive(execution_, in);
  count_ = relay_.count(0);
  for (size_t tree = 0; tree < relay_.trees(); ++tree) {
    count_ = std::min(count_, relay_.count(tree));
    take_in(tree);
  }
}

}  // namespace grapevine
