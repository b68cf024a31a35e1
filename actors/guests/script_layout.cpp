#include "actors/guests/script_layout.hpp"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace grapevine {

namespace {

std::string shown(const GuestLayout::Tensor& tensor) {
  return fmt::format("{} [{}]", tensor.name, fmt::join(tensor.shape, ", "));
}

std::string shown(const GuestLayout::Outer& outer) {
  return outer.lr > 0 ? fmt::format("outer=({}, {})", outer.lr, outer.momentum) : "no outer=";
}

/// The first difference between two lists, as text; empty: none.
std::string difference(const std::vector<GuestLayout::Tensor>& ours,
                       const std::vector<GuestLayout::Tensor>& theirs) {
  const size_t both = std::min(ours.size(), theirs.size());
  for (size_t k = 0; k < both; ++k)
    if (!(ours[k] == theirs[k]))
      return fmt::format("{} where this run has {}", shown(theirs[k]), shown(ours[k]));
  if (ours.size() == theirs.size()) return {};
  return ours.size() > theirs.size()
             ? fmt::format("no {}", shown(ours[both]))
             : fmt::format("{}, which is not in this run", shown(theirs[both]));
}

void add(const std::vector<GuestLayout::Tensor>& tensors, ParameterLayout& layout) {
  for (const GuestLayout::Tensor& tensor : tensors)
    layout.add(tensor.name, tensor.shape, true);
}

}  // namespace

std::string counted(const GuestLayout& layout) {
  return fmt::format("{} parameters in {} tensors", layout.trained_elements(),
                     layout.trained.size());
}

std::string difference(const GuestLayout& ours, const GuestLayout& theirs) {
  if (!(theirs.outer == ours.outer))
    return fmt::format("{}; this run has {}", shown(theirs.outer), shown(ours.outer));
  std::string other = difference(ours.trained, theirs.trained);
  if (other.empty()) other = difference(ours.aside, theirs.aside);
  if (other.empty()) other = difference(ours.aside64, theirs.aside64);
  if (other.empty()) return {};
  return fmt::format("a layout of {}; this run trains {}: {}", counted(theirs), counted(ours),
                     other);
}

DType aside_type(const GuestLayout& layout) {
  return layout.aside64.empty() ? DType::f32 : DType::f64;
}

std::shared_ptr<GuestObjective> objective_of(const GuestLayout& from, Buffer start, Buffer aside) {
  ParameterLayout trained(DType::f32), statistics(aside_type(from));
  add(from.trained, trained);
  add(from.aside, statistics);
  add(from.aside64, statistics);
  std::vector<TiedName> tied;
  for (const GuestLayout::Tied& t : from.tied)
    tied.push_back({t.name, t.of, t.shape, t.strides});
  return std::make_shared<GuestObjective>(std::move(trained), std::move(statistics),
                                          std::move(start), std::move(aside), from.aside.size(),
                                          std::move(tied));
}

Buffer read_aside(const GuestLayout& layout, const void* memory) {
  const size_t narrow = GuestLayout::elements(layout.aside);
  const size_t wide = GuestLayout::elements(layout.aside64);
  const auto* const bytes = static_cast<const char*>(memory);
  const auto* const floats = reinterpret_cast<const float*>(bytes) + layout.trained_elements();
  Buffer values(narrow + wide, aside_type(layout));
  if (wide == 0) {
    if (narrow > 0) std::memcpy(values.vec().data, floats, values.vec().bytes());
    return values;
  }
  std::copy_n(floats, narrow, values.vec().as<double>());
  std::memcpy(values.vec().as<double>() + narrow, bytes + layout.aside64_at(),
              wide * sizeof(double));
  return values;
}

void write_aside(const GuestLayout& layout, ConstVec values, void* memory) {
  const size_t narrow = GuestLayout::elements(layout.aside);
  auto* const bytes = static_cast<char*>(memory);
  auto* const floats = reinterpret_cast<float*>(bytes) + layout.trained_elements();
  if (values.size == 0) return;
  if (values.dtype == DType::f32) return void(std::memcpy(floats, values.data, values.bytes()));
  for (size_t k = 0; k < narrow; ++k)
    floats[k] = static_cast<float>(values.as<double>()[k]);
  std::memcpy(bytes + layout.aside64_at(), values.as<double>() + narrow,
              (values.size - narrow) * sizeof(double));
}

}  // namespace grapevine
