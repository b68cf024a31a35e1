#include "actors/algorithms/gossip.hpp"

#include <cmath>
#include <limits>

namespace grapevine {

void Gossip::enter(const Neighbourhood& near) {
  std::vector<Received> kept(near.neighbours.size());
  for (size_t k = 0; k < kept.size(); ++k)
    for (size_t old = 0; old < last_.size(); ++old)
      if (near_.neighbours[old].rank == near.neighbours[k].rank) kept[k] = last_[old];
  near_ = near;
  last_ = std::move(kept);
}

void Gossip::average(const Execution& execution, std::span<const Received> in, size_t offset,
                     Vec x) {
  GV_CHECK(in.size() == near_.neighbours.size());
  double own = 1 - gamma_ * (1 - near_.self_weight);
  double received = own;
  terms_.assign(1, {own, x});
  for (size_t k = 0; k < in.size(); ++k) {
    const double weight = gamma_ * near_.neighbours[k].weight;
    const bool came =
        in[k] && in[k].payload.dtype == x.dtype && in[k].payload.count >= offset + x.size;
    has_missed_ = has_missed_ || !came;
    const bool reused = !came && missing_ == Missing::reuse && last_[k];
    if (came || reused) {
      const Received& message = came ? in[k] : last_[k];
      terms_.push_back({weight * message.share, message.payload.vec().part(offset, x.size)});
      terms_[0].a += weight * (1 - message.share);
      received += weight;
    } else if (missing_ != Missing::shrink && missing_ != Missing::renormalise) {
      terms_[0].a += weight;
      received += weight;
    }
  }
  if (missing_ == Missing::renormalise)
    for (Term& term : terms_)
      term.a /= received;
  combine(execution, terms_, x);
  if (missing_ != Missing::reuse) return;
  for (size_t k = 0; k < in.size(); ++k)
    if (in[k]) last_[k] = in[k];
}

void GossipRule::enter(const Neighbourhood& near) {
  RoundRule::enter(near);
  gossip_.enter(near);
}

double GossipRule::distance(size_t, const Payload& payload) {
  if (payload.dtype != dtype() || payload.count * size_of(dtype()) != message_bytes())
    return std::numeric_limits<double>::quiet_NaN();
  const ConstVec own = sent_ ? sent_.vec() : ConstVec(x_.vec());
  return std::sqrt(square_distance(execution_, payload.vec().part(0, size()), own.part(0, size())));
}

void GossipRule::write(int, size_t, Payload& out) {
  scale(execution_, 1, x_, out.writable(dtype(), size()));
  sent_ = out;
}

}  // namespace grapevine
