#include "kernels/passes/ops.hpp"

#include <atomic>
#include <cmath>
#include <cstring>

#include "kernels/passes/launch.hpp"
#include "kernels/passes/workspace.hpp"

namespace grapevine {

const CpuBuild& passes::best_build() {
  static const CpuBuild& best = []() -> const CpuBuild& {
    const CpuBuild* const* build = cpu_builds();
    while (build[1] != nullptr)
      ++build;
    return **build;
  }();
  return best;
}

using namespace passes;

namespace {

/// The pass over `size` elements of `vector`'s width; queued if there is a device.
template <class Arguments>
void pass(const Execution& on, const ConstVec& vector, const Arguments& a,
          Where where = Where::current()) {
  const bool is_wide = wide(vector.dtype);
  if (on.device != nullptr) {
    if (vector.size > 0) queue(on, is_wide, a, vector.size, where);
    return;
  }
  split(on, vector, [&](size_t first, size_t last) { run(best_build(), is_wide, a, first, last); });
}

/// A pass writes one fp64 number to `result`.
void check_result(const Vec& result) {
  check_view(result, result.size, DType::f64);
  GV_CHECK(result.size >= 1u);
}

void set(const Vec& result, double value) { *result.as<double>() = value; }

}  // namespace

void extrapolate(const Execution& on, double c, ConstVec x, ConstVec x_tilde, Vec out) {
  check_same(x, x);
  check_optional(x, x_tilde);
  if (out.dtype == DType::bf16) {
    check_view(out, x.size, DType::bf16);
    return pass(on, x, RoundArguments{c, x.data, x_tilde.data, out.data});
  }
  check_same(x, out);
  if (!x_tilde) {
    if (on.device != nullptr) {  // as with a pass, a lost device informs its owner
      if (x.size > 0) static_cast<void>(on.device->copy(on.stream, out.data, x.data, x.bytes()));
      return;
    }
    const size_t width = size_of(x.dtype);
    split(on, x, [&](size_t first, size_t last) {
      std::memcpy(static_cast<char*>(out.data) + first * width,
                  static_cast<const char*>(x.data) + first * width, (last - first) * width);
    });
    return;
  }
  pass(on, x, ExtrapolateArguments{c, x.data, x_tilde.data, out.data, x.bytes() >= kStreamedBytes});
}

void mix_and_jump(const Execution& on, double c, double alpha, double alpha_tilde, ConstVec sent,
                  ConstVec received, Vec x, Vec x_tilde) {
  check_same(x, x);
  check_optional(x, x_tilde);
  const auto jump = [&]<class Arguments>(DType messages, Arguments a) {
    check_view(sent, x.size, messages);
    check_view(received, x.size, messages);
    a = {c, alpha, alpha_tilde, sent.data, received.data, x.data, x_tilde.data};
    pass(on, x, a);
  };
  if (sent.dtype == DType::bf16) return jump(DType::bf16, RoundedJumpArguments{});
  jump(x.dtype, JumpArguments{});
}

void mix_and_step(const Execution& on, double c, const GradientStep& step, ConstVec g, Vec v, Vec x,
                  Vec x_tilde, Vec copy) {
  check_same(x, x);
  check_same(x, g);
  check_optional(x, v);
  check_optional(x, x_tilde);
  check_optional(x, copy);
  GV_CHECK((v.data != nullptr || step.momentum == 0 || x.size == 0));
  const StepArguments a{c,
                        step.lr,
                        step.momentum,
                        step.weight_decay,
                        step.nesterov,
                        g.data,
                        v.data,
                        x.data,
                        x_tilde.data,
                        copy.data,
                        x.bytes() >= kStreamedBytes};
  pass(on, x, a);
}

void adam_step(const Execution& on, double c, const AdamStep& step, ConstVec g, Vec m, Vec v, Vec x,
               Vec x_tilde, Vec copy) {
  check_same(x, x);
  check_same(x, g);
  check_same(x, m);
  check_same(x, v);
  check_optional(x, x_tilde);
  check_optional(x, copy);
  GV_CHECK(step.t >= 1u);
  const auto unbias = [t = static_cast<double>(step.t)](double beta) {
    return 1 / (1 - std::pow(beta, t));
  };
  const AdamArguments a{c,
                        step.lr,
                        step.beta1,
                        step.beta2,
                        unbias(step.beta1),
                        unbias(step.beta2),
                        step.epsilon,
                        step.weight_decay,
                        step.decoupled,
                        g.data,
                        m.data,
                        v.data,
                        x.data,
                        x_tilde.data,
                        copy.data,
                        x.bytes() >= kStreamedBytes};
  pass(on, x, a);
}

namespace {

TakeArguments take_arguments(double c, Vec front, Vec base, Vec x, Vec x_tilde) {
  check_same(x, x);
  check_same(x, front);
  check_same(x, base);
  check_optional(x, x_tilde);
  return {c, front.data, base.data, x.data, x_tilde.data};
}

}  // namespace

bool mix_and_take(const Execution& on, double c, Vec front, Vec base, Vec x, Vec x_tilde) {
  GV_CHECK((on.device == nullptr));
  const TakeArguments a = take_arguments(c, front, base, x, x_tilde);
  std::atomic<bool> finite{true};
  split(on, x, [&](size_t first, size_t last) {
    if (!best_build().take(wide(x.dtype), a, first, last)) finite = false;
  });
  return finite;
}

void mix_and_take(const Execution& on, double c, Vec front, Vec base, Vec x, Vec x_tilde,
                  Vec result) {
  check_result(result);
  if (on.device == nullptr) return set(result, mix_and_take(on, c, front, base, x, x_tilde));
  TakeArguments a = take_arguments(c, front, base, x, x_tilde);
  a.finite = result.data;
  queue(on, wide(x.dtype), a, x.size);
}

namespace {

/// The arguments for `terms`, at most kMost of them, from element `first` on.
CombineArguments combine_arguments(std::span<const Term> terms, size_t first, const void* base,
                                   void* out) {
  CombineArguments a;
  a.count = static_cast<int>(terms.size());
  for (size_t k = 0; k < terms.size(); ++k) {
    a.a[k] = terms[k].a;
    a.x[k] = static_cast<const char*>(terms[k].x.data) + first * size_of(terms[k].x.dtype);
  }
  a.base = base;
  a.out = out;
  return a;
}

/// More terms than one pass takes: kMost at a time, with the sum so far in `scratch`. So `out` is
/// written last and may be any of them. pass(arguments) adds them over one range.
template <class Pass>
void combine_many(std::span<const Term> terms, size_t first, void* scratch, void* out,
                  const Pass& pass) {
  const void* base = nullptr;
  while (terms.size() > CombineArguments::kMost) {
    pass(combine_arguments(terms.first(CombineArguments::kMost), first, base, scratch));
    terms = terms.subspan(CombineArguments::kMost);
    base = scratch;
  }
  pass(combine_arguments(terms, first, base, out));
}

}  // namespace

void combine(const Execution& on, std::span<const Term> terms, Vec out) {
  GV_CHECK(terms.size() >= 1u);
  bool in_place = false;
  for (const Term& term : terms) {
    check_same(out, term.x);
    in_place = in_place || term.x.data == out.data;
  }
  if (terms.size() <= CombineArguments::kMost) {
    CombineArguments a = combine_arguments(terms, 0, nullptr, out.data);
    a.streamed = !in_place && out.bytes() >= kStreamedBytes;
    return pass(on, out, a);
  }
  if (on.device != nullptr) {  // `out` holds the sum so far
    for (const Term& term : terms.subspan(CombineArguments::kMost))
      GV_CHECK((term.x.data != out.data || out.size == 0));
    return combine_many(terms, 0, out.data, out.data,
                        [&](const CombineArguments& a) { pass(on, out, a); });
  }
  const bool is_wide = wide(out.dtype);
  split(on, out, [&](size_t first, size_t last) {
    constexpr size_t kBlock = 512;  // stays in the L1 cache
    alignas(64) double scratch[kBlock];
    for (size_t i = first; i < last; i += kBlock) {
      const size_t size = std::min(kBlock, last - i);
      void* target = static_cast<char*>(out.data) + i * size_of(out.dtype);
      combine_many(terms, i, scratch, target,
                   [&](const CombineArguments& a) { run(best_build(), is_wide, a, 0, size); });
    }
  });
}

namespace {

/// Checks that `from` elements contain `count` elements at distance `stride`, starting with
/// `first`.
void check_reach(size_t from, size_t first, size_t stride, size_t count) {
  GV_CHECK(stride >= 1u);
  if (count > 0) GV_CHECK(first + (count - 1) * stride < from);
}

}  // namespace

void gather(const Execution& on, ConstVec x, size_t first, size_t stride, Vec out) {
  check_view(x, x.size, out.dtype);
  check_same(out, out);
  check_reach(x.size, first, stride, out.size);
  const size_t skipped = out.size > 0 ? first * size_of(x.dtype) : 0;
  pass(on, out, GatherArguments{stride, static_cast<const char*>(x.data) + skipped, out.data});
}

void scatter(const Execution& on, ConstVec x, size_t first, size_t stride, Vec out) {
  check_same(x, x);
  check_view(out, out.size, x.dtype);
  check_reach(out.size, first, stride, x.size);
  const size_t skipped = x.size > 0 ? first * size_of(x.dtype) : 0;
  pass(on, x, ScatterArguments{stride, x.data, static_cast<char*>(out.data) + skipped});
}

namespace {

/// A pass that runs in one piece, here or on the device.
template <class Arguments>
void whole_pass(const Execution& on, DType dtype, const Arguments& a, size_t size) {
  if (size == 0) return;
  if (on.device != nullptr) return queue(on, wide(dtype), a, size);
  run_whole(best_build(), wide(dtype), a, size);
}

/// On a device, the answer must have been asked for before.
double asked(const Execution& on, Question::What what, ConstVec x, ConstVec y, size_t moment = 0) {
  GV_CHECK((on.workspace != nullptr));
  return on.workspace->number_of({what, x, y, moment});
}

}  // namespace

void fill(const Execution& on, double a, Vec out) {
  check_same(out, out);
  whole_pass(on, out.dtype, FillArguments{a, out.data}, out.size);
}

void accumulate(const Execution& on, ConstVec x, Vec sum) {
  check_same(x, x);
  check_view(sum, x.size, DType::f64);
  whole_pass(on, x.dtype, AccumulateArguments{x.data, sum.data}, x.size);
}

void tell(const Execution& on, ConstVec x, Vec result) {
  check_view(x, x.size, x.dtype);
  GV_CHECK(x.size >= 1u);
  check_result(result);
  whole_pass(on, x.dtype, NumberArguments{x.data, result.data}, 1);
}

double number_at(const Execution& on, ConstVec x, size_t place) {
  const ConstVec one = x.part(place, 1);
  if (on.device != nullptr) return asked(on, Question::What::number, one, one);
  return one.dtype == DType::f64 ? *one.as<double>() : static_cast<double>(*one.as<float>());
}

void axpy(const Execution& on, double a, ConstVec x, Vec y) {
  check_same(x, x);
  check_same(x, y);
  pass(on, x, AxpyArguments{a, x.data, y.data});
}

void scale(const Execution& on, double a, ConstVec x, Vec y) {
  check_same(x, x);
  check_same(x, y);
  pass(on, x, ScaleArguments{a, x.data, y.data});
}

double add_deviation(const Execution& on, ConstVec x, ConstVec reference, Vec sum) {
  GV_CHECK((on.device == nullptr));
  check_same(x, x);
  check_same(reference, sum);
  GV_CHECK(reference.size == x.size);
  const auto* center = reference.as<double>();
  auto* total = sum.as<double>();
  return block_sum(on, x, [&](size_t first, size_t last) {
    return best_build().deviation(wide(x.dtype), x.data, center, total, first, last);
  });
}

size_t reduction_blocks(size_t size) { return (size + kReductionBlock - 1) / kReductionBlock; }

namespace {

void queue_sum(const Execution& on, bool distance, ConstVec x, ConstVec y, Vec blocks, Vec result) {
  check_same(x, x);
  check_same(x, y);
  check_result(result);
  check_view(blocks, reduction_blocks(x.size), DType::f64);
  const SumArguments a{distance, x.data, y.data, blocks.data, result.data, x.dtype == DType::bf16};
  queue(on, wide(x.dtype), a, x.size);
}

}  // namespace

double dot(const Execution& on, ConstVec x, ConstVec y, size_t moment) {
  if (on.device != nullptr) return asked(on, Question::What::dot, x, y, moment);
  check_same(x, x);
  check_same(x, y);
  return block_sum(on, x, [&](size_t first, size_t last) {
    return best_build().dot(wide(x.dtype), x.data, y.data, first, last);
  });
}

void dot(const Execution& on, ConstVec x, ConstVec y, Vec blocks, Vec result) {
  if (on.device != nullptr) return queue_sum(on, false, x, y, blocks, result);
  set(result, dot(on, x, y));
}

double square_distance(const Execution& on, ConstVec x, ConstVec y) {
  if (on.device != nullptr) return asked(on, Question::What::square_distance, x, y);
  check_same(x, x);
  check_same(x, y);
  return block_sum(on, x, [&](size_t first, size_t last) {
    if (x.dtype == DType::bf16) return best_build().rounded_distance(x.data, y.data, first, last);
    return best_build().distance(wide(x.dtype), x.data, y.data, first, last);
  });
}

void square_distance(const Execution& on, ConstVec x, ConstVec y, Vec blocks, Vec result) {
  if (on.device != nullptr) return queue_sum(on, true, x, y, blocks, result);
  set(result, square_distance(on, x, y));
}

double sum_of_blocks(const Execution& on, ConstVec x,
                     const std::function<double(size_t, size_t)>& part) {
  static_assert(kReductionBlock == kLargestBlock);
  GV_CHECK((on.device == nullptr));
  return block_sum(on, x, part);
}

bool all_finite(const Execution& on, ConstVec x) {
  GV_CHECK((on.device == nullptr));
  check_same(x, x);
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

void all_finite(const Execution& on, ConstVec x, Vec result) {
  check_result(result);
  if (on.device == nullptr) return set(result, all_finite(on, x));
  check_same(x, x);
  queue(on, wide(x.dtype), FiniteArguments{x.data, result.data}, x.size);
}

}  // namespace grapevine
