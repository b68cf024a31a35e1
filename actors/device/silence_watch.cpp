#include "actors/device/silence_watch.hpp"

#include <algorithm>

namespace grapevine {

SilenceWatch::Expected SilenceWatch::expect(Kind kind) {
  forget_what_came();
  auto it = std::make_shared<const Kind>(kind);
  expected_.push_back({it, kind});
  return it;
}

bool SilenceWatch::expects() const {
  return std::any_of(expected_.begin(), expected_.end(),
                     [](const One& one) { return !one.it.expired(); });
}

// The duration is known to about a second.
void SilenceWatch::forget_what_came() {
  std::erase_if(expected_, [this](const One& one) {
    if (!one.it.expired()) return false;
    double& longest_s = longest_s_[static_cast<size_t>(one.kind)];
    longest_s = std::max(longest_s, one.since_s < 0 ? 0 : now_s_ - one.since_s);
    return true;
  });
}

double SilenceWatch::limit_s(Kind kind) const {
  const double longest_s = longest_s_[static_cast<size_t>(kind)];
  return patience_.least_s +
         patience_.times * (longest_s < 0 ? patience_.first_gradient_s : longest_s);
}

bool SilenceWatch::is_silent(double now_s) {
  now_s_ = now_s;
  forget_what_came();
  bool silent = false;
  for (One& one : expected_) {
    if (one.since_s < 0) one.since_s = now_s;
    silent = silent || now_s - one.since_s > limit_s(one.kind);
  }
  return silent;
}

}  // namespace grapevine
