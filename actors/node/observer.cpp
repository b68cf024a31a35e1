#include "actors/node/observer.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "actors/guard/guard.hpp"
#include "kernels/base/cores.hpp"

namespace grapevine {

namespace {

Alarm alarm_of(const FarEdge& e) {
  Alarm alarm;
  alarm.what = Alarm::What::far_edge;
  const bool first = e.peer < 0 || e.rank < e.peer;
  alarm.rank = first ? e.rank : e.peer;
  alarm.peer = first ? e.peer : e.rank;
  alarm.reason = "one of the two diverges, sends wrong values, or was away for long";
  alarm.advice = "compare the learning rates and the data of both";
  if (e.is_apart) {
    alarm.reason = "it diverges, or was away for long";
    alarm.is = fmt::format(
        "it is far from all its neighbours, {:.3g} of their usual steps from the nearest; it is in "
        "no mean until it is near one of them",
        e.steps);
  } else if (e.peer == e.rank) {
    alarm.is = fmt::format("its gradient is {:.3g} times its usual gradient", e.steps);
    alarm.reason = "it diverges, or has a batch unlike the others";
    alarm.advice = "look at its learning rate and its data";
    alarm.peer = -1;
  } else if (!e.is_finite) {
    alarm.is =
        fmt::format("rank {} leaves out exchanges with {}, because they have NaN or infinity",
                    e.rank, e.peer < 0 ? "the others" : fmt::format("rank {}", e.peer));
    alarm.reason = "an end has such values in its model, or sends wrong ones";
  } else if (e.peer < 0) {
    alarm.is = fmt::format("the others pull it by {:.3g} of its usual steps", e.steps);
  } else {
    alarm.is = fmt::format(
        "rank {} is {:.3g} of its own usual steps away from the other end (some {:.3g} of that "
        "end's); exchanges move the two only a little",
        e.rank, e.steps, e.peer_steps);
  }
  return alarm;
}

}  // namespace

Observer::Observer(caf::actor_config& config, ObserverDependencies deps)
    : ObserverActor::base(config),
      deps_(std::move(deps)),
      reference_(std::make_shared<const std::vector<double>>(deps_.size, 0.0)),
      told_before_(deps_.counters->gradients.load()) {}

void Observer::sample() {
  if (awaited_ > 0) return;
  sum_.assign(deps_.size, 0);
  far_.clear();
  squares_ = 0;
  ranks_ = 0;
  sample_cpu_s_ = 0;
  awaited_ = deps_.states.size();
  for (const StateActor& state : deps_.states) {
    request(state, caf::infinite, Sample{reference_})
        .then([this](const SampleReply& reply) { add(reply); },
              [this](const caf::error&) { add({}); });
  }
}

void Observer::add(const SampleReply& reply) {
  const double since_s = thread_cpu_s();
  ranks_ += reply.ranks;
  squares_ += reply.squares;
  far_.insert(far_.end(), reply.far.begin(), reply.far.end());
  if (reply.sum)
    for (size_t k = 0; k < sum_.size(); ++k)
      sum_[k] += (*reply.sum)[k];
  if (--awaited_ == 0) conclude();
  sample_cpu_s_ += thread_cpu_s() - since_s;
}

// With d_i = x_i - reference:  1/n sum |x_i - mean|^2 = 1/n sum |d_i|^2 - |1/n sum d_i|^2.
void Observer::conclude() {
  if (ranks_ == 0) return;
  RunSample s;
  s.at_s = deps_.clock.now();
  s.ranks = ranks_;
  auto mean = std::make_shared<std::vector<double>>(*reference_);
  double shift = 0, square = 0;
  for (size_t k = 0; k < sum_.size(); ++k) {
    const double d = sum_[k] / ranks_;
    shift += d * d;
    (*mean)[k] += d;
    square += (*mean)[k] * (*mean)[k];
  }
  s.mean = reference_ = std::move(mean);
  s.consensus_distance = std::max(0.0, squares_ / ranks_ - shift);
  s.relative_distance = std::sqrt(s.consensus_distance / square);
  s.gradients = deps_.counters->gradients.load(std::memory_order_relaxed);
  s.exchanges = deps_.counters->applied_ends.load(std::memory_order_relaxed) / 2;
  s.bytes = deps_.counters->bytes.load(std::memory_order_relaxed);
  const double loss = deps_.counters->loss_sum.load(std::memory_order_relaxed);
  const uint64_t told =
      s.gradients - std::min(s.gradients, deps_.counters->silent.load(std::memory_order_relaxed));
  s.loss = told > told_before_ ? (loss - loss_before_) / static_cast<double>(told - told_before_)
                               : std::numeric_limits<double>::quiet_NaN();
  s.learning_rate = deps_.counters->learning_rate.load(std::memory_order_relaxed);
  s.progress = deps_.counters->progress.load(std::memory_order_relaxed);
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

namespace {

std::string is_large(const Sizes& s) {
  constexpr double kLoss = 1e4, kSize = 1e6;
  // A smaller start counts as 1, because a value of 1 is no divergence.
  const double loss = std::max(1.0, std::abs(s.first_loss)), size = std::max(1.0, s.first_size);
  if (s.loss > kLoss * loss)
    return fmt::format("the loss is {:.3g}, and it was {:.3g} at the start", s.loss, s.first_loss);
  const bool is_better = s.loss <= s.first_loss;  // false if the loss is unknown
  if (!is_better && s.size > kSize * size)
    return fmt::format("the parameters have grown to {:.3g}, from {:.3g}", s.size, s.first_size);
  return "";
}

std::string not_finite(const Sizes& s) {
  const bool finite = std::isfinite(s.distance) && std::isfinite(s.moved) && std::isfinite(s.size);
  return finite && !std::isinf(s.loss) ? "" : "the parameters or the loss are not finite";
}

bool is_apart(double distance, double scale) {
  constexpr double kFarther = 1e6;
  return scale > 0 && distance > kFarther * scale;
}

}  // namespace

std::string DivergenceWatch::sees(const Sizes& s) {
  if (const std::string why = not_finite(s); !why.empty()) return why;
  if (++seen_ <= kFirst) scale_ = std::max(scale_, s.distance);
  growths_ = s.distance > before_ ? growths_ + 1 : 0;
  before_ = s.distance;
  if (growths_ >= kInARow && is_apart(s.distance, std::max(scale_, s.moved)))
    return "the ranks drift apart without end";
  constexpr double kPull = 30;
  pulled_ = s.pull > kPull ? pulled_ + 1 : 0;
  if (pulled_ >= kInARow)
    return fmt::format(
        "each rank is pulled by at least {:.3g} of its usual steps, and only the guard limits "
        "this: without it the ranks drift apart without end",
        s.pull);
  const std::string large = is_large(s);
  large_ = large.empty() ? 0 : large_ + 1;
  return large_ >= kInARow ? large : "";
}

std::string DivergenceWatch::far(const Sizes& s, double first_distance) {
  if (const std::string why = not_finite(s); !why.empty()) return why;
  if (is_apart(s.distance, std::max(first_distance, s.moved)))
    return "the ranks have drifted apart without end";
  return is_large(s);
}

Sizes sizes_of(ConstVec mean, ConstVec first_mean) {
  Sizes s;
  const auto add = [&](const auto* now, const auto* first) {
    for (size_t k = 0; k < mean.size; ++k) {
      const double x = now[k], x0 = first[k];
      s.moved += (x - x0) * (x - x0);
      s.size += x * x;
      s.first_size += x0 * x0;
    }
  };
  if (mean.dtype == DType::f64)
    add(mean.as<double>(), first_mean.as<double>());
  else
    add(mean.as<float>(), first_mean.as<float>());
  const auto count = static_cast<double>(std::max<size_t>(1, mean.size));
  s.size = std::sqrt(s.size / count);
  s.first_size = std::sqrt(s.first_size / count);
  return s;
}

Sizes sizes_of(const std::vector<double>& mean, const std::vector<double>& first_mean) {
  return sizes_of(ConstVec{mean.data(), mean.size(), DType::f64},
                  ConstVec{first_mean.data(), first_mean.size(), DType::f64});
}

void Observer::watch(const RunSample& s) {
  if (first_mean_.empty()) first_mean_ = *s.mean;
  if (!std::isnan(s.loss)) loss_ = s.loss;
  Sizes now = sizes_of(*s.mean, first_mean_);
  now.distance = s.consensus_distance;
  now.loss = loss_;
  now.first_loss = deps_.counters->first_loss.load(std::memory_order_relaxed);
  now.pull = least_pull();
  const std::string grows = diverged_ ? "" : watch_.sees(now);
  if (!grows.empty()) {
    diverged_ = true;
    Alarm alarm = deps_.divergence;
    alarm.at_s = s.at_s;
    alarm.is = grows;
    deps_.sink.raise(alarm);
  }
  watch_far_edges(s.at_s);
}

double Observer::least_pull() const {
  int held = 0;
  double least = std::numeric_limits<double>::infinity();
  for (const FarEdge& e : far_) {
    const bool is_whole = e.peer == Guard::kAll || e.peer == e.rank;  // not the pull of one edge
    if (!is_whole || !e.is_finite || e.is_apart) continue;
    ++held;
    least = std::min(least, e.steps);
  }
  return held > 0 && held == ranks_of_run_ ? least : 0;
}

// The first sample that finds an edge far raises its alarm. The first that finds it near ends the
// alarm.
void Observer::watch_far_edges(double now) {
  std::map<std::pair<int, int>, Alarm> far;
  for (const FarEdge& e : far_) {
    const bool first = e.peer < 0 || e.rank < e.peer;
    const auto ends = first ? std::pair(e.rank, e.peer) : std::pair(e.peer, e.rank);
    far.try_emplace(ends, alarm_of(e));
  }
  far_.clear();
  std::erase_if(told_far_, [&](Alarm& told) {
    if (far.contains({told.rank, told.peer})) return false;
    told.over = true;
    told.at_s = now;
    told.is = told.peer < 0 ? "it is near the others again" : "its ends are near each other again";
    told.reason = told.advice = "";
    deps_.sink.raise(told);
    return true;
  });
  for (auto& [ends, alarm] : far) {
    if (std::ranges::any_of(told_far_, [&](const Alarm& a) { return a.same_place(alarm); }))
      continue;
    alarm.at_s = now;
    deps_.sink.raise(alarm);
    told_far_.push_back(alarm);
  }
}

Observer::behavior_type Observer::make_behavior() {
  return {
      [this](Tick tick) {
        const double gap_s = gap_between_samples(deps_.period_s, deps_.spares ? sample_cpu_s_ : 0);
        sample();
        if (tick.id != kSamplePeriod || deps_.period_s <= 0) return;
        const double next = deps_.clock.now() + gap_s;
        scheduled_send(caf::actor_cast<ObserverActor>(this), deps_.clock.instant(next), tick);
      },
      [this](const EpochInfo& info) {
        ranks_of_run_ = info.ranks;
        if (deps_.sink.on_epoch) deps_.sink.on_epoch(info);
      },
  };
}

void Observer::on_exit() {
  deps_.states.clear();
  deps_.sink = {};
}

}  // namespace grapevine
