#include "tests/bench/kernels_bare.hpp"

#include <bit>

namespace grapevine::bench {

#define GV_BARE_LOOP(...)                                   \
  _Pragma("GCC ivdep") for (size_t i = first; i < last; ++i) { \
    __VA_ARGS__;                                            \
  }

void bare_copy(const float* x, float* out, size_t first, size_t last) {
  GV_BARE_LOOP(out[i] = x[i])
}

void bare_scale(const float* x, float* y, size_t first, size_t last) {
  GV_BARE_LOOP(y[i] = x[i] + 1.0f)
}

void bare_axpy(const float* x, float* y, size_t first, size_t last) { GV_BARE_LOOP(y[i] += x[i]) }

void bare_look(const float* x, const float* x_tilde, float* out, size_t first, size_t last) {
  GV_BARE_LOOP(out[i] = x[i] + x_tilde[i])
}

void bare_jump(const float* sent, const float* received, float* x, float* x_tilde, size_t first,
               size_t last) {
  GV_BARE_LOOP(x[i] += sent[i]; x_tilde[i] += received[i])
}

void bare_round(const float* x, const float* x_tilde, uint16_t* out, size_t first, size_t last) {
  GV_BARE_LOOP(out[i] = static_cast<uint16_t>(std::bit_cast<uint32_t>(x[i] + x_tilde[i]) >> 16))
}

void bare_rounded_jump(const uint16_t* sent, const uint16_t* received, float* x, float* x_tilde,
                       size_t first, size_t last) {
  const auto number = [](uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); };
  GV_BARE_LOOP(x[i] += number(sent[i]); x_tilde[i] += number(received[i]))
}

void bare_jump_alone(const float* sent, const float* received, float* x, size_t first,
                     size_t last) {
  GV_BARE_LOOP(x[i] += sent[i] + received[i])
}

void bare_take(float* front, float* base, float* x, float* x_tilde, size_t first, size_t last) {
  GV_BARE_LOOP(const float a = front[i]; base[i] += a; x[i] += a; x_tilde[i] += a; front[i] = x[i])
}

void bare_step(const float* g, float* v, float* x, float* x_tilde, float* copy, size_t first,
               size_t last) {
  GV_BARE_LOOP(const float a = g[i]; v[i] += a; x[i] += a; x_tilde[i] += a; copy[i] = a)
}

void bare_step_no_copy(const float* g, float* v, float* x, float* x_tilde, size_t first,
                       size_t last) {
  GV_BARE_LOOP(const float a = g[i]; v[i] += a; x[i] += a; x_tilde[i] += a)
}

#undef GV_BARE_LOOP

}  // namespace grapevine::bench
