#include "models/network/running_statistics.hpp"

#include <algorithm>
#include <cstring>

namespace grapevine {
namespace {

void copy(ConstVec from, Vec to) {
  GV_CHECK(from.dtype == to.dtype);
  GV_CHECK(from.size == to.size);
  if (from.size > 0) std::memcpy(to.data, from.data, to.bytes());
}

template <class T>
void average_of(const std::vector<const Buffer*>& all, Vec out) {
  for (size_t k = 0; k < out.size; ++k) {
    double sum = 0;
    for (const Buffer* one : all)
      sum += static_cast<double>(one->vec().as<T>()[k]);
    out.as<T>()[k] = static_cast<T>(sum / static_cast<double>(all.size()));
  }
}

}  // namespace

RunningStatistics::RunningStatistics(int ranks, const Buffer& start)
    : size_(start.size()), dtype_(start.dtype()), gradients_(static_cast<size_t>(ranks), 0) {
  for (int rank = 0; rank < ranks; ++rank) {
    of_rank_.emplace_back(start.size(), start.dtype());
    copy(start, of_rank_.back());
  }
}

void RunningStatistics::load(int rank, Vec out) const {
  const Lock lock(mutex_);
  rank < 0 ? average_locked(out) : copy(of_rank_.at(static_cast<size_t>(rank)), out);
}

bool RunningStatistics::has(int rank) const {
  const Lock lock(mutex_);
  return gradients_.at(static_cast<size_t>(rank)) > 0;
}

void RunningStatistics::store(int rank, ConstVec now) {
  if (size() == 0) return;
  const Lock lock(mutex_);
  copy(now, of_rank_.at(static_cast<size_t>(rank)));
  ++gradients_[static_cast<size_t>(rank)];
}

void RunningStatistics::set(int rank, uint64_t gradients, ConstVec now) {
  const Lock lock(mutex_);
  copy(now, of_rank_.at(static_cast<size_t>(rank)));
  gradients_[static_cast<size_t>(rank)] = static_cast<int64_t>(gradients);
}

void RunningStatistics::set_average(ConstVec average) {
  const Lock lock(mutex_);
  average_ = Buffer(average.size, average.dtype);
  copy(average, average_);
}

Buffer RunningStatistics::average() const {
  Buffer found(size_, dtype_);
  load(-1, found);
  return found;
}

int64_t RunningStatistics::most_gradients() const {
  const Lock lock(mutex_);
  return *std::max_element(gradients_.begin(), gradients_.end());
}

void RunningStatistics::average_locked(Vec out) const {
  if (average_) return copy(average_, out);
  std::vector<const Buffer*> have_computed;
  for (size_t rank = 0; rank < of_rank_.size(); ++rank)
    if (gradients_[rank] > 0) have_computed.push_back(&of_rank_[rank]);
  if (have_computed.empty()) return copy(of_rank_[0], out);
  out.dtype == DType::f64 ? average_of<double>(have_computed, out)
                          : average_of<float>(have_computed, out);
}

}  // namespace grapevine
