// ParameterLayout: the position of each tensor of a model in the flat vector that is trained, sent
// and averaged.
//
// A value. The objective makes it; rules and compressors get it when they are built. Tensors are
// contiguous, in order, without gaps: entry k+1 starts where entry k ends. Two nodes compare
// layouts by `hash()`.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/memory/hash.hpp"
#include "kernels/memory/vec.hpp"

namespace grapevine {

struct ParameterEntry {
  std::string name;
  size_t offset = 0;           // first element in the flat vector
  std::vector<int64_t> shape;  // the framework's; the product is the entry's size
  bool decays = true;          // weight decay acts on it

  size_t size() const {
    size_t product = 1;
    for (const int64_t d : shape)
      product *= static_cast<size_t>(d);
    return product;
  }
  size_t rows() const { return shape.empty() ? 1 : static_cast<size_t>(shape[0]); }
  // As a matrix: a convolution is out x (in h w). 0 if there are no rows.
  size_t columns() const { return rows() == 0 ? 0 : size() / rows(); }
};

class ParameterLayout {
 public:
  ParameterLayout() = default;
  explicit ParameterLayout(DType dtype) : dtype_(dtype) {}

  /// One unnamed vector of `size` elements: the analytic objectives.
  static ParameterLayout flat(size_t size, DType dtype) {
    ParameterLayout layout(dtype);
    layout.add("x", {static_cast<int64_t>(size)}, true);
    return layout;
  }

  void add(std::string name, std::vector<int64_t> shape, bool decays) {
    ParameterEntry entry{std::move(name), size_, std::move(shape), decays};
    size_ += entry.size();
    entries_.push_back(std::move(entry));
  }

  const std::vector<ParameterEntry>& entries() const { return entries_; }
  size_t size() const { return size_; }
  DType dtype() const { return dtype_; }
  size_t bytes() const { return size_ * size_of(dtype_); }

  /// FNV-1a over the dtype and every entry's name, shape and decay.
  uint64_t hash() const {
    uint64_t h = kHashStart;
    auto mix = [&h](uint64_t v) { h = fnv1a(std::as_bytes(std::span(&v, 1)), h); };
    mix(static_cast<uint64_t>(dtype_));
    for (const auto& e : entries_) {
      for (const char c : e.name)
        mix(static_cast<unsigned char>(c));
      for (const int64_t d : e.shape)
        mix(static_cast<uint64_t>(d));
      mix(e.decays);
    }
    return h;
  }

 private:
  DType dtype_ = DType::f32;
  size_t size_ = 0;
  std::vector<ParameterEntry> entries_;
};

}  // namespace grapevine
