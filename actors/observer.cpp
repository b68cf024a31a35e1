#include "actors/observer.hpp"

#include <limits>

namespace grapevine {

Observer::Observer(caf::actor_config& config, ObserverDependencies deps)
    : ObserverActor::base(config),
      deps_(std::move(deps)),
      reference_(std::make_shared<const std::vector<double>>(deps_.size, 0.0)) {}

void Observer::sample() {
  if (awaited_ > 0) return;
  sum_.assign(deps_.size, 0);
  squares_ = 0;
  ranks_ = 0;
  awaited_ = deps_.states.size();
  for (const StateActor& state : deps_.states) {
    request(state, caf::infinite, Sample{reference_})
        .then([this](const SampleReply& reply) { add(reply); },
              [this](const caf::error&) { add({}); });
  }
}

void Observer::add(const SampleReply& reply) {
  ranks_ += reply.ranks;
  squares_ += reply.squares;
  if (reply.sum)
    for (size_t k = 0; k < sum_.size(); ++k)
      sum_[k] += (*reply.sum)[k];
  if (--awaited_ == 0) conclude();
}

// With d_i = x_i - reference:  1/n sum |x_i - mean|^2 = 1/n sum |d_i|^2 - |1/n sum d_i|^2.
void Observer::conclude() {
  if (ranks_ == 0) return;
  RunSample s;
  s.at_s = deps_.clock.now();
  s.ranks = ranks_;
  auto mean = std::make_shared<std::vector<double>>(*reference_);
  double shift = 0;
  for (size_t k = 0; k < sum_.size(); ++k) {
    const double d = sum_[k] / ranks_;
    shift += d * d;
    (*mean)[k] += d;
  }
  s.mean = reference_ = std::move(mean);
  s.consensus_distance = std::max(0.0, squares_ / ranks_ - shift);
  s.gradients = deps_.counters->gradients.load(std::memory_order_relaxed);
  s.exchanges = deps_.counters->applied_ends.load(std::memory_order_relaxed) / 2;
  s.bytes = deps_.counters->bytes.load(std::memory_order_relaxed);
  const double loss = deps_.counters->loss_sum.load(std::memory_order_relaxed);
  s.loss = s.gradients > gradients_before_
               ? (loss - loss_before_) / static_cast<double>(s.gradients - gradients_before_)
               : std::numeric_limits<double>::quiet_NaN();
  gradients_before_ = s.gradients;
  loss_before_ = loss;
  if (deps_.sink.on_sample) deps_.sink.on_sample(s);
}

Observer::behavior_type Observer::make_behavior() {
  return {
      [this](Tick tick) {
        sample();
        if (tick.id != kSamplePeriod || deps_.period_s <= 0) return;
        const double next = deps_.clock.now() + deps_.period_s;
        scheduled_send(caf::actor_cast<ObserverActor>(this), deps_.clock.instant(next), tick);
      },
      [this](const EpochInfo& info) {
        if (deps_.sink.on_epoch) deps_.sink.on_epoch(info);
      },
  };
}

void Observer::on_exit() {
  deps_.states.clear();
  deps_.sink = {};
}

}  // namespace grapevine
