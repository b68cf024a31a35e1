#include "models/network/running_statistics.hpp"

#include <algorithm>

namespace grapevine {

void RunningStatistics::load(int rank, float* out) const {
  if (size() == 0) return;
  const std::lock_guard lock(mutex_);
  const std::vector<float> now =
      rank < 0 ? average_locked() : of_rank_.at(static_cast<size_t>(rank));
  std::copy(now.begin(), now.end(), out);
}

void RunningStatistics::load(int rank, Vec out) const {
  GV_CHECK(out.size == size());
  load(rank, out.as<float>());
}

void RunningStatistics::store(int rank, const float* now) {
  if (size() == 0) return;
  const std::lock_guard lock(mutex_);
  std::copy_n(now, size(), of_rank_.at(static_cast<size_t>(rank)).begin());
  ++gradients_[static_cast<size_t>(rank)];
}

void RunningStatistics::set(int rank, uint64_t gradients, ConstVec now) {
  GV_CHECK(now.size == size());
  const std::lock_guard lock(mutex_);
  std::copy_n(now.as<float>(), size(), of_rank_.at(static_cast<size_t>(rank)).begin());
  gradients_[static_cast<size_t>(rank)] = static_cast<int64_t>(gradients);
}

void RunningStatistics::set_average(ConstVec average) {
  GV_CHECK(average.size == size());
  const std::lock_guard lock(mutex_);
  average_.assign(average.as<float>(), average.as<float>() + average.size);
}

std::vector<float> RunningStatistics::average() const {
  const std::lock_guard lock(mutex_);
  return average_locked();
}

int64_t RunningStatistics::most_gradients() const {
  const std::lock_guard lock(mutex_);
  return *std::max_element(gradients_.begin(), gradients_.end());
}

std::vector<float> RunningStatistics::average_locked() const {
  if (!average_.empty()) return average_;
  std::vector<double> sum(of_rank_[0].size(), 0.0);
  double ranks = 0;
  for (size_t rank = 0; rank < of_rank_.size(); ++rank) {
    if (gradients_[rank] == 0) continue;
    ++ranks;
    for (size_t k = 0; k < sum.size(); ++k)
      sum[k] += of_rank_[rank][k];
  }
  if (ranks == 0) return of_rank_[0];
  std::vector<float> average(sum.size());
  for (size_t k = 0; k < sum.size(); ++k)
    average[k] = static_cast<float>(sum[k] / ranks);
  return average;
}

}  // namespace grapevine
