#include "kernels/passes/top_k.hpp"

#include <cmath>
#include <numeric>

#include "kernels/passes/cpu/split.hpp"

namespace grapevine::codec {

using namespace passes;

namespace {

/// The size |v_i|; -1 for a NaN.
template <class T>
double size_at(const T* v, size_t i) {
  const double a = std::abs(static_cast<double>(v[i]));
  return a >= 0 ? a : -1;
}

/// The `count`-th largest of `sizes`. Reorders them.
double nth_largest(std::vector<double>& sizes, size_t count) {
  const auto nth = sizes.begin() + static_cast<std::ptrdiff_t>(count - 1);
  std::nth_element(sizes.begin(), nth, sizes.end(), std::greater<>());
  return *nth;
}

/// A threshold that probably more than `count` elements exceed, but not many more; estimated from a
/// sample.
template <class T>
double guess(const T* v, size_t size, size_t count) {
  constexpr size_t kSample = 4096;
  if (size < 4 * kSample) return 0;
  std::vector<double> sample(kSample);
  for (size_t k = 0; k < kSample; ++k)
    sample[k] = size_at(v, k * size / kSample);
  const double expected =
      static_cast<double>(count) / static_cast<double>(size) * static_cast<double>(kSample);
  const auto nth = static_cast<size_t>(expected + 4 * std::sqrt(expected) + 4);
  return nth < kSample ? std::max(0., nth_largest(sample, nth)) : 0;
}

/// The places with |v_i| >= threshold, in order.
std::vector<uint32_t> places_from(const CpuBuild& build, const ConstVec& v, double threshold) {
  std::vector<uint32_t> places;
  std::vector<uint32_t> found(kReductionBlock + kGroup);
  for (size_t i = 0; i < v.size; i += kReductionBlock) {
    const size_t count = build.packing.at_least(
        wide(v.dtype), v.data, threshold, i, std::min(v.size, i + kReductionBlock), found.data());
    places.insert(places.end(), found.begin(), found.begin() + static_cast<std::ptrdiff_t>(count));
  }
  return places;
}

template <class T>
std::vector<uint32_t> largest_of(const CpuBuild& build, const ConstVec& view, size_t count) {
  const T* v = view.as<T>();
  std::vector<uint32_t> places = places_from(build, view, guess(v, view.size, count));
  if (places.size() < count) {  // a poor sample, or NaNs: take all
    places.resize(view.size);
    std::iota(places.begin(), places.end(), 0u);
  }
  std::vector<double> sizes(places.size());
  for (size_t k = 0; k < places.size(); ++k)
    sizes[k] = size_at(v, places[k]);
  const double least = nth_largest(sizes, count);
  size_t larger = 0;
  for (const uint32_t i : places)
    larger += size_at(v, i) > least;
  size_t ties = count - larger, kept = 0;
  for (const uint32_t i : places) {
    const double size = size_at(v, i);
    if (size < least || (size == least && ties == 0)) continue;
    if (size == least) --ties;
    places[kept++] = i;
  }
  places.resize(kept);
  return places;
}

}  // namespace

std::vector<uint32_t> largest_places(const CpuBuild& build, ConstVec v, size_t count) {
  GV_CHECK(count <= v.size);
  if (count == 0) return {};
  return v.dtype == DType::f64 ? largest_of<double>(build, v, count)
                               : largest_of<float>(build, v, count);
}

}  // namespace grapevine::codec
