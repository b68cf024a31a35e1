// The inside of low_rank.hpp: a call's arguments once they are checked, and one build's passes.
// Plain structs only, see passes.hpp.
#pragma once
#include <cstddef>

namespace grapevine {

/// Thin columns that one pass takes.
constexpr size_t kMostThin = 4;

/// A product of X with a thin factor of `rank` columns, at most kMostThin.
struct ProductArguments {
  size_t rows, columns, rank;
  const void *x, *factor;
  void* out;
};

struct TimesArguments : ProductArguments {};            // out = X factor
struct TransposedTimesArguments : ProductArguments {};  // out = X^T factor

struct AddLowRankArguments {
  size_t rows, columns, rank;  // of the factors here, at most kMostThin
  double c, a, b;
  const void *p, *q;
  void *x, *x_tilde;  // x_tilde may be null
};

struct OrthonormaliseArguments {
  size_t rows, rank;
  void* factor;
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
