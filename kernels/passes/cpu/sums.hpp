// The reductions of one CPU build; included by loops.hpp. Sums run in double lanes and are folded
// in a fixed order, so they have the same bits in every build.
#pragma once
#include "kernels/passes/passes.hpp"

namespace grapevine {
namespace {

/// Adds term(i) to lane i mod kReductionLanes. `term` is inlined, and the inner loop becomes a few
/// vector instructions.
template <class Term>
double sum(size_t first, size_t last, const Term& term) {
  double lane[kReductionLanes] = {};
  size_t i = first;
  for (; i + kReductionLanes <= last; i += kReductionLanes) {
#pragma GCC ivdep
    for (size_t l = 0; l < kReductionLanes; ++l)
      lane[l] += term(i + l);
  }
  for (size_t l = 0; i < last; ++i, ++l)
    lane[l] += term(i);
  return fold(lane);
}

template <class T>
double deviation(const T* x, const double* reference, double* total, size_t first, size_t last) {
  return sum(
      first, last, [=](size_t i) __attribute__((always_inline)) {
        const double d = static_cast<double>(x[i]) - reference[i];
        total[i] += d;
        return d * d;
      });
}

template <class T>
double dot(const T* x, const T* y, size_t first, size_t last) {
  return sum(
      first, last, [=](size_t i) __attribute__((always_inline)) {
        return static_cast<double>(x[i]) * static_cast<double>(y[i]);
      });
}

template <class T>
double distance(const T* x, const T* y, size_t first, size_t last) {
  return sum(
      first, last, [=](size_t i) __attribute__((always_inline)) {
        const double d =
            static_cast<double>(widened(x[i])) - static_cast<double>(widened(y[i]));
        return d * d;
      });
}

// x - x is 0 for a finite x and NaN for any other.
template <class T>
bool finite(const T* x, size_t first, size_t last) {
  int others = 0;
  for (size_t i = first; i < last; ++i)
    others |= !(x[i] - x[i] == T(0));
  return others == 0;
}

double deviation_of(bool wide, const void* x, const double* reference, double* total, size_t first,
                    size_t last) {
  return wide ? deviation(in<double>(x), reference, total, first, last)
              : deviation(in<float>(x), reference, total, first, last);
}

double dot_of(bool wide, const void* x, const void* y, size_t first, size_t last) {
  return wide ? dot(in<double>(x), in<double>(y), first, last)
              : dot(in<float>(x), in<float>(y), first, last);
}

double distance_of(bool wide, const void* x, const void* y, size_t first, size_t last) {
  return wide ? distance(in<double>(x), in<double>(y), first, last)
              : distance(in<float>(x), in<float>(y), first, last);
}

double rounded_distance_of(const void* x, const void* y, size_t first, size_t last) {
  return distance(in<BFloat16>(x), in<BFloat16>(y), first, last);
}

bool finite_of(bool wide, const void* x, size_t first, size_t last) {
  return wide ? finite(in<double>(x), first, last) : finite(in<float>(x), first, last);
}

}  // namespace
}  // namespace grapevine
