// The inside of low_rank.hpp: a call's arguments once they are checked, and one build's passes.
// Plain structs only, see passes.hpp.
#pragma once
#include <cstddef>

#include "kernels/passes/elements.hpp"

namespace grapevine {

/// Thin columns that one pass takes.
constexpr size_t kMostThin = 4;

// each() takes the shape from the arguments, and no size.

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
  size_t rows, columns, rank;  // of the factors here, at most kMostThin
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

/// On a device: column[i] = values[i] for i < count where `square`, the column's, says that it has
/// no direction, or in any case. The values travel with the launch.
struct RenewArguments {
  static constexpr size_t kMost = 480;  // of one launch, whose arguments end at 4 KB
  size_t count;
  bool always;
  const void* square;  // a double
  void* column;        // from its first element here
  double values[kMost];

  void each(size_t, size_t width, const auto& see) {
    see(square, sizeof(double), Access::reads);
    see(column, count * width, Access::updates);
  }
};

/// `wide` means fp64. A pass takes a range of the rows or of the columns of X; no result depends on
/// where the ranges end.
struct LowRankBuild {
  void (*times)(bool wide, const ProductArguments&, size_t first_row, size_t last_row);
  void (*transposed_times)(bool wide, const ProductArguments&, size_t first_column,
                           size_t last_column);
  void (*add)(bool wide, const AddLowRankArguments&, size_t first_row, size_t last_row);
  void (*orthonormalise)(bool wide, size_t rows, size_t rank, void* factor);
};

}  // namespace grapevine
