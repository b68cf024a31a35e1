#include "actors/state/device_sample.hpp"

#include "kernels/memory/snapshot_pool.hpp"
#include "kernels/passes/ops.hpp"

namespace grapevine {
namespace {

template <class T>
void move(const T* first, const double* all, const std::vector<double>& reference,
          DeviceSample::About& about) {
  const double n = about.ranks;
  double cross = 0, between = 0;
  for (size_t i = 0; i < reference.size(); ++i) {
    const double from_first = all[i] - n * static_cast<double>(first[i]);
    const double moved = static_cast<double>(first[i]) - reference[i];
    cross += moved * from_first;
    between += moved * moved;
    about.sum[i] = from_first + n * moved;
  }
  about.squares += 2 * cross + n * between;
}

}  // namespace

DeviceSample::DeviceSample(const Execution& on, const ParameterLayout& layout)
    : on_(on),
      first_(on, layout.size(), layout.dtype()),
      next_(on, layout.size(), layout.dtype()),
      sum_(on, layout.size(), DType::f64),
      blocks_(on, reduction_blocks(layout.size()), DType::f64),
      square_(on, 1, DType::f64),
      squares_(on, 1, DType::f64) {}

size_t DeviceSample::bytes_for(const ParameterLayout& layout) {
  return SnapshotPool::bytes_for(layout.size(), layout.dtype(), 2) +
         SnapshotPool::bytes_for(layout.size(), DType::f64, 1) +
         SnapshotPool::bytes_for(reduction_blocks(layout.size()), DType::f64, 1) +
         SnapshotPool::bytes_for(1, DType::f64, 2);
}

void DeviceSample::add() {
  const Vec x = place();
  accumulate(on_, x, sum_);
  if (ranks_++ == 0) return;
  square_distance(on_, x, first_, blocks_, square_);
  accumulate(on_, square_, squares_);
}

DeviceSample::About DeviceSample::about(const std::vector<double>& reference) const {
  About about{ranks_, 0, std::vector<double>(reference.size())};
  if (is_empty()) return about;
  about.squares = squares_.vec().as<double>()[0];
  const double* const all = sum_.vec().as<double>();
  if (first_.dtype() == DType::f64) {
    move(first_.vec().as<double>(), all, reference, about);
  } else {
    move(first_.vec().as<float>(), all, reference, about);
  }
  return about;
}

}  // namespace grapevine
