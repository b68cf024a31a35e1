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
  return std::sqrt(squares < 0 ? 0 : squares);  // negative only by rounding
}

void PushSum::reset(double now, ConstVec x) {
  RoundRule::reset(now, x);
  w_ = 1;
}

// A state that continues under another number keeps its weight. A copy of a model starts with a
// weight of 1.
RuleState PushSum::state(double now) {
  RuleState state = RoundRule::state(now);
  state.add("w", w_, Follows::rank);
  return state;
}

void PushSum::add_conserved(double, Vec sum) {
  Buffer x(execution_, size(), dtype());
  scale(execution_, w_, x_, x);
  accumulate(execution_, x, sum);
}

void PushSum::write(int, size_t, Payload& out) {
  const Vec message = out.writable(dtype(), size() + 1);
  scale(execution_, w_ / 2, x_, message.part(0, size()));
  fill(execution_, w_ / 2, message.part(size(), 1));
}

void PushSum::combine(double, int, std::span<const Received> in) {
  if (near_.ranks == 1) return;  // no rank has sent
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
}

}  // namespace grapevine
