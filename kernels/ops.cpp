#include "kernels/ops.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <vector>

#include "kernels/fork_join.hpp"
#include "kernels/passes.hpp"

namespace grapevine {
namespace {

constexpr size_t kSplitBytes = size_t{1} << 20;  // below, waking a thread costs more than it brings

// From here on a vector that is only written goes past the caches: no use can find it there again,
// and the lines need not be read before they are overwritten.
constexpr size_t kStreamedBytes = size_t{32} << 20;

const CpuBuild& best_build() {
  static const CpuBuild& best = [] () -> const CpuBuild& {
    const CpuBuild* const* build = cpu_builds();
    while (build[1] != nullptr) ++build;
    return **build;
  }();
  return best;
}

bool wide(DType dtype) { return dtype == DType::f64; }

/// Required vectors have x's length and dtype and are not null.
template <class View> void check_same(const ConstVec& x, const View& other) {
  GV_CHECK(other.size == x.size);
  GV_CHECK(static_cast<int>(other.dtype) == static_cast<int>(x.dtype));
  GV_CHECK((other.data != nullptr || other.size == 0));
}

template <class View> void check_optional(const ConstVec& x, const View& other) {
  if (other) check_same(x, other);
}

template <class Body> void split(const Execution& on, const ConstVec& x, const Body& body) {
  if (on.pool != nullptr && x.bytes() > kSplitBytes) {
    on.pool->run(x.size, kReductionBlock, body);
  } else if (x.size > 0) {
    body(0, x.size);
  }
}

template <class Body> double block_sum(const Execution& on, const ConstVec& x, const Body& body) {
  std::vector<double> sums((x.size + kReductionBlock - 1) / kReductionBlock);
  split(on, x, [&](size_t first, size_t last) {
    for (size_t i = first; i < last; i += kReductionBlock) {
      sums[i / kReductionBlock] = body(i, std::min(last, i + kReductionBlock));
    }
  });
  double total = 0;
  for (const double s : sums) total += s;
  return total;
}

bool on_gpu(const Execution& on) {
#ifndef GRAPEVINE_CUDA
  constexpr bool built_with_cuda = false;
  GV_CHECK((on.device == Execution::Device::cpu || built_with_cuda));
#endif
  return on.device == Execution::Device::cuda;
}

#ifdef GRAPEVINE_CUDA
#define GV_ON_GPU(...) \
  if (on_gpu(on)) return cuda::__VA_ARGS__
#else
#define GV_ON_GPU(...) on_gpu(on)
#endif

}  // namespace

void look(const Execution& on, double c, ConstVec x, ConstVec x_tilde, Vec out) {
  check_same(x, x);
  check_optional(x, x_tilde);
  check_same(x, out);
  if (!x_tilde) {
    GV_ON_GPU(copy(x.data, out.data, x.bytes(), on.stream));
    const size_t width = size_of(x.dtype);
    split(on, x, [&](size_t first, size_t last) {
      std::memcpy(static_cast<char*>(out.data) + first * width,
                  static_cast<const char*>(x.data) + first * width, (last - first) * width);
    });
    return;
  }
  const LookArguments a{c, x.data, x_tilde.data, out.data, x.bytes() >= kStreamedBytes};
  GV_ON_GPU(look(wide(x.dtype), a, x.size, on.stream));
  split(on, x, [&](size_t first, size_t last) {
    best_build().look(wide(x.dtype), a, first, last);
  });
}

void mix_and_jump(const Execution& on, double c, double alpha, double alpha_tilde, ConstVec sent,
                  ConstVec received, Vec x, Vec x_tilde) {
  check_same(x, x);
  check_same(x, sent);
  check_same(x, received);
  check_optional(x, x_tilde);
  const JumpArguments a{c, alpha, alpha_tilde, sent.data, received.data, x.data, x_tilde.data};
  GV_ON_GPU(jump(wide(x.dtype), a, x.size, on.stream));
  split(on, x, [&](size_t first, size_t last) {
    best_build().jump(wide(x.dtype), a, first, last);
  });
}

void mix_and_step(const Execution& on, double c, const GradientStep& step, ConstVec g, Vec v,
                  Vec x, Vec x_tilde, Vec copy) {
  check_same(x, x);
  check_same(x, g);
  check_optional(x, v);
  check_optional(x, x_tilde);
  check_optional(x, copy);
  GV_CHECK((v.data != nullptr || step.momentum == 0 || x.size == 0));
  const StepArguments a{c,         step.lr,       step.momentum,
                        step.weight_decay, step.nesterov, g.data,
                        v.data,    x.data,        x_tilde.data,
                        copy.data, x.bytes() >= kStreamedBytes};
  GV_ON_GPU(step(wide(x.dtype), a, x.size, on.stream));
  split(on, x, [&](size_t first, size_t last) {
    best_build().step(wide(x.dtype), a, first, last);
  });
}

void axpy(const Execution& on, double a, ConstVec x, Vec y) {
  check_same(x, x);
  check_same(x, y);
  const AxpyArguments arguments{a, x.data, y.data};
  GV_ON_GPU(axpy(wide(x.dtype), arguments, x.size, on.stream));
  split(on, x, [&](size_t first, size_t last) {
    best_build().axpy(wide(x.dtype), arguments, first, last);
  });
}

void scale(const Execution& on, double a, ConstVec x, Vec y) {
  check_same(x, x);
  check_same(x, y);
  const ScaleArguments arguments{a, x.data, y.data};
  GV_ON_GPU(scale(wide(x.dtype), arguments, x.size, on.stream));
  split(on, x, [&](size_t first, size_t last) {
    best_build().scale(wide(x.dtype), arguments, first, last);
  });
}

double add_deviation(const Execution& on, ConstVec x, ConstVec reference, Vec sum) {
  GV_CHECK((on.device == Execution::Device::cpu));
  check_same(x, x);
  check_same(reference, sum);
  GV_CHECK(reference.size == x.size);
  const auto* center = reference.as<double>();
  auto* total = sum.as<double>();
  return block_sum(on, x, [&](size_t first, size_t last) {
    return best_build().deviation(wide(x.dtype), x.data, center, total, first, last);
  });
}

double dot(const Execution& on, ConstVec x, ConstVec y) {
  check_same(x, x);
  check_same(x, y);
  GV_ON_GPU(dot(wide(x.dtype), x.data, y.data, x.size, on.stream));
  return block_sum(on, x, [&](size_t first, size_t last) {
    return best_build().dot(wide(x.dtype), x.data, y.data, first, last);
  });
}

bool all_finite(const Execution& on, ConstVec x) {
  check_same(x, x);
  GV_ON_GPU(finite(wide(x.dtype), x.data, x.size, on.stream));
  std::atomic<bool> finite{true};
  split(on, x, [&](size_t first, size_t last) {
    for (size_t i = first; i < last && finite; i += kReductionBlock) {
      if (!best_build().finite(wide(x.dtype), x.data, i, std::min(last, i + kReductionBlock))) {
        finite = false;
      }
    }
  });
  return finite;
}

}  // namespace grapevine
