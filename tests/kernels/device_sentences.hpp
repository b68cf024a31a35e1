// Holds for every pass on any device: it gives the same bits as the CPU.
#pragma once
#include <cmath>
#include <cstring>
#include <vector>

#include "kernels/passes/launch.hpp"
#include "kernels/passes/low_rank.hpp"
#include "tests/catch.hpp"
#include "tests/kernels/any_arguments.hpp"
#include "tests/kernels/on_device.hpp"
#include "tests/kernels/passes.hpp"

namespace grapevine::testing {

/// On a device `combine` of many terms sums into its result: only an early term may be that.
inline bool is_for_devices(const Case& c) { return !(c.in_place && c.terms > 9); }

/// Views `shift` elements past a boundary, odd ones `extra` more.
inline void check_passes(OnDevice& on, DType dtype, size_t size, size_t shift, size_t extra,
                         const std::vector<Case>& cases) {
  const Streams start(size, dtype, 0);
  Streams cpu(size, dtype, 0), back(size, dtype, 0);
  for (const Case& c : cases) {
    if (!is_for_devices(c)) continue;
    cpu.copy(start), back.copy(start);
    Buffer found(1, DType::f64);
    found.vec().as<double>()[0] = 1;
    run(c, {}, cpu);
    on.clear();
    std::vector<Vec> views;
    for (int k = 0; k < Streams::kCount; ++k)
      views.push_back(on.upload(back.view(k), shift + (k % 2 == 1 ? extra : 0)));
    const Vec there = on.upload(found);
    run_on(c, on.execution(), views, there);
    for (int k = 0; k < Streams::kCount; ++k)
      on.read(views[static_cast<size_t>(k)], back.view(k));
    INFO(c.name() << " fp" << 8 * size_of(dtype) << " size " << size << " shift " << shift
                  << " extra " << extra);
    CHECK(cpu.same_bits(back));
    CHECK(on.number(there) == 1);
  }
}

/// `bytes` of numbers as a pass over `size` elements reads them: in bf16 if they are half as wide.
/// None is negative, as Adam wants its second moment.
inline Buffer numbers_of(size_t bytes, size_t size, DType dtype, uint64_t stream) {
  const size_t count = (bytes + size_of(dtype) - 1) / size_of(dtype);
  Buffer numbers = random_buffer(std::max(count, size), dtype, stream);
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (dtype == DType::f32)
      numbers.vec().as<float>()[i] = std::abs(numbers.vec().as<float>()[i]);
    else
      numbers.vec().as<double>()[i] = std::abs(numbers.vec().as<double>()[i]);
  }
  if (bytes != size * sizeof(BFloat16)) return numbers;
  Buffer rounded(size, DType::bf16);
  extrapolate({}, 0, numbers.vec().part(0, size), {}, rounded);
  return rounded;
}

/// Every elementwise pass over the memory that its arguments declare.
inline void check_each_pass(OnDevice& on, bool wide, size_t size, size_t shift) {
  const DType dtype = wide ? DType::f64 : DType::f32;
  const size_t width = size_of(dtype);
  for_each_pass([&](auto here) {
    on.clear();
    auto there = here;
    std::vector<Buffer> kept;
    std::vector<Vec> views;
    const auto bytes_of = [](void* data, size_t bytes) { return Vec{data, bytes, DType::bytes}; };
    here.each(size, width, [&](auto*& vector, size_t bytes, Access::Mode) {
      kept.push_back(numbers_of(bytes, size, dtype, kept.size()));
      vector = kept.back().vec().data;
      views.push_back(on.upload(bytes_of(kept.back().vec().data, bytes), shift * width));
    });
    size_t k = 0;
    there.each(size, width, [&](auto*& vector, size_t, Access::Mode) { vector = views[k++].data; });
    passes::run_whole(passes::best_build(), wide, here, size);
    passes::queue(on.execution(), wide, there, size);
    INFO(__PRETTY_FUNCTION__ << " fp" << 8 * width << " size " << size << " shift " << shift);
    for (k = 0; k < views.size(); ++k) {
      std::vector<std::byte> back(views[k].size);
      on.read(views[k], bytes_of(back.data(), back.size()));
      CHECK(std::memcmp(back.data(), kept[k].vec().data, back.size()) == 0);
    }
  });
}

/// Sums, finiteness and what `take` finds out.
inline void check_results(OnDevice& on, DType dtype, size_t size) {
  on.clear();
  Streams host(size, dtype, 0);
  std::vector<Vec> views;
  for (int k = 0; k < Streams::kCount; ++k)
    views.push_back(on.upload(host.view(k), 1));
  const Vec blocks = on.make(reduction_blocks(size), DType::f64);
  const Vec result = on.make(1, DType::f64);
  INFO("fp" << 8 * size_of(dtype) << " size " << size);
  dot(on.execution(), views[0], views[1], blocks, result);
  CHECK(on.number(result) == dot({}, host.view(0), host.view(1)));
  square_distance(on.execution(), views[0], views[1], blocks, result);
  CHECK(on.number(result) == square_distance({}, host.view(0), host.view(1)));
  Streams in_bf16(size, dtype, 0);
  for (const int k : {0, 1}) {
    extrapolate({}, 0, host.view(k), {}, as_bf16(in_bf16.view(k)));
    extrapolate(on.execution(), 0, views[static_cast<size_t>(k)], {},
                as_bf16(views[static_cast<size_t>(k + 4)]));
  }
  square_distance(on.execution(), as_bf16(views[4]), as_bf16(views[5]), blocks, result);
  CHECK(on.number(result) ==
        square_distance({}, as_bf16(in_bf16.view(0)), as_bf16(in_bf16.view(1))));
  if (size > 0) {
    tell(on.execution(), views[0].part(size - 1, 1), result);
    CHECK(on.number(result) == number_at({}, host.view(0), size - 1));
  }
  Buffer sum = random_buffer(size, DType::f64, 7), back(size, DType::f64);
  const Vec sum_there = on.upload(sum);
  accumulate(on.execution(), views[0], sum_there);
  accumulate({}, host.view(0), sum);
  on.read(sum_there, back);
  CHECK(std::memcmp(back.vec().data, sum.vec().data, 8 * size) == 0);
  Buffer filled(size, dtype);
  const Vec filled_there = on.make(size, dtype, 1);
  fill(on.execution(), 0.3, filled_there);
  on.read(filled_there, filled);
  for (size_t i = 0; i < size; ++i)
    CHECK(element(filled, i) == (dtype == DType::f64 ? 0.3 : static_cast<double>(0.3f)));
  const auto finite = [&] {
    all_finite(on.execution(), views[0], result);
    const double first = on.number(result);
    mix_and_take(on.execution(), 0.1, views[0], views[1], views[3], views[4], result);
    CHECK(on.number(result) == first);
    return first == 1;
  };
  CHECK(finite());
  for (const double bad : {std::nan(""), HUGE_VAL}) {
    if (size == 0) continue;
    Buffer one(1, dtype);
    if (dtype == DType::f32) {
      one.vec().as<float>()[0] = static_cast<float>(bad);
    } else {
      one.vec().as<double>()[0] = bad;
    }
    on.write(one, views[0].part(size - 1, 1));
    all_finite(on.execution(), views[0], result);
    CHECK(on.number(result) == 0);
    mix_and_take(on.execution(), 0.1, views[0], views[1], views[3], views[4], result);
    CHECK(on.number(result) == 0);
    CHECK(finite());  // a front that was not is x again
  }
}

/// The largest difference of a matrix pass to the CPU's, of `times`, and of all others together.
struct MatrixErrors {
  double times = 0, others = 0;
};

inline MatrixErrors matrix_errors(OnDevice& on, DType dtype, const LowRank& shape) {
  on.clear();
  const size_t size = shape.rows * shape.columns;
  Buffer x = random_buffer(size, dtype, 1), x_tilde = random_buffer(size, dtype, 2);
  Buffer p = random_buffer(shape.rows * shape.rank, dtype, 3);
  Buffer q = random_buffer(shape.columns * shape.rank, dtype, 4);
  const Vec x_there = on.upload(x, 1), twin_there = on.upload(x_tilde);
  const Vec p_there = on.upload(p), q_there = on.upload(q, 1);
  const auto apart = [&](Vec there, Buffer& here) {
    Buffer back(here.size(), dtype);
    on.read(there, back);
    double most = 0;
    for (size_t i = 0; i < here.size(); ++i)
      most = std::max(most, std::abs(element(back, i) - element(here, i)));
    return most;
  };
  MatrixErrors errors;
  mix_and_add_low_rank({}, shape, 0.2, 0.5, 1.5, p, q, x, x_tilde);
  mix_and_add_low_rank(on.execution(), shape, 0.2, 0.5, 1.5, p_there, q_there, x_there, twin_there);
  add_low_rank({}, shape, -0.3, p, q, x);
  add_low_rank(on.execution(), shape, -0.3, p_there, q_there, x_there);
  errors.others = std::max(apart(x_there, x), apart(twin_there, x_tilde));
  transposed_times({}, shape, x, p, q);
  transposed_times(on.execution(), shape, x_there, p_there, q_there);
  orthonormalise({}, shape.columns, shape.rank, q);
  orthonormalise(on.execution(), shape.columns, shape.rank, q_there);
  errors.others = std::max(errors.others, apart(q_there, q));
  times({}, shape, x, q, p);
  times(on.execution(), shape, x_there, q_there, p_there);
  errors.times = apart(p_there, p);
  return errors;
}

}  // namespace grapevine::testing
