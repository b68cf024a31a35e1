// The modulo quantiser of Moniqua (Lu, De Sa, ICML 2020, arXiv 2002.11787) with 2 bits per number:
// it sends x modulo B on four levels, four numbers per byte.
//
//   delta = 1/3,  B = 2 theta / (1 - 2 delta) = 6 theta
//   q(x)  = floor(((x/B mod 1) + 1/2) / delta + noise) delta - 1/2         noise uniform in [0, 1)
//   z_j   = (q_j B - x) mod B           estimates x_j - x from a neighbour's bytes and one's own x
//
// where mod is centred: to [-1/2, 1/2] or [-B/2, B/2]. It is valid only while every neighbour's x_j
// is within theta of x (not checked, because it cannot be observed), and |x| < 2^22 B in fp32.
// Every device gives the same bits. On a device, bytes are in its memory like vectors.
#pragma once
#include "kernels/passes/ops.hpp"

namespace grapevine {

constexpr size_t moniqua_bytes(size_t size) { return (size + 3) / 4; }

/// Writes q(x) to out[0, moniqua_bytes(x.size)). The noise depends only on (seed, rank, index) and
/// the place; ranks that pass the same `rank` share it.
void moniqua_encode(const Execution&, double theta, uint64_t seed, uint32_t rank, uint64_t index,
                    ConstVec x, std::byte* out);

/// y += a (z_received - z_sent), where `sent` are the bytes of one's own x. This is one neighbour's
/// term of x += gamma sum_j w_ij (z_j - z_i); its sum over all ranks is zero as long as no
/// difference wraps. y may be x if there is one neighbour; otherwise x must not change until the
/// last term is added.
void moniqua_add(const Execution&, double theta, double a, ConstVec x, const std::byte* sent,
                 const std::byte* received, Vec y);

}  // namespace grapevine
