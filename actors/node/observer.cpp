#include "actors/node/observer.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace grapevine {

Observer::Observer(caf::actor_config& config, ObserverDependencies deps)
    : ObserverActor::base(config),
      deps_(std::move(deps)),
      reference_(std::make_shared<const std::vector<double>>(deps_.size, 0.0)),
      told_before_(deps_.counters->gradients.load()) {}

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
  const uint64_t told =
      s.gradients - std::min(s.gradients, deps_.counters->silent.load(std::memory_order_relaxed));
  s.loss = told > told_before_ ? (loss - loss_before_) / static_cast<double>(told - told_before_)
                               : std::numeric_limits<double>::quiet_NaN();
  s.learning_rate = deps_.counters->learning_rate.load(std::memory_order_relaxed);
  told_before_ = told;
  loss_before_ = loss;
  if (deps_.sink.on_sample) deps_.sink.on_sample(s);
  watch(s);
  if (deps_.on_ranks && deps_.ranks > 0) read_ranks(std::move(s));
}

void Observer::read_ranks(RunSample sample) {
  awaited_ = static_cast<size_t>(deps_.ranks);
  read_.assign(awaited_, nullptr);
  const auto told = std::make_shared<const RunSample>(std::move(sample));
  const auto take = [this, told](const RankParameters& rank) {
    read_[static_cast<size_t>(rank.rank)] = rank.x;
    if (--awaited_ == 0) deps_.on_ranks(*told, std::exchange(read_, {}));
  };
  for (int rank = 0; rank < deps_.ranks; ++rank)
    request(deps_.states.front(), caf::infinite, ReadRank{rank})
        .then(take, [take, rank](const caf::error&) {
          take({rank, {}, nullptr});
        });
}

// --- alarms

bool DivergenceWatch::sees(double distance, double moved) {
  if (!std::isfinite(distance) || !std::isfinite(moved)) return true;
  if (++seen_ <= kFirst) scale_ = std::max(scale_, distance);
  growths_ = distance > before_ ? growths_ + 1 : 0;
  before_ = distance;
  const double scale = std::max(scale_, moved);
  return growths_ >= kGrowths && is_far(distance, scale);
}

void Observer::watch(const RunSample& s) {
  if (first_mean_.empty()) first_mean_ = *s.mean;
  double moved = 0;
  for (size_t k = 0; k < first_mean_.size(); ++k) {
    const double d = (*s.mean)[k] - first_mean_[k];
    moved += d * d;
  }
  if (!diverged_ && watch_.sees(s.consensus_distance, moved)) {
    diverged_ = true;
    Alarm alarm = deps_.divergence;
    alarm.at_s = s.at_s;
    alarm.is = "the ranks drift apart without end";
    deps_.sink.raise(alarm);
  }
  watch_skips(s.at_s);
}

void Observer::watch_skips(double now) {
  const uint64_t skips = deps_.counters->skipped.load(std::memory_order_relaxed);
  if (std::exchange(skips_before_, skips) == skips) return;
  const uint64_t edge = deps_.counters->skipped_last.load(std::memory_order_relaxed);
  if (std::find(left_out_.begin(), left_out_.end(), edge) != left_out_.end()) return;
  left_out_.push_back(edge);
  Alarm alarm;
  alarm.what = Alarm::What::left_out;
  alarm.rank = static_cast<int>(edge >> 32);
  alarm.peer = static_cast<int>(static_cast<int32_t>(edge));
  alarm.at_s = now;
  if (alarm.peer == alarm.rank) {
    alarm.is = "what it computes itself is left out";
  } else if (alarm.peer < 0) {
    alarm.is = "what came from the others is left out";
  } else {
    alarm.is = "what rank " + std::to_string(alarm.peer) + " sends is left out";
  }
  alarm.reason = "it is not finite, or a hundred times as far off as it was";
  alarm.advice = "look at the learning rate and the data there";
  deps_.sink.raise(alarm);
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
