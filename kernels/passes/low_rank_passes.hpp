// The implementation of low_rank.hpp: a call's checked arguments, and one build's passes. Plain
// structs only, see passes.hpp.
#pragma once
#include <cstddef>

#include "kernels/passes/elements.hpp"

namespace grapevine {

/// The most columns of a thin factor in one pass.
constexpr size_t kMostThin = 4;

// each() takes the shape from the arguments and ignores the size.

/// A product of X with a thin factor of `rank` columns, at most kMostThin.
struct ProductArguments {
  size_t rows, columns, rank;
  const void *x, *factor;
  void* out;
};

/// out = X factor.
struct TimesArguments : ProductArguments {
  void each(size_t, size_t width, const auto& see) {
    see(x, rows * columns * width, Access::reads);
    see(factor, columns * rank * width, Access::reads);
    see(out, rows * rank * width, Access::writes);
  }
};

/// out = X^T factor.
struct TransposedTimesArguments : ProductArguments {
  void each(size_t, size_t width, const auto& see) {
    see(x, rows * columns * width, Access::reads);
    see(factor, rows * rank * width, Access::reads);
    see(out, columns * rank * width, Access::writes);
  }
};

struct AddLowRankArguments {
  size_t rows, columns, rank;  // of these factors, at most kMostThin
  double c, a, b;
  const void *p, *q;
  void *x, *x_tilde;  // x_tilde may be null

  void each(size_t, size_t width, const auto& see) {
    see(p, rows * rank * width, Access::reads);
    see(q, columns * rank * width, Access::reads);
    see(x, rows * columns * width, Access::updates);
    see(x_tilde, rows * columns * width, Access::updates);
  }
};

struct OrthonormaliseArguments {
  size_t rows, rank;
  void* factor;

  void each(size_t, size_t width, const auto& see) {
    see(factor, rows * rank * width, Access::updates);
  }
};

/// On a device: column[i] = values[i] for i < count, if `square` (the column's) shows that the
/// column has no direction, or if `always`. The launch carries the values.
struct RenewArguments {
  static constexpr size_t kMost = 480;  // in one launch, whose arguments have at most 4 KB
  size_t count;
  bool always;
  const void* square;  // a double
  void* column;        // from the first element of this launch
  double values[kMost];

  void each(size_t, size_t width, const auto& see) {
    see(square, sizeof(double), Access::reads);
    see(column, count * width, Access::updates);
  }
};

/// `wide` means fp64. A pass takes a range of the rows or columns of X; no result depends on the
/// limits of the ranges.
struct LowRankBuild {
  void (*times)(bool wide, const ProductArguments&, size_t first_row, size_t last_row);
  void (*transposed_times)(bool wide, const ProductArguments&, size_t first_column,
                           size_t last_column);
  void (*add)(bool wide, const AddLowRankArguments&, size_t first_row, size_t last_row);
  void (*orthonormalise)(bool wide, size_t rows, size_t rank, void* factor);
};

}  // namespace grapevine
