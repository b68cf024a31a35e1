// Helpers of all CPU passes: select the best build for this processor, check views, and split a
// pass over threads.
#pragma once
#include <algorithm>
#include <vector>

#include "kernels/base/fork_join.hpp"
#include "kernels/passes/ops.hpp"
#include "kernels/passes/passes.hpp"

namespace grapevine::passes {

constexpr size_t kSplitBytes = size_t{1} << 20;  // below, waking a thread costs more than it saves

// From this size on, a vector that is only written bypasses the caches: it would not stay in them
// until its next use, and its lines need not be read before they are overwritten.
constexpr size_t kStreamedBytes = size_t{32} << 20;

const CpuBuild& best_build();

inline bool wide(DType dtype) { return dtype == DType::f64; }

/// Checks that a required vector has this length and dtype and is not null.
template <class View>
void check_view(const View& view, size_t size, DType dtype) {
  const bool is_there = view.data != nullptr || view.size == 0;
  // A fast path: passes are short.
  if (view.size == size && view.dtype == dtype && is_there) return;
  GV_CHECK(view.size == size);
  GV_CHECK(static_cast<int>(view.dtype) == static_cast<int>(dtype));
  GV_CHECK((view.data != nullptr || view.size == 0));
}

template <class View>
void check_same(const ConstVec& x, const View& other) {
  check_view(other, x.size, x.dtype);
}

template <class View>
void check_optional(const ConstVec& x, const View& other) {
  if (other) check_same(x, other);
}

/// Calls body(first, last) over [0, size). A pass over more than kSplitBytes is split over the
/// threads of the pool.
template <class Range>
void split(const Execution& on, size_t size, size_t bytes, size_t grain, const Range& body) {
  if (on.pool != nullptr && bytes > kSplitBytes) {
    on.pool->run(size, grain, body);
  } else if (size > 0) {
    body(size_t{0}, size);
  }
}

template <class Range>
void split(const Execution& on, const ConstVec& x, const Range& body) {
  split(on, x.size, x.bytes(), kReductionBlock, body);
}

/// Calls one(first, last) for each block of a reduction; returns the results in order.
template <class T, class One>
std::vector<T> blocks(const Execution& on, const ConstVec& x, const One& one) {
  std::vector<T> results((x.size + kReductionBlock - 1) / kReductionBlock);
  split(on, x, [&](size_t first, size_t last) {
    for (size_t i = first; i < last; i += kReductionBlock) {
      results[i / kReductionBlock] = one(i, std::min(last, i + kReductionBlock));
    }
  });
  return results;
}

/// Adds the sums of blocks, in the order that kReductionBlock describes.
class BlockSum {
 public:
  void add(double sum) {
    lane_[count_++ % kReductionLanes] += sum;
    if (count_ % kReductionBlock == 0) end_row();
  }
  double total() {  // the last call
    end_row();
    return total_;
  }

 private:
  void end_row() {
    total_ += fold(lane_);
    std::fill_n(lane_, kReductionLanes, 0.0);
  }

  double lane_[kReductionLanes] = {}, total_ = 0;
  size_t count_ = 0;
};

template <class One>
double block_sum(const Execution& on, const ConstVec& x, const One& one) {
  BlockSum sum;
  if (on.pool == nullptr || x.bytes() <= kSplitBytes) {  // in order, so nothing is stored
    for (size_t i = 0; i < x.size; i += kReductionBlock)
      sum.add(one(i, std::min(x.size, i + kReductionBlock)));
    return sum.total();
  }
  for (const double s : blocks<double>(on, x, one))
    sum.add(s);
  return sum.total();
}

}  // namespace grapevine::passes
