// The modulo quantiser of Moniqua (Lu, De Sa, ICML 2020, arXiv 2002.11787) at 2 bits a number: what
// travels is x modulo B, on four levels, four numbers to a byte.
//
//   delta = 1/3,  B = 2 theta / (1 - 2 delta) = 6 theta
//   q(x)  = floor(((x/B mod 1) + 1/2) / delta + noise) delta - 1/2         noise uniform in [0, 1)
//   z_j   = (q_j B - x) mod B           what a neighbour's bytes say of x_j - x, from one's own x
//
// with mod centred: to [-1/2, 1/2] or [-B/2, B/2]. Valid while every neighbour's x_j is within
// theta of x (not checked: it cannot be seen), and |x| < 2^22 B in fp32. The same bits on every
// device; on one, bytes lie in its memory as vectors do.
#pragma once
#include "kernels/passes/ops.hpp"

namespace grapevine {

constexpr size_t moniqua_bytes(size_t size) { return (size + 3) / 4; }

/// Writes q(x) to out[0, moniqua_bytes(x.size)). The noise depends on (seed, rank, index) and the
/// place alone; ranks that pass the same `rank` share it.
void moniqua_encode(const Execution&, double theta, uint64_t seed, uint32_t rank, uint64_t index,
                    ConstVec x, std::byte* out);

/// y += a (z_received - z_sent), with `sent` the bytes of one's own x: one neighbour's term of
/// x += gamma sum_j w_ij (z_j - z_i), whose sum over all ranks is zero as long as no difference
/// wraps. y may be x where there is one neighbour; else x must stay until the last one is added.
void moniqua_add(const Execution&, double theta, double a, ConstVec x, const std::byte* sent,
                 const std::byte* received, Vec y);

}  // namespace grapevine
