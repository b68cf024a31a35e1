// Bare loops: the streams of each fused pass, with a single addition for each vector written. What
// memory allows.
#pragma once
#include <cstddef>
#include <cstdint>

namespace grapevine::bench {

void bare_copy(const float* x, float* out, size_t first, size_t last);
void bare_scale(const float* x, float* y, size_t first, size_t last);
void bare_axpy(const float* x, float* y, size_t first, size_t last);
void bare_look(const float* x, const float* x_tilde, float* out, size_t first, size_t last);
void bare_jump(const float* sent, const float* received, float* x, float* x_tilde, size_t first,
               size_t last);
void bare_round(const float* x, const float* x_tilde, uint16_t* out, size_t first, size_t last);
void bare_rounded_jump(const uint16_t* sent, const uint16_t* received, float* x, float* x_tilde,
                       size_t first, size_t last);
void bare_jump_alone(const float* sent, const float* received, float* x, size_t first,
                     size_t last);
void bare_take(float* front, float* base, float* x, float* x_tilde, size_t first, size_t last);
void bare_step(const float* g, float* v, float* x, float* x_tilde, float* copy, size_t first,
               size_t last);
void bare_step_no_copy(const float* g, float* v, float* x, float* x_tilde, size_t first,
                       size_t last);

}  // namespace grapevine::bench
