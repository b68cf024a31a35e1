#include "actors/conversations/collective.hpp"

#include <algorithm>
#include <utility>

#include "kernels/base/check.hpp"

namespace grapevine {

namespace {
constexpr int kRoundLate = 0, kTakeAgain = 1;  // timers
constexpr uint64_t kRoundsAhead = 1;           // rounds that a neighbour may be ahead of this rank
constexpr double kSlowestAsk = 4;              // between two requests, in units of the patience
}  // namespace

void Collective::view(double now, const View& view, Effects& out) {
  if (view.epoch == view_.epoch) return;
  view_ = view;
  n_ = static_cast<int>(view.ring.size());
  for (int k = 0; k < n_; ++k) {
    if (view.ring[static_cast<size_t>(k)].peer != options_.rank) continue;
    place_ = k;
    left_ = view.ring[static_cast<size_t>((k + n_ - 1) % n_)].peer;
    right_ = view.ring[static_cast<size_t>((k + 1) % n_)].peer;
  }
  ++views_;
  round_ = 0;
  gone_from_ = kNone;
  meetings_ = view.epoch == 1 ? 0 : options_.vectors;  // in the first epoch all ranks begin alike
  running_ = false;
  untaken_ = 0;
  again_.clear();
  arrived_.clear();
  sent_.clear();
  begin(now, out);
}

int Collective::vector() const {
  return round_ < static_cast<uint64_t>(meetings_) ? static_cast<int>(round_) + 1 : 0;
}

uint64_t Collective::ticket(int part) const {
  return views_ << 48 | (round_ * 2 * static_cast<uint64_t>(n_) + static_cast<uint64_t>(part));
}

Collective::Chunk Collective::chunk(int index) const {
  const auto n = static_cast<size_t>(n_);
  const auto k = static_cast<size_t>(((index % n_) + n_) % n_);
  const size_t first = options_.size * k / n;
  return {first, options_.size * (k + 1) / n - first};
}

Collective::Chunk Collective::received_chunk(int part) const {
  return part < n_ - 1 ? chunk(place_ - part - 1) : chunk(place_ - (part - (n_ - 1)));
}

Collective::Chunk Collective::sent_chunk(int part) const {
  return part < n_ - 1 ? chunk(place_ - part) : chunk(place_ + 1 - (part - (n_ - 1)));
}

void Collective::send(int to, FrameKind kind, uint64_t round, int part, const Payload& payload,
                      Effects& out) {
  Endpoint there{to, 0};
  for (const EdgeView& e : view_.ring)
    if (e.peer == to) there.incarnation = e.peer_incarnation;
  FrameHeader h = header_of(kind, {options_.rank, view_.incarnation}, there, view_.epoch, round);
  if (kind == FrameKind::decline) h.reason = DeclineReason::gone;
  h.part = static_cast<uint32_t>(part);
  h.dtype = options_.dtype;
  if (kind == FrameKind::chunk) h.count = sent_chunk(part).count;
  out.sends.push_back({h, payload});
}

void Collective::send_part(uint64_t round, int part, Payload payload, Effects& out) {
  send(right_, FrameKind::chunk, round, part, payload, out);
  sent_[{round, part}] = std::move(payload);
  if (sent_.size() > static_cast<size_t>(n_)) sent_.erase(sent_.begin());
}

void Collective::take(int part, Effects& out) {
  const Chunk where = sent_chunk(part);
  out.requests.push_back(Take{ticket(part), {}, where.offset, where.count});
}

void Collective::step_ready(double now, Messages, Effects& out) {
  GV_CHECK(!gradient_in_);
  gradient_in_ = true;
  begin(now, out);
}

void Collective::begin(double now, Effects& out) {
  if (n_ == 0 || running_ || (vector() == 0 && !gradient_in_)) return;
  running_ = true;
  next_part_ = 0;
  counts_.opened += vector() == 0;
  Apply apply;
  apply.operation = Apply::Operation::begin;
  apply.vector = vector();
  apply.contributions = n_;
  out.requests.push_back(apply);
  if (n_ == 1) return finish(now, 1, out);
  untaken_ = 1;
  again_.clear();
  take(0, out);
  wait(now, patience(), out);
  advance(now, out);
}

void Collective::taken(double now, uint64_t ticket, Payload payload, const Limits&, Effects& out) {
  if (ticket >> 48 != views_) return;  // of a dropped round
  const uint64_t place = ticket & ((uint64_t{1} << 48) - 1);
  const auto per_round = 2 * static_cast<uint64_t>(n_);
  const uint64_t round = place / per_round;
  const int part = static_cast<int>(place % per_round);
  const bool awaited = running_ && round == round_;
  if (!payload) {
    if (!awaited) return;
    again_.push_back(part);
    return out.arms.push_back({kTakeAgain, now + options_.patience_s});
  }
  send_part(round, part, std::move(payload), out);
  if (!awaited) return;
  --untaken_;
  if (next_part_ == parts()) advance(now, out);
}

void Collective::advance(double now, Effects& out) {
  while (running_ && next_part_ < parts()) {
    auto found = arrived_.find({round_, next_part_});
    if (found == arrived_.end()) return;
    const int part = next_part_++;
    const Chunk where = received_chunk(part);
    const bool adds = part < n_ - 1;
    Apply apply;
    apply.operation = adds ? Apply::Operation::add : Apply::Operation::assign;
    apply.received = found->second;
    apply.offset = where.offset;
    apply.count = where.count;
    out.requests.push_back(apply);
    if (part + 1 < parts()) {
      if (adds) {
        ++untaken_;
        take(part + 1, out);
      } else {
        send_part(round_, part + 1, found->second, out);
      }
    }
    arrived_.erase(found);
    wait(now, patience(), out);
  }
  // Data that is still to be taken must not change.
  if (running_ && untaken_ == 0) finish(now, n_, out);
}

void Collective::finish(double now, int contributions, Effects& out) {
  Apply apply;
  apply.operation = Apply::Operation::finish;
  apply.vector = vector();
  apply.contributions = contributions;
  out.requests.push_back(apply);
  out.arms.push_back({kRoundLate, kNever});
  if (vector() == 0) {
    gradient_in_ = false;
    ++counts_.applied;
    applied_at_ = now;
  }
  running_ = false;
  ++round_;
  arrived_.erase(arrived_.begin(), arrived_.lower_bound({round_, 0}));
  begin(now, out);
}

// If a part did not arrive, all later parts are usually lost too: one request brings them all.
void Collective::answer(const FrameHeader& m, Effects& out) {
  const int part = static_cast<int>(m.part);
  auto found = sent_.find({m.number, part});
  if (found != sent_.end()) {
    for (; found != sent_.end(); ++found)
      send(right_, FrameKind::chunk, found->first.first, found->first.second, found->second, out);
  } else if (m.number >= gone_from_ || (draining_ && !running_ && m.number >= round_)) {
    send(right_, FrameKind::decline, m.number, part, {}, out);
  }
}

void Collective::frame(double now, const FrameHeader& m, const Payload& payload, Effects& out) {
  // Of another epoch: theirs is over, or ours has not begun yet and we request what we missed.
  if (m.epoch != view_.epoch || m.to_incarnation != view_.incarnation) return;
  if (m.kind == FrameKind::ask && static_cast<int>(m.from) == right_) return answer(m, out);
  if (m.kind == FrameKind::decline && static_cast<int>(m.from) == left_) {
    if (!running_ || m.number != round_ || vector() != 0) return;
    gone_from_ = std::min(gone_from_, round_);  // a rank that waits for this one is told the same
    return finish(now, 0, out);
  }
  const bool expected = m.kind == FrameKind::chunk && static_cast<int>(m.from) == left_ && n_ > 0 &&
                        m.part < static_cast<uint32_t>(parts()) && m.dtype == options_.dtype &&
                        m.count == received_chunk(static_cast<int>(m.part)).count &&
                        (payload || m.count == 0);
  if (!expected) return void(++counts_.protocol_errors);
  if (m.number > round_ + kRoundsAhead) return void(++counts_.lost);
  const bool old = m.number < round_ ||
                   (m.number == round_ && running_ && static_cast<int>(m.part) < next_part_);
  if (old || !arrived_.emplace(std::pair{m.number, static_cast<int>(m.part)}, payload).second) {
    ++counts_.repeated;
    return;
  }
  advance(now, out);
}

void Collective::drain(double now, Effects& out) {
  draining_ = true;
  const bool waits = running_ && next_part_ < parts();
  if (waits && patience() < options_.patience_s) wait(now, patience(), out);
}

void Collective::wait(double now, double patience_s, Effects& out) {
  patience_s_ = patience_s;
  out.arms.push_back({kRoundLate, now + patience_s});
}

void Collective::timer(double now, int id, Effects& out) {
  if (id == kTakeAgain) {
    for (const int part : std::exchange(again_, {}))
      take(part, out);
    return;
  }
  if (!running_ || next_part_ >= parts()) return;
  send(left_, FrameKind::ask, round_, next_part_, {}, out);
  if (patience_s_ > patience()) out.suspects.push_back(left_);
  wait(now, std::min(2 * patience_s_, kSlowestAsk * patience()), out);
}

std::vector<EdgeCount> Collective::edge_counts() const {
  return {{right_, counts_.applied, applied_at_, true}};
}

}  // namespace grapevine
