#include "kernels/passes/low_rank.hpp"

#include "kernels/passes/launch.hpp"

namespace grapevine {

using namespace passes;

namespace {

void check_factors(const LowRank& shape, const ConstVec& x, const ConstVec& p, const ConstVec& q) {
  GV_CHECK(shape.rank >= 1u);
  check_view(x, shape.rows * shape.columns, x.dtype);
  check_view(p, shape.rows * shape.rank, x.dtype);
  check_view(q, shape.columns * shape.rank, x.dtype);
}

/// Columns [k, k + some) of a factor whose columns have `length` elements.
ConstVec thin(const ConstVec& factor, size_t length, size_t k, size_t some) {
  return factor.part(k * length, some * length);
}
Vec thin(const Vec& factor, size_t length, size_t k, size_t some) {
  return factor.part(k * length, some * length);
}

/// Calls part(k, some) for groups of at most kMostThin columns.
template <class Part>
void for_thin(const LowRank& shape, const Part& part) {
  for (size_t k = 0; k < shape.rank; k += kMostThin) {
    part(k, std::min(kMostThin, shape.rank - k));
  }
}

/// The number of lines of X in about one block of a pass.
size_t lines(size_t length) { return std::max<size_t>(1, kReductionBlock / length); }

constexpr size_t kColumnGrain = 64;  // each thread gets complete cache lines of every row

}  // namespace

void times(const Execution& on, const LowRank& shape, ConstVec x, ConstVec q, Vec p) {
  check_factors(shape, x, p, q);
  if (shape.rows == 0) return;
  for_thin(shape, [&](size_t k, size_t some) {
    const TimesArguments g{{shape.rows, shape.columns, some, x.data,
                            thin(q, shape.columns, k, some).data,
                            thin(p, shape.rows, k, some).data}};
    if (on.device != nullptr) return queue(on, wide(x.dtype), g, x.size);
    split(on, shape.rows, x.bytes(), lines(shape.columns + 1), [&](size_t first, size_t last) {
      best_build().low_rank.times(wide(x.dtype), g, first, last);
    });
  });
}

void transposed_times(const Execution& on, const LowRank& shape, ConstVec x, ConstVec p, Vec q) {
  check_factors(shape, x, p, q);
  if (shape.columns == 0) return;
  for_thin(shape, [&](size_t k, size_t some) {
    const TransposedTimesArguments g{{shape.rows, shape.columns, some, x.data,
                                      thin(p, shape.rows, k, some).data,
                                      thin(q, shape.columns, k, some).data}};
    if (on.device != nullptr) return queue(on, wide(x.dtype), g, x.size);
    split(on, shape.columns, x.bytes(), kColumnGrain, [&](size_t first, size_t last) {
      best_build().low_rank.transposed_times(wide(x.dtype), g, first, last);
    });
  });
}

void add_low_rank(const Execution& on, const LowRank& shape, double a, ConstVec p, ConstVec q,
                  Vec x) {
  mix_and_add_low_rank(on, shape, 0, a, 0, p, q, x, {});
}

void mix_and_add_low_rank(const Execution& on, const LowRank& shape, double c, double a, double b,
                          ConstVec p, ConstVec q, Vec x, Vec x_tilde) {
  check_factors(shape, x, p, q);
  check_optional(x, x_tilde);
  if (x.size == 0) return;
  for_thin(shape, [&](size_t k, size_t some) {
    const AddLowRankArguments g{shape.rows,
                                shape.columns,
                                some,
                                k == 0 ? c : 0,  // mixed once
                                a,
                                b,
                                thin(p, shape.rows, k, some).data,
                                thin(q, shape.columns, k, some).data,
                                x.data,
                                x_tilde.data};
    if (on.device != nullptr) return queue(on, wide(x.dtype), g, x.size);
    split(on, shape.rows, x.bytes(), lines(shape.columns), [&](size_t first, size_t last) {
      best_build().low_rank.add(wide(x.dtype), g, first, last);
    });
  });
}

namespace {

/// The square of the column stays in device memory; launches carry the new values.
void queue_renewal(const Execution& on, bool always, const Vec& column,
                   const std::function<double(size_t)>& entry) {
  GV_CHECK((on.workspace != nullptr));
  const size_t blocks = reduction_blocks(column.size);
  // For this stream alone, so it may be returned as soon as all work is queued.
  Buffer scratch(on, blocks + 1, DType::f64);
  const Vec found = scratch;
  const Vec square = found.part(blocks, 1);
  dot(on, column, column, found.part(0, blocks), square);
  for (size_t first = 0; first < column.size; first += RenewArguments::kMost) {
    RenewArguments a{};
    a.count = std::min(RenewArguments::kMost, column.size - first);
    a.always = always;
    a.square = square.data;
    a.column = column.part(first, a.count).data;
    for (size_t i = 0; i < a.count; ++i)
      a.values[i] = entry(first + i);
    queue(on, wide(column.dtype), a, a.count);
  }
}

}  // namespace

void renew(const Execution& on, bool always, Vec column,
           const std::function<double(size_t row)>& entry) {
  check_same(column, column);
  if (on.device != nullptr) return queue_renewal(on, always, column, entry);
  if (!always && has_direction(dot(on, column, column))) return;
  for (size_t i = 0; i < column.size; ++i) {
    if (column.dtype == DType::f64) {
      column.as<double>()[i] = entry(i);
    } else {
      column.as<float>()[i] = static_cast<float>(entry(i));
    }
  }
}

void orthonormalise(const Execution& on, size_t rows, size_t rank, Vec factor) {
  check_view(factor, rows * rank, factor.dtype);
  if (factor.size == 0) return;
  if (on.device != nullptr) {
    return queue(on, wide(factor.dtype), OrthonormaliseArguments{rows, rank, factor.data},
                 factor.size);
  }
  best_build().low_rank.orthonormalise(wide(factor.dtype), rows, rank, factor.data);
}

}  // namespace grapevine
