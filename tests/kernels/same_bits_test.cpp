// No pass's bits depend on the instruction set, on streaming past the caches, or on the threads.
#include <cmath>

#include "kernels/base/fork_join.hpp"
#include "kernels/passes/launch.hpp"
#include "tests/catch.hpp"
#include "tests/kernels/passes.hpp"

using namespace grapevine;
using namespace grapevine::testing;

namespace {

constexpr Execution kCpu{};

/// The same pass by one build for the CPU, past the choice that ops.hpp makes.
void run_build(const Case& c, const CpuBuild& build, bool streamed, Streams& s) {
  const bool wide = s.view(0).dtype == DType::f64;
  const size_t n = s.view(0).size;
  void* p[Streams::kCount];
  for (int k = 0; k < Streams::kCount; ++k)
    p[k] = s.view(k).data;
  void* tilde = c.tilde ? p[4] : nullptr;
  const auto element_at = [&](void* from, size_t i) {
    return static_cast<char*>(from) + (c.moved(n) > 0 ? i * (wide ? 8 : 4) : 0);
  };
  const auto loop = [&](const auto& arguments, size_t size) {
    passes::run(build, wide, arguments, 0, size);
  };
  switch (c.pass) {
    case Case::extrapolate: return loop(ExtrapolateArguments{c.c, p[3], p[4], p[5], streamed}, n);
    case Case::jump:
      return loop(JumpArguments{c.c, c.alpha, c.alpha_tilde, p[0], p[1], p[3], tilde}, n);
    case Case::rounded:
      loop(RoundArguments{c.c, p[3], tilde, p[5]}, n);
      loop(RoundArguments{c.c, p[0], nullptr, p[2]}, n);
      return loop(RoundedJumpArguments{c.c, c.alpha, c.alpha_tilde, p[5], p[2], p[3], tilde}, n);
    case Case::step:
      return loop(StepArguments{c.c, c.how.lr, c.how.momentum, c.how.weight_decay, c.how.nesterov,
                                p[0], c.with_v ? p[2] : nullptr, p[3], tilde,
                                c.with_copy ? p[5] : nullptr, streamed},
                  n);
    case Case::take: return void(build.take(wide, {c.c, p[0], p[1], p[3], tilde}, 0, n));
    case Case::axpy: return loop(AxpyArguments{c.alpha, p[0], p[3]}, n);
    case Case::scale: return loop(ScaleArguments{c.alpha, p[0], p[5]}, n);
    case Case::adam: {
      const AdamStep a = c.adam_step();
      const double t = static_cast<double>(a.t);
      return loop(
          AdamArguments{c.c, a.lr, a.beta1, a.beta2, 1 / (1 - std::pow(a.beta1, t)),
                        1 / (1 - std::pow(a.beta2, t)), a.epsilon, a.weight_decay, a.decoupled,
                        p[0], p[1], p[2], p[3], tilde, c.with_copy ? p[5] : nullptr, streamed},
          n);
    }
    case Case::combine: {
      CombineArguments a{};
      a.count = c.terms;
      for (int k = 0; k < c.terms; ++k)
        a.a[k] = c.factor(k), a.x[k] = p[c.stream(k)];
      a.out = p[c.in_place ? 3 : 5];
      a.streamed = streamed && !c.in_place;
      return loop(a, n);
    }
    case Case::gather:
      return loop(GatherArguments{c.stride, element_at(p[3], c.first), p[5]}, c.moved(n));
    case Case::scatter:
      return loop(ScatterArguments{c.stride, p[3], element_at(p[5], c.first)}, c.moved(n));
  }
}

}  // namespace

TEST_CASE("every build that this processor runs gives the same bits, streamed past caches or not") {
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const Case& c : all_cases()) {
      for (const size_t size : {2, 17, 3003}) {
        for (const size_t shift : {0, 1}) {
          Streams first(size, dtype, shift);
          run(c, kCpu, first);
          for (const CpuBuild* const* build = cpu_builds(); *build != nullptr; ++build) {
            for (const bool streamed : {false, true}) {
              if (c.pass == Case::extrapolate && !c.tilde) continue;  // a plain copy, no build's
              if (c.terms > CombineArguments::kMost) continue;        // several passes
              Streams other(size, dtype, shift);
              run_build(c, **build, streamed, other);
              INFO(c.name() << " " << (*build)->name << " " << streamed << " " << size);
              CHECK(first.same_bits(other));
            }
          }
        }
      }
    }
    const Streams s(1003, dtype, 1);
    const bool wide = dtype == DType::f64;
    const double dot_0 = cpu_builds()[0]->dot(wide, s.view(0).data, s.view(1).data, 0, 1003);
    const double apart = cpu_builds()[0]->distance(wide, s.view(0).data, s.view(1).data, 0, 1003);
    Streams in_bf16(1003, dtype, 1);
    for (const int k : {0, 1})
      extrapolate(kCpu, 0, s.view(k), {}, as_bf16(in_bf16.view(k)));
    const ConstVec a = as_bf16(in_bf16.view(0)), b = as_bf16(in_bf16.view(1));
    const double rounded_apart = square_distance(kCpu, a, b);
    for (const CpuBuild* const* build = cpu_builds(); *build != nullptr; ++build) {
      CHECK((*build)->rounded_distance(a.data, b.data, 0, 1003) == rounded_apart);
      CHECK((*build)->rounded_distance(b.data, a.data, 0, 1003) == rounded_apart);
      CHECK((*build)->dot(wide, s.view(0).data, s.view(1).data, 0, 1003) == dot_0);
      CHECK((*build)->distance(wide, s.view(0).data, s.view(1).data, 0, 1003) == apart);
      CHECK((*build)->distance(wide, s.view(1).data, s.view(0).data, 0, 1003) == apart);
    }
  }
}

TEST_CASE("the bits do not depend on the number of threads") {
  for (const DType dtype : {DType::f32, DType::f64}) {
    constexpr size_t kSize = 300007;  // above the size from which passes are split
    const Buffer reference = random_buffer(kSize, DType::f64, 50);
    std::vector<double> dots, squares, distances;
    for (const int threads : {1, 2, 3}) {
      ForkJoin pool(threads);
      const Execution on{&pool};
      const Streams s(kSize, dtype, 0);
      Buffer sum(kSize, DType::f64);
      dots.push_back(dot(on, s.view(0), s.view(1)));
      squares.push_back(add_deviation(on, s.view(0), reference, sum));
      distances.push_back(square_distance(on, s.view(0), s.view(1)));
      CHECK(dots.back() == dots.front());
      CHECK(distances.back() == distances.front());
      CHECK(squares.back() == squares.front());
    }
    for (const Case& c : all_cases()) {
      if (!c.tilde || !c.with_v) continue;
      if (c.pass == Case::combine && c.terms != 3 && c.terms != 20) continue;
      Streams one(kSize, dtype, 0);
      run(c, kCpu, one);
      for (const int threads : {2, 3}) {
        ForkJoin pool(threads);
        Streams many(kSize, dtype, 0);
        run(c, {&pool}, many);
        INFO(c.name() << " " << threads);
        CHECK(one.same_bits(many));
      }
    }
  }
}
