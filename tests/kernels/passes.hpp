// Every elementwise pass in every combination of its optional vectors, over one set of six streams.
#pragma once
#include <array>
#include <string>
#include <vector>

#include "kernels/passes/ops.hpp"
#include "tests/kernels/streams.hpp"

namespace grapevine::testing {

struct Case {
  enum Pass {
    extrapolate,
    jump,
    rounded,  // what an exchange in bf16 takes: two messages and the jump
    step,
    take,
    axpy,
    scale,
    adam,
    combine,
    gather,
    scatter
  } pass = extrapolate;
  bool tilde = true, with_v = true, with_copy = true;
  GradientStep how = {};
  double c = 0.31, alpha = 0.5, alpha_tilde = 1.87;
  bool decoupled = false;        // adam
  int terms = 1;                 // combine
  bool in_place = false;         // combine: into x, which is a term
  size_t first = 0, stride = 1;  // gather, scatter

  std::string name() const {
    const char* names[] = {"extrapolate", "mix_and_jump", "in bf16",   "mix_and_step",
                           "mix_and_take", "axpy",        "scale",     "adam_step",
                           "combine",     "gather",       "scatter"};
    return std::string(names[pass]) + (tilde ? " x~" : "") + (with_v ? " v" : "") +
           (with_copy ? " copy" : "") + (how.nesterov ? " nesterov" : "") +
           (how.weight_decay > 0 ? " decay" : "") + (decoupled ? " decoupled" : "") +
           (terms > 1 ? " " + std::to_string(terms) : "") + (in_place ? " in place" : "") +
           (stride > 1 ? " every " + std::to_string(stride) : "");
  }

  AdamStep adam_step() const {
    AdamStep step{0.1, 0.9, 0.99};
    step.weight_decay = how.weight_decay;
    step.decoupled = decoupled;
    step.t = 3;
    return step;
  }

  /// Coefficient and stream of the k-th term.
  static double factor(int k) { return (k % 2 == 0 ? 0.3 : -0.4) + 0.01 * k; }
  static int stream(int k) { return std::array{0, 3, 1, 4}[static_cast<size_t>(k % 4)]; }

  /// Elements that gather and scatter move, of `size`.
  size_t moved(size_t size) const {
    return size > first ? (size - first + stride - 1) / stride : 0;
  }
};

inline std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const bool tilde : {true, false}) {
    cases.push_back({Case::extrapolate, tilde});
    cases.push_back({Case::jump, tilde});
    cases.push_back({Case::rounded, tilde});
    cases.push_back({Case::take, tilde});
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
  const auto add = [&cases](Case c, auto&&... changes) {
    (changes(c), ...);
    cases.push_back(c);
  };
  for (const bool tilde : {true, false}) {
    for (const bool copy : {true, false}) {
      for (const bool decoupled : {true, false}) {
        add({Case::adam, tilde, true, copy, {0, 0, false, 0.05}},
            [&](Case& c) { c.decoupled = decoupled; });
      }
    }
  }
  for (const int terms : {1, 2, 3, 4, 5, 6, 7, 8, 9, 20}) {
    for (const bool in_place : {false, true}) {
      add({Case::combine}, [&](Case& c) { c.terms = terms, c.in_place = in_place && terms > 1; });
    }
  }
  for (const Case::Pass pass : {Case::gather, Case::scatter}) {
    for (const size_t stride : {1, 2, 5}) {
      for (const size_t first : {0, 1}) {
        add({pass}, [&](Case& c) { c.stride = stride, c.first = first; });
      }
    }
  }
  return cases;
}

/// The start of v, as numbers of half the size.
inline Vec as_bf16(const Vec& v) { return {v.data, v.size, DType::bf16}; }

/// The pass on six given views; a stream that the case leaves out is passed as a null view. `found`
/// gets what `take` finds out where it is given, as it must be on a device.
inline void run_on(const Case& c, const Execution& on, const std::vector<Vec>& s, Vec found = {}) {
  const Vec v = c.with_v ? s[2] : Vec();
  const Vec x_tilde = c.tilde ? s[4] : Vec();
  switch (c.pass) {
    case Case::extrapolate: return extrapolate(on, c.c, s[3], x_tilde, s[5]);
    case Case::jump:
      return mix_and_jump(on, c.c, c.alpha, c.alpha_tilde, s[0], s[1], s[3], x_tilde);
    case Case::rounded:
      extrapolate(on, c.c, s[3], x_tilde, as_bf16(s[5]));
      extrapolate(on, c.c, s[0], {}, as_bf16(s[2]));
      return mix_and_jump(on, c.c, c.alpha, c.alpha_tilde, as_bf16(s[5]), as_bf16(s[2]), s[3],
                          x_tilde);
    case Case::step:
      return mix_and_step(on, c.c, c.how, s[0], v, s[3], x_tilde, c.with_copy ? s[5] : Vec());
    case Case::take:
      if (found) return mix_and_take(on, c.c, s[0], s[1], s[3], x_tilde, found);
      return void(mix_and_take(on, c.c, s[0], s[1], s[3], x_tilde));
    case Case::axpy: return axpy(on, c.alpha, s[0], s[3]);
    case Case::scale: return scale(on, c.alpha, s[0], s[5]);
    case Case::adam:
      return adam_step(on, c.c, c.adam_step(), s[0], s[1], s[2], s[3], x_tilde,
                       c.with_copy ? s[5] : Vec());
    case Case::combine: {
      std::vector<Term> terms;
      for (int k = 0; k < c.terms; ++k) {
        terms.push_back({c.factor(k), s[static_cast<size_t>(c.stream(k))]});
      }
      return combine(on, terms, c.in_place ? s[3] : s[5]);
    }
    case Case::gather: return gather(on, s[3], c.first, c.stride, s[5].part(0, c.moved(s[5].size)));
    case Case::scatter:
      return scatter(on, Vec(s[3].part(0, c.moved(s[3].size))), c.first, c.stride, s[5]);
  }
}

inline void run(const Case& c, const Execution& on, Streams& streams) {
  std::vector<Vec> views;
  for (int k = 0; k < Streams::kCount; ++k)
    views.push_back(streams.view(k));
  run_on(c, on, views);
}

}  // namespace grapevine::testing
