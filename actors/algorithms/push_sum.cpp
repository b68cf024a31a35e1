#include "actors/algorithms/push_sum.hpp"

#include <cmath>
#include <limits>

namespace grapevine {

double PushSum::weight_of(const Payload& payload) const {
  if (!payload || payload.count != size() + 1 || payload.dtype != dtype()) return 0;
  const double weight = number_at(execution_, payload.vec(), size());
  return weight > 0 ? weight : 0;
}

double PushSum::distance(size_t edge, const Payload& payload) {
  const double weight = weight_of(payload);
  if (weight == 0) return std::numeric_limits<double>::quiet_NaN();
  const ConstVec sent = payload.vec().part(0, size());
  const double squares = dot(execution_, sent, sent, edge) / (weight * weight) -
                         2 * dot(execution_, sent, x_, edge) / weight + dot(execution_, x_, x_);
  return std::sqrt(squares < 0 ? 0 : squares);  // below 0 by rounding alone
}

void PushSum::reset(double now, ConstVec x) {
  RoundRule::reset(now, x);
  w_ = 1;
  left_w_ = 0;
  written_ = false;
}

// What is handed on under another number still has its weight; who copies a model has one of its
// own.
RuleState PushSum::state(double now) {
  if (handed_over_.size() == 0) handed_over_ = Buffer(execution_, size(), dtype());
  RuleState state = RoundRule::state(now);
  state.add("handed over", handed_over_, Follows::rank);
  state.add("w", w_, Follows::rank);
  state.add("weight handed over", left_w_, Follows::rank);
  return state;
}

void PushSum::add_conserved(double, Vec sum) {
  Buffer x(execution_, size(), dtype());
  scale(execution_, w_, x_, x);
  if (left_w_ > 0) axpy(execution_, left_w_, handed_over_, x);
  accumulate(execution_, x, sum);
}

void PushSum::inherit(ConstVec x, double weight) {
  if (x.size != size() || x.dtype != dtype() || !(weight > 0)) return;
  if (handed_over_.size() == 0) handed_over_ = Buffer(execution_, size(), dtype());
  left_w_ += weight;
  const double share = weight / left_w_;
  scale(execution_, 1 - share, handed_over_, handed_over_);
  axpy(execution_, share, x, handed_over_);
  if (!written_) take_in_handed_over();  // else half of what is here is on its way already
}

void PushSum::take_in_handed_over() {
  if (left_w_ == 0) return;
  w_ += left_w_;
  const double share = left_w_ / w_;
  scale(execution_, 1 - share, x_, x_);
  axpy(execution_, share, handed_over_, x_);
  left_w_ = 0;
}

void PushSum::write(int, size_t, Payload& out) {
  written_ = true;
  const Vec message = out.writable(dtype(), size() + 1);
  scale(execution_, w_ / 2, x_, message.part(0, size()));
  fill(execution_, w_ / 2, message.part(size(), 1));
}

void PushSum::combine(double, int, std::span<const Received> in) {
  written_ = false;
  if (near_.ranks == 1) return take_in_handed_over();  // nothing was sent
  const double own = w_ / 2;
  double w = own;
  terms_.assign(1, {own, x_});
  for (const Received& received : in) {
    const Payload& payload = received.payload;
    const double weight = weight_of(payload);
    if (weight == 0) {
      terms_[0].a += own;
      w += own;
    } else {
      terms_.push_back({received.share, payload.vec().part(0, size())});
      terms_[0].a += weight * (1 - received.share);
      w += weight;
    }
  }
  for (Term& term : terms_)
    term.a /= w;
  grapevine::combine(execution_, terms_, x_);
  w_ = w;
  take_in_handed_over();
}

}  // namespace grapevine
