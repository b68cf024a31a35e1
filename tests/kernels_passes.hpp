// Every elementwise pass in every combination of its optional vectors, over one set of six streams.
#pragma once
#include <cstring>
#include <string>
#include <vector>

#include "kernels/ops.hpp"
#include "kernels/passes.hpp"
#include "tests/kernels_tools.hpp"

namespace grapevine::testing {

struct Case {
  enum Pass { look, jump, step, axpy, scale } pass = look;
  bool tilde = true, with_v = true, with_copy = true;
  GradientStep how = {};
  double c = 0.31, alpha = 0.5, alpha_tilde = 1.87;

  std::string name() const {
    const char* names[] = {"look", "mix_and_jump", "mix_and_step", "axpy", "scale"};
    return std::string(names[pass]) + (tilde ? " x~" : "") + (with_v ? " v" : "") +
           (with_copy ? " copy" : "") + (how.nesterov ? " nesterov" : "") +
           (how.weight_decay > 0 ? " decay" : "");
  }
};

inline std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const bool tilde : {true, false}) {
    cases.push_back({Case::look, tilde});
    cases.push_back({Case::jump, tilde});
    for (const bool v : {true, false}) {
      for (const bool copy : {true, false}) {
        for (const bool nesterov : {true, false}) {
          for (const double decay : {0., 0.05}) {
            cases.push_back({Case::step, tilde, v, copy, {0.1, v ? 0.9 : 0., nesterov, decay}});
          }
        }
      }
    }
  }
  cases.push_back({Case::axpy});
  cases.push_back({Case::scale});
  return cases;
}

/// Six vectors in one order for all passes: g (sent, input), received, v, x, x~, out. `shift`
/// elements past alignment. What lies before and behind a view is a guard that no pass may touch.
class Streams {
 public:
  static constexpr int kCount = 6;

  Streams(size_t size, DType dtype, size_t shift) : size_(size), shift_(shift) {
    for (int k = 0; k < kCount; ++k) {
      buffers_.push_back(random_buffer(size + shift + 2, dtype, 100 + static_cast<uint64_t>(k)));
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

/// The pass on six given views; a stream that the case leaves out is passed as a null view.
inline void run_on(const Case& c, const Execution& on, const std::vector<Vec>& s) {
  const Vec v = c.with_v ? s[2] : Vec();
  const Vec x_tilde = c.tilde ? s[4] : Vec();
  switch (c.pass) {
    case Case::look: return look(on, c.c, s[3], x_tilde, s[5]);
    case Case::jump:
      return mix_and_jump(on, c.c, c.alpha, c.alpha_tilde, s[0], s[1], s[3], x_tilde);
    case Case::step:
      return mix_and_step(on, c.c, c.how, s[0], v, s[3], x_tilde, c.with_copy ? s[5] : Vec());
    case Case::axpy: return axpy(on, c.alpha, s[0], s[3]);
    case Case::scale: return scale(on, c.alpha, s[0], s[5]);
  }
}

inline void run(const Case& c, const Execution& on, Streams& streams) {
  std::vector<Vec> views;
  for (int k = 0; k < Streams::kCount; ++k) views.push_back(streams.view(k));
  run_on(c, on, views);
}

/// The same pass by one build for the CPU, past the choice that ops.hpp makes.
inline void run_build(const Case& c, const CpuBuild& build, bool streamed, Streams& s) {
  const bool wide = s.view(0).dtype == DType::f64;
  const size_t n = s.view(0).size;
  void* p[Streams::kCount];
  for (int k = 0; k < Streams::kCount; ++k) p[k] = s.view(k).data;
  void* tilde = c.tilde ? p[4] : nullptr;
  switch (c.pass) {
    case Case::look: return build.look(wide, {c.c, p[3], p[4], p[5], streamed}, 0, n);
    case Case::jump:
      return build.jump(wide, {c.c, c.alpha, c.alpha_tilde, p[0], p[1], p[3], tilde}, 0, n);
    case Case::step:
      return build.step(wide,
                        {c.c, c.how.lr, c.how.momentum, c.how.weight_decay, c.how.nesterov,
                         p[0], c.with_v ? p[2] : nullptr, p[3], tilde,
                         c.with_copy ? p[5] : nullptr, streamed},
                        0, n);
    case Case::axpy: return build.axpy(wide, {c.alpha, p[0], p[3]}, 0, n);
    case Case::scale: return build.scale(wide, {c.alpha, p[0], p[5]}, 0, n);
  }
}

}  // namespace grapevine::testing
