#include "actors/conversations/collective.hpp"

#include <utility>

#include "kernels/check.hpp"

namespace grapevine {

namespace {
constexpr int kLate = 0;  // the only timer
}

void Collective::view(double now, const View& view, Effects& out) {
  if (view_.epoch != 0) return;  // the members of the first view stay
  view_ = view;
  n_ = static_cast<int>(view.ring.size());
  for (int k = 0; k < n_; ++k) {
    if (view.ring[static_cast<size_t>(k)].peer != options_.rank) continue;
    place_ = k;
    left_ = view.ring[static_cast<size_t>((k + n_ - 1) % n_)].peer;
    right_ = view.ring[static_cast<size_t>((k + 1) % n_)].peer;
  }
  if (std::exchange(early_, false)) step_ready(now, {}, out);
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

void Collective::send(int to, FrameKind kind, uint64_t round, int part, const Payload& payload,
                      Effects& out) {
  FrameHeader h;
  h.kind = kind;
  h.from = static_cast<uint32_t>(options_.rank);
  h.to = static_cast<uint32_t>(to);
  h.from_incarnation = h.to_incarnation = view_.incarnation;
  h.epoch = view_.epoch;
  h.number = round;
  h.part = static_cast<uint32_t>(part);
  h.dtype = options_.dtype;
  if (kind == FrameKind::chunk) {
    h.count = (part < n_ - 1 ? chunk(place_ - part) : chunk(place_ + 1 - (part - (n_ - 1)))).count;
  }
  out.sends.push_back({h, payload});
}

void Collective::send_part(uint64_t round, int part, Payload payload, Effects& out) {
  send(right_, FrameKind::chunk, round, part, payload, out);
  sent_[{round, part}] = std::move(payload);
}

void Collective::step_ready(double now, Messages, Effects& out) {
  GV_CHECK(!active_);
  if (n_ == 0) return void(early_ = true);
  active_ = true;
  next_part_ = 0;
  ++counts_.opened;
  if (n_ == 1) return advance(now, out);
  const Chunk first = chunk(place_);
  out.requests.push_back(
      Take{round_ * 2 * static_cast<uint64_t>(n_), {}, first.offset, first.count});
  wait(now, options_.patience_s, out);
  advance(now, out);
}

void Collective::taken(double, uint64_t ticket, Payload payload, Effects& out) {
  GV_CHECK(static_cast<bool>(payload));
  const auto per_round = 2 * static_cast<uint64_t>(n_);
  send_part(ticket / per_round, static_cast<int>(ticket % per_round), std::move(payload), out);
}

void Collective::advance(double now, Effects& out) {
  while (active_ && next_part_ < parts()) {
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
        const auto ticket =
            round_ * 2 * static_cast<uint64_t>(n_) + static_cast<uint64_t>(part + 1);
        out.requests.push_back(Take{ticket, {}, where.offset, where.count});
      } else {
        send_part(round_, part + 1, found->second, out);
      }
    }
    arrived_.erase(found);
    wait(now, options_.patience_s, out);
  }
  if (!active_) return;
  active_ = false;
  Apply finish;
  finish.operation = Apply::Operation::finish;
  finish.contributions = n_;
  out.requests.push_back(finish);
  out.arms.push_back({kLate, kNever});
  ++counts_.applied;
  ++round_;
  if (round_ >= 2) sent_.erase(sent_.begin(), sent_.lower_bound({round_ - 1, 0}));
}

void Collective::frame(double now, const FrameHeader& m, const Payload& payload, Effects& out) {
  if (n_ == 0) return;  // a neighbour that has its view already; we ask for what we missed
  if (m.kind == FrameKind::ask) {
    auto found = sent_.find({m.number, static_cast<int>(m.part)});
    if (found != sent_.end())
      send(right_, FrameKind::chunk, m.number, static_cast<int>(m.part), found->second, out);
    return;
  }
  const bool expected = m.kind == FrameKind::chunk && static_cast<int>(m.from) == left_ &&
                        static_cast<int>(m.part) < parts() && m.dtype == options_.dtype &&
                        m.count == received_chunk(static_cast<int>(m.part)).count;
  if (!expected) return void(++counts_.protocol_errors);
  const bool old =
      m.number < round_ || (m.number == round_ && active_ && static_cast<int>(m.part) < next_part_);
  if (old || !arrived_.emplace(std::pair{m.number, static_cast<int>(m.part)}, payload).second) {
    ++counts_.repeated;
    return;
  }
  advance(now, out);
}

void Collective::wait(double now, double patience_s, Effects& out) {
  patience_s_ = patience_s;
  out.arms.push_back({kLate, now + patience_s});
}

void Collective::timer(double now, int, Effects& out) {
  if (!active_ || next_part_ >= parts()) return;
  send(left_, FrameKind::ask, round_, next_part_, {}, out);
  wait(now, 2 * patience_s_, out);
}

std::vector<EdgeCount> Collective::edge_counts() const { return {{right_, counts_.applied}}; }

}  // namespace grapevine
