#include "tests/bench/kernels_forms.hpp"

#include <chrono>
#include <cstdio>
#include <functional>

#include "kernels/memory/vec.hpp"

namespace grapevine::bench {
namespace {

#define GV_LOOP _Pragma("GCC ivdep") for (size_t i = 0; i < n; ++i)

/// One element of the front, or of base where it is not finite.
inline float sane(float front, float base) { return front - front == 0.0f ? front : base; }

/// All vectors that a form may want, of one size.
struct Vectors {
  explicit Vectors(size_t size) {
    for (Buffer& b : all) {
      b = Buffer(size, DType::f32);
      for (size_t i = 0; i < size; ++i)
        b.vec().as<float>()[i] = 1.0f + 0.01f * static_cast<float>(i % 97);
    }
    n = size;
  }
  float* operator[](size_t k) { return all[k].vec().as<float>(); }
  size_t n;
  Buffer all[8];
};

struct Form {
  const char* name;
  std::function<void(Vectors&)> step, snapshot, jump;
};

// 0 front, 1 base, 2 x or unseen, 3 x~ or d, 4 sent, 5 received, 6 the snapshot.

void step_twin(Vectors& v, float c) {
  float *front = v[0], *base = v[1], *x = v[2], *twin = v[3];
  const size_t n = v.n;
  GV_LOOP {
    const float mixed = x[i] - c * (x[i] - twin[i]), other = twin[i] - c * (twin[i] - x[i]);
    const float w = sane(front[i], base[i]) - base[i];
    twin[i] = other + w;
    front[i] = base[i] = x[i] = mixed + w;
  }
}

void snapshot_twin(Vectors& v, float c) {
  const float *x = v[2], *twin = v[3];
  float* out = v[6];
  const size_t n = v.n;
  GV_LOOP out[i] = x[i] + c * (twin[i] - x[i]);
}

void jump_twin(Vectors& v, float c) {
  const float *sent = v[4], *received = v[5];
  float *x = v[2], *twin = v[3];
  const size_t n = v.n;
  GV_LOOP {
    const float s = c * (twin[i] - x[i]), m = sent[i] - received[i];
    x[i] += s - 0.5f * m;
    twin[i] -= s + 1.5f * m;
  }
}

void step_difference(Vectors& v, float a) {
  float *front = v[0], *base = v[1], *x = v[2];
  const float* d = v[3];
  const size_t n = v.n;
  GV_LOOP front[i] = base[i] = x[i] = x[i] + a * d[i] + (sane(front[i], base[i]) - base[i]);
}

void snapshot_difference(Vectors& v, float a) {
  const float *x = v[2], *d = v[3];
  float* out = v[6];
  const size_t n = v.n;
  GV_LOOP out[i] = x[i] + a * d[i];
}

void jump_difference(Vectors& v, float a) {
  const float *sent = v[4], *received = v[5];
  float *x = v[2], *d = v[3];
  const size_t n = v.n;
  GV_LOOP {
    const float m = sent[i] - received[i];
    x[i] += a * d[i] - 0.5f * m;
    d[i] -= 1.5f * m;
  }
}

void step_unseen(Vectors& v, float a) {
  float *front = v[0], *base = v[1];
  const float *unseen = v[2], *d = v[3];
  const size_t n = v.n;
  GV_LOOP front[i] = base[i] = sane(front[i], base[i]) + unseen[i] + a * d[i];
}

void snapshot_unseen(Vectors& v, float a) {
  const float *base = v[1], *unseen = v[2], *d = v[3];
  float* out = v[6];
  const size_t n = v.n;
  GV_LOOP out[i] = base[i] + unseen[i] + a * d[i];
}

void snapshot_first(Vectors& v, float a) {
  const float *base = v[1], *d = v[3];
  float* out = v[6];
  const size_t n = v.n;
  GV_LOOP out[i] = base[i] + a * d[i];
}

void jump_unseen(Vectors& v, float) {
  const float *sent = v[4], *received = v[5];
  float *unseen = v[2], *d = v[3];
  const size_t n = v.n;
  GV_LOOP {
    const float m = sent[i] - received[i];
    unseen[i] -= 0.5f * m;
    d[i] -= 1.5f * m;
  }
}

void jump_first(Vectors& v, float) {
  const float *sent = v[4], *received = v[5];
  float *unseen = v[2], *d = v[3];
  const size_t n = v.n;
  GV_LOOP {
    const float m = sent[i] - received[i];
    unseen[i] = -0.5f * m;
    d[i] -= 1.5f * m;
  }
}

#undef GV_LOOP

std::vector<Form> forms() {
  const auto with = [](void (*pass)(Vectors&, float)) {
    return [pass](Vectors& v) { pass(v, 1e-4f); };
  };
  return {{"x, x~", with(step_twin), with(snapshot_twin), with(jump_twin)},
          {"x, d", with(step_difference), with(snapshot_difference), with(jump_difference)},
          {"unseen, d, first", with(step_unseen), with(snapshot_first), with(jump_first)},
          {"unseen, d, later", with(step_unseen), with(snapshot_unseen), with(jump_unseen)}};
}

double microseconds(Vectors& v, const std::function<void(Vectors&)>& pass, int repeats) {
  const auto start = std::chrono::steady_clock::now();
  for (int k = 0; k < repeats; ++k)
    pass(v);
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start)
             .count() /
         repeats;
}

void print_forms(size_t size, int repeats) {
  Vectors v(size);
  const std::vector<Form> all = forms();
  struct Times {
    std::vector<double> step, snapshot, jump, together, to_first;
  };
  std::vector<Times> times(all.size());
  for (int round = 0; round < 21; ++round) {
    for (size_t k = 0; k < all.size(); ++k) {
      Times& t = times[k];
      t.step.push_back(microseconds(v, all[k].step, repeats));
      t.snapshot.push_back(microseconds(v, all[k].snapshot, repeats));
      t.jump.push_back(microseconds(v, all[k].jump, repeats));
      t.together.push_back(t.step.back() + t.snapshot.back() + t.jump.back());
      t.to_first.push_back(t.together.back() / times[0].together.back());
    }
  }
  for (size_t k = 0; k < all.size(); ++k) {
    const Times& t = times[k];
    std::printf("%5.2f M  %-17s %8.0f  %8.0f  %8.0f  %8.0f  %6.2f\n",
                1e-6 * static_cast<double>(size), all[k].name, median(t.step), median(t.snapshot),
                median(t.jump), median(t.together), median(t.to_first));
  }
}

}  // namespace

void print_forms() {
  std::printf("     us  kept of a rank        STEP  snapshot      jump  together   ratio\n");
  print_forms(420'000, 40);
  print_forms(10'000'000, 1);
}

}  // namespace grapevine::bench
