// The checks of Gossip: requests, frames and offers against the promises of a conversation.
#include <cmath>

#include "kernels/base/check.hpp"
#include "tests/conversations/harness.hpp"

namespace grapevine::test {

namespace {

constexpr double kRounding = 1e-11;

bool opens(const Effects& effects) {
  for (const auto& request : effects.requests)
    if (std::holds_alternative<Take>(request)) return true;
  return false;
}

std::string rank_name(int rank) { return "rank " + std::to_string(rank); }

}  // namespace

// --- what the state does

void Gossip::request(int rank, const std::variant<Take, Write, Apply>& request) {
  Node& node = member(rank);
  if (const Apply* apply = std::get_if<Apply>(&request)) {
    if (apply->operation == Apply::Operation::missing) return;
    --node.open;
    const auto sent = snapshots_.find(apply->sent.vec().data);
    const auto received = snapshots_.find(apply->received.vec().data);
    GV_CHECK((sent != snapshots_.end() && received != snapshots_.end()));
    const Way way = sent->second.first;
    const uint64_t number = sent->second.second;
    complain(received->second.first != way.back() || received->second.second != number,
             rank_name(rank) + " applied a snapshot of another exchange");
    complain(applied_[way] + 1 != number, rank_name(rank) + " applied number " +
                                              std::to_string(number) + " after " +
                                              std::to_string(applied_[way]));
    applied_[way] = number;
  } else {
    most_open_ = std::max(most_open_, ++node.open);
  }
  node.served_at = std::max(node.served_at, now_ + settings_.state_s * random_.uniform());
  schedule(node.served_at, [this, rank, born = node.incarnation, rule = node.rule, request] {
    if (const Take* take = std::get_if<Take>(&request)) {
      serve(rank, born, *take);
    } else {
      serve(*rule, std::get<Apply>(request));  // also when its communicator has died meanwhile
    }
  });
}

void Gossip::serve(int rank, uint32_t incarnation, const Take& take) {
  Node& node = member(rank);
  if (!node.alive || node.incarnation != incarnation) return;
  Payload payload;
  if (random_.uniform() >= settings_.empty_pool) payload.lease = node.pool->take();
  if (payload) node.rule->snapshot(now_, take.exchange, {}, payload);
  if (!payload) --node.open;
  Effects effects;
  node.conversation->taken(now_, take.ticket, std::move(payload), Limits{}, effects);
  carry_out(rank, nullptr, effects);
}

void Gossip::serve(PairwiseRule& rule, const Apply& apply) {
  const auto [sent, number] = snapshots_.at(apply.sent.vec().data);
  const Numbers before = conserved(rule);
  rule.jump(now_, apply.exchange, apply.sent, apply.received, apply.alpha_tilde, 1);
  const Numbers after = conserved(rule);
  Jump jump{{}, apply.alpha_tilde, sent};
  for (size_t k = 0; k < before.size(); ++k)
    jump.change[k] = after[k] - before[k];
  const Way way = sent.from < sent.to ? sent : sent.back();
  const auto [other, first] = half_applied_.try_emplace({way, number}, jump);
  if (first) return;
  for (size_t k = 0; k < before.size(); ++k)
    complain(std::abs(jump.change[k] + other->second.change[k]) > kRounding,
             "two jumps of an exchange do not cancel");
  complain(jump.alpha_tilde != other->second.alpha_tilde,
           "the ends of an exchange used two constants");
  half_applied_.erase(other);
  ++exchanges_;
}

Numbers Gossip::conserved(PairwiseRule& rule) const {
  Numbers sum{};
  rule.add_conserved(now_, {sum.data(), sum.size(), DType::f64});
  return sum;
}

Numbers Gossip::x(int rank) {
  Numbers out;
  member(rank).rule->read(now_, {out.data(), out.size(), DType::f64});
  return out;
}

// --- frames and offers

// A frame says what is so: number k is under way only when both ends have applied k-1, and an ack
// that its sender has applied k. So nobody has left an exchange that the other end still needs.
void Gossip::watch_frame(const FrameHeader& h) {
  const Way way = way_of(h);
  const uint64_t mine = applied_[way], theirs = applied_[way.back()];
  const uint64_t least = h.kind == FrameKind::ack ? h.number : h.number - 1;
  complain(h.kind != FrameKind::decline && (mine < least || theirs + 1 < h.number),
           rank_name(way.from) + " sent kind " + std::to_string(static_cast<int>(h.kind)) +
               " of number " + std::to_string(h.number) + " when the ends had applied " +
               std::to_string(mine) + " and " + std::to_string(theirs));
}

void Gossip::end_offer(Node& node) {
  longest_offer_s_ = std::max(longest_offer_s_, now_ - node.offer->since_s);
  node.offer.reset();
}

// An own offer ends when its peer opens the exchange or declines this attempt, and lapses when it
// is repeated. Only then may another one leave.
void Gossip::watch_offers(int rank, const FrameHeader* cause, const Effects& effects) {
  Node& node = member(rank);
  const auto end_if_answered = [&] {
    if (!node.offer || cause == nullptr) return;
    if (static_cast<int>(cause->from) != node.offer->peer) return;
    const bool no = cause->kind == FrameKind::decline && cause->part == node.offer->attempt;
    if (no || opens(effects)) end_offer(node);
  };
  end_if_answered();
  const auto is_repeat = [&](const FrameHeader& h) {
    return node.offer && static_cast<int>(h.to) == node.offer->peer &&
           h.part == node.offer->attempt;
  };
  for (const Send& s : effects.sends)
    if (s.header.kind == FrameKind::offer && is_repeat(s.header)) end_offer(node);
  for (const Send& s : effects.sends) {
    const FrameHeader& h = s.header;
    const auto edge = std::pair{rank, static_cast<int>(h.to)};
    if (h.kind != FrameKind::offer || h.part <= attempts_[edge]) continue;  // a repeat
    attempts_[edge] = h.part;
    complain(node.offer.has_value(), rank_name(rank) + " has two offers that have not lapsed");
    node.offer = Offer{edge.second, h.part, now_};
    end_if_answered();  // the frame that finished k, and so let us offer k+1, may ask for k+1
                        // itself
  }
}

// --- the run as a whole

double Gossip::sum_error() const {
  Numbers sum{};
  const auto add = [&](PairwiseRule& rule) {
    const Numbers y = conserved(rule);
    for (size_t k = 0; k < y.size(); ++k)
      sum[k] += y[k];
  };
  for (const Node& node : nodes_)
    add(*node.rule);
  for (const auto& rule : graves_)
    add(*rule);
  for (const auto& [exchange, jump] : half_applied_)
    for (size_t k = 0; k < sum.size(); ++k)
      sum[k] -= jump.change[k];
  double error = 0;
  for (size_t k = 0; k < sum.size(); ++k)
    error = std::max(error, std::abs(sum[k] - expected_[k]));
  return error;
}

double Gossip::spread() {
  Numbers mean{};
  double squares = 0, living = 0;
  for (int rank = 0; rank < settings_.ranks; ++rank) {
    if (!member(rank).alive) continue;
    const Numbers values = x(rank);
    for (size_t k = 0; k < values.size(); ++k) {
      mean[k] += values[k];
      squares += values[k] * values[k];
    }
    ++living;
  }
  for (const double total : mean)
    squares -= total * total / living;
  return squares;
}

size_t Gossip::half_applied_here() const {
  size_t count = 0;
  for (const auto& [exchange, jump] : half_applied_) {
    const Node& end = member(jump.way.from);
    count += end.alive && end.incarnation == jump.way.from_incarnation;
  }
  return count;
}

Counts Gossip::counts() const {
  Counts sum;
  for (const Node& node : nodes_) {
    if (!node.alive) continue;
    const Counts& c = node.conversation->counts();
    sum.opened += c.opened;
    sum.applied += c.applied;
    sum.declined += c.declined;
    sum.repeated += c.repeated;
    sum.broken_before += c.broken_before;
    sum.broken_after += c.broken_after;
    sum.protocol_errors += c.protocol_errors;
    sum.longest_offer_s = std::max(sum.longest_offer_s, c.longest_offer_s);
  }
  return sum;
}

}  // namespace grapevine::test
