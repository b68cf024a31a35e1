#include "app/evaluation/test_lane.hpp"

#include <fmt/core.h>
#include <sys/resource.h>
#include <unistd.h>

#include <exception>
#include <utility>

#include "actors/run/run.hpp"
#include "actors/settings/alarm.hpp"

namespace grapevine {
namespace {

constexpr int kYields = 15;  // a higher nice value than that of compute threads (host_compute.cpp)

}  // namespace

TestLane::TestLane(const Settings& s, std::shared_ptr<Objective> objective, TestOrders orders,
                   std::function<void(const std::string&)> say)
    : objective_(std::move(objective)),
      orders_(std::move(orders)),
      say_(std::move(say)),
      number_(s.clock == Clock::wall ? compute_threads(s) : 0),
      ranks_(ranks_here(s)),
      validated_(s.objective.validation_split > 0),
      next_s_(orders_.every.seconds),
      next_steps_(orders_.every.steps),
      judge_(validated_, orders_.stop_after, orders_.best) {
  if (s.clock == Clock::wall && orders_.every) thread_ = std::thread([this] { work(); });
}

bool TestLane::is_due(const RunSample& sample) {
  const auto& [seconds, steps] = orders_.every;
  const uint64_t taken = sample.gradients / static_cast<uint64_t>(ranks_);
  if (!((seconds > 0 && sample.at_s >= next_s_) || (steps > 0 && taken >= next_steps_)))
    return false;
  while (seconds > 0 && next_s_ <= sample.at_s)
    next_s_ += seconds;
  if (steps > 0) next_steps_ = (taken / steps + 1) * steps;
  return true;
}

std::optional<TestPoint> TestLane::offer(const RunSample& sample) {
  if (!orders_.every || sample.mean == nullptr) return {};
  const Job job{sample.at_s, sample.gradients, sample.mean};
  if (!thread_.joinable()) return is_due(sample) ? test(job) : std::nullopt;
  const Lock lock(mutex_);
  if (ends_ || job_ || !is_due(sample)) return {};
  job_ = job;
  changed_.notify_all();
  return {};
}

void TestLane::stop() {
  {
    const Lock lock(mutex_);
    ends_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void TestLane::work() {
  ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), kYields);
  Lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this]() GV_REQUIRES(mutex_) { return ends_ || job_.has_value(); });
    if (!job_) return;
    const Job job = *job_;
    lock.unlock();
    test(job);
    lock.lock();
    job_.reset();
  }
}

std::optional<TestPoint> TestLane::test(const Job& job) {
  if (has_failed_) return {};
  TestPoint point{.at_s = job.at_s, .gradients = job.gradients};
  const bool is_double = objective_->layout().dtype() == DType::f64;
  const std::vector<float> rounded =
      is_double ? std::vector<float>() : std::vector<float>(job.mean->begin(), job.mean->end());
  const ConstVec x = is_double ? ConstVec(job.mean->data(), job.mean->size(), DType::f64)
                               : ConstVec(rounded.data(), rounded.size(), DType::f32);
  try {
    point.test = objective_->evaluate(number_, -1, x);
    if (validated_) point.validation = objective_->validate(number_, -1, x);
  } catch (const std::exception& thrown) {
    has_failed_ = true;
    say_(fmt::format("{}a test of the model failed: {}; the run continues without tests", kAlarm,
                     thrown.what()));
    return {};
  }
  judge_.see(point);
  const Score now = score_of(point, validated_);
  if (point.is_best && orders_.on_best) orders_.on_best(point, now, *objective_, x);
  if (orders_.on_test) orders_.on_test(point, judge_.best().value_or(now));
  if (judge_.is_enough() && !is_enough_.exchange(true))
    say_(fmt::format("no better result in {} tests: the run ends; the best was {}",
                     judge_.since_best(), score_text(judge_.best().value_or(now))));
  return point;
}

}  // namespace grapevine
