// Modified Gram-Schmidt of one CPU build; included by low_rank.hpp. The CUDA version adds in the
// same order.
#pragma once
#include "kernels/passes/elements_low_rank.hpp"

namespace grapevine {
namespace {

template <class T>
double ortho_dot(const T* x, const T* y, size_t size) {
  double lane[kOrthoLanes] = {};
  size_t i = 0;
  for (; i + kOrthoLanes <= size; i += kOrthoLanes) {
#pragma GCC ivdep
    for (size_t l = 0; l < kOrthoLanes; ++l) {
      lane[l] += static_cast<double>(x[i + l]) * static_cast<double>(y[i + l]);
    }
  }
  for (size_t l = 0; i < size; ++i, ++l) {
    lane[l] += static_cast<double>(x[i]) * static_cast<double>(y[i]);
  }
  for (size_t half = kOrthoLanes / 2; half > 0; half /= 2) {
    for (size_t l = 0; l < half; ++l)
      lane[l] += lane[l + half];
  }
  return lane[0];
}

template <class T>
void orthonormalise(size_t rows, size_t rank, T* factor) {
  for (size_t k = 0; k < rank; ++k) {
    T* const column = factor + k * rows;
    const double inverse = 1 / (__builtin_sqrt(ortho_dot(column, column, rows)) + 1e-8);
    for (size_t i = 0; i < rows; ++i)
      column[i] = T(static_cast<double>(column[i]) * inverse);
    for (size_t later = k + 1; later < rank; ++later) {
      T* const other = factor + later * rows;
      const double share = ortho_dot(column, other, rows);
#pragma GCC ivdep
      for (size_t i = 0; i < rows; ++i) {
        other[i] = T(static_cast<double>(other[i]) - share * static_cast<double>(column[i]));
      }
    }
  }
}

}  // namespace
}  // namespace grapevine
