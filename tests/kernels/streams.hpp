// Six vectors for every pass, with guards around them.
#pragma once
#include <cmath>
#include <cstring>
#include <vector>

#include "tests/kernels/tools.hpp"

namespace grapevine::testing {

/// Six vectors in one order for all passes: g (sent, input), received, v, x, x~, out. `shift`
/// elements past alignment; v is nowhere negative, as Adam wants it. What lies before and behind a
/// view is a guard that no pass may touch.
class Streams {
 public:
  static constexpr int kCount = 6;

  Streams(size_t size, DType dtype, size_t shift) : size_(size), shift_(shift) {
    for (int k = 0; k < kCount; ++k) {
      buffers_.push_back(random_buffer(size + shift + 2, dtype, 100 + static_cast<uint64_t>(k)));
    }
    for (size_t i = 0; i < buffers_[2].size(); ++i) {
      if (dtype == DType::f32) {
        float& v = buffers_[2].vec().as<float>()[i];
        v = std::abs(v);
      } else {
        double& v = buffers_[2].vec().as<double>()[i];
        v = std::abs(v);
      }
    }
  }

  /// From others of the same size: to draw millions of numbers anew takes far longer.
  void copy(const Streams& other) {
    for (size_t k = 0; k < kCount; ++k) {
      const Vec here = buffers_[k];
      std::memcpy(here.data, other.buffers_[k].vec().data, here.bytes());
    }
  }

  Vec view(int k) { return buffers_[static_cast<size_t>(k)].vec().part(shift_, size_); }
  ConstVec view(int k) const { return buffers_[static_cast<size_t>(k)].vec().part(shift_, size_); }

  bool guards_intact() const {
    const Streams fresh(size_, buffers_[0].dtype(), shift_);
    for (size_t k = 0; k < kCount; ++k) {
      for (size_t i = 0; i < buffers_[k].size(); ++i) {
        const bool inside = i >= shift_ && i < shift_ + size_;
        if (!inside && element(buffers_[k], i) != element(fresh.buffers_[k], i)) return false;
      }
    }
    return true;
  }

  bool same_bits(const Streams& other) const {
    for (size_t k = 0; k < kCount; ++k) {
      const ConstVec a = buffers_[k], b = other.buffers_[k];
      if (a.bytes() != b.bytes() || std::memcmp(a.data, b.data, a.bytes()) != 0) return false;
    }
    return true;
  }

 private:
  size_t size_, shift_;
  std::vector<Buffer> buffers_;
};

}  // namespace grapevine::testing
