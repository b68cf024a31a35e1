// The fused passes over flat vectors. Each is written once, as the arithmetic of one element
// (elements.hpp), and instantiated for the CPU (ops.cpp) and for CUDA (ops.cu).
//
// All vectors of a call have one length and one dtype (checked). Views may start at any element,
// aligned or not. Vectors must not overlap unless a function allows it. An empty view (null) for an
// optional vector omits its part of the arithmetic. "Words" are the numbers that a pass reads and
// writes per parameter.
//
// On the CPU a pass returns its result (a sum, whether all is finite). On a device the pass is only
// queued and cannot return it. There the form with `result` writes one fp64 number for the host to
// read later. dot, square_distance and number_at return a value there if a workspace has asked for
// it before (kernels/passes/workspace.hpp).
//
// c is the attraction coefficient (1 - exp(-2 dtheta)) / 2 of a mixing phase dtheta = integral of
// eta dt. Mixing means d = x~ - x;  x += c d;  x~ -= c d  (A2CiD2, see
// actors/algorithms/a2cid2.hpp).
#pragma once
#include <functional>
#include <span>

#include "kernels/device/execution.hpp"
#include "kernels/memory/vec.hpp"

namespace grapevine {

/// out = x + c (x~ - x): the parameters at a later phase, without a change of the state. 3 words (2
/// without x~: a copy). If out is bf16, it gets these numbers rounded to the nearest, ties to even.
void extrapolate(const Execution&, double c, ConstVec x, ConstVec x_tilde, Vec out);

/// Mix by c; m = sent - received;  x -= alpha m;  x~ -= alpha_tilde m.
/// 6 words. Optional: x_tilde (without it x -= alpha m: 4 words). Both messages may be bf16.
void mix_and_jump(const Execution&, double c, double alpha, double alpha_tilde, ConstVec sent,
                  ConstVec received, Vec x, Vec x_tilde);

struct GradientStep {
  double lr = 0;
  double momentum = 0;
  bool nesterov = false;
  double weight_decay = 0;  // 0: the layout says that this entry does not decay
};

/// Mix by c; u = g + weight_decay x;  v = momentum v + u;  s = nesterov ? u + momentum v : v;
/// x -= lr s;  x~ -= lr s;  copy = x.
/// 8 words. Optional: v (only with momentum 0, then s = u), x_tilde, copy.
void mix_and_step(const Execution&, double c, const GradientStep&, ConstVec g, Vec v, Vec x,
                  Vec x_tilde, Vec copy);

struct AdamStep {
  double lr = 0;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;  // 0: the layout says that this entry does not decay
  bool decoupled = false;   // AdamW: the decay acts on x directly, not through g
  uint64_t t = 1;           // the number of this step, from 1
};

/// Adam (Kingma, Ba, ICLR 2015, arXiv 1412.6980) and AdamW (Loshchilov, Hutter, ICLR 2019, arXiv
/// 1711.05101). Mix by c; u = g + (decoupled ? 0 : weight_decay x);  m = beta1 m + (1 - beta1) u;
/// v = beta2 v + (1 - beta2) u^2;  s = (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + epsilon)
/// + (decoupled ? weight_decay x : 0);  x -= lr s;  x~ -= lr s;  copy = x.
/// 10 words. Optional: x_tilde, copy.
void adam_step(const Execution&, double c, const AdamStep&, ConstVec g, Vec m, Vec v, Vec x,
               Vec x_tilde, Vec copy);

/// Takes the changes of `front` as a step of both x and x~. Mix by c; where front is finite, x +=
/// front - base and x~ += front - base; then front = base = x. Returns whether all of front was
/// finite; where it is not, x and x~ are only mixed. With x~ = x = base the new x has the bits of
/// front, including the sign of a zero. 8 words. Optional: x_tilde (without it c is not used: 6).
bool mix_and_take(const Execution&, double c, Vec front, Vec base, Vec x, Vec x_tilde);
/// result[0] = 1 if all of front was finite, else 0.
void mix_and_take(const Execution&, double c, Vec front, Vec base, Vec x, Vec x_tilde, Vec result);

/// One summand of a linear combination.
struct Term {
  double a;
  ConstVec x;
};

/// out = sum of a_k x_k, added in the order of the terms; at least one term. `out` may be one of
/// the x_k (but must not overlap one in part); on a device only one of the first 8. K + 1 words.
void combine(const Execution&, std::span<const Term> terms, Vec out);

/// out[i] = x[first + i stride]. `out` has its own length; x must be long enough. 2 words of `out`,
/// and the cache lines of x in between.
void gather(const Execution&, ConstVec x, size_t first, size_t stride, Vec out);

/// out[first + i stride] = x[i]: the reverse.
void scatter(const Execution&, ConstVec x, size_t first, size_t stride, Vec out);

/// out = a. 1 word.
void fill(const Execution&, double a, Vec out);

/// sum += x in double; `sum` is fp64.
void accumulate(const Execution&, ConstVec x, Vec sum);

/// Element `place` of x.
double number_at(const Execution&, ConstVec x, size_t place);
/// result[0] = x[0].
void tell(const Execution&, ConstVec x, Vec result);

/// y += a x. 3 words.
void axpy(const Execution&, double a, ConstVec x, Vec y);

/// y = a x. x may be y. 2 words.
void scale(const Execution&, double a, ConstVec x, Vec y);

/// sum += x - reference; returns |x - reference|^2. Both are computed in double for any dtype of x.
/// `reference` and `sum` are fp64. CPU memory only. Used to sample a consensus distance.
double add_deviation(const Execution&, ConstVec x, ConstVec reference, Vec sum);

/// x . y, accumulated in double in one fixed order: the same bits in every build, for any number of
/// threads and on a GPU. 2 words. On a device, `moment` distinguishes questions about one vector at
/// different times.
double dot(const Execution&, ConstVec x, ConstVec y, size_t moment = 0);
/// `blocks` must hold reduction_blocks(x.size) fp64 numbers.
void dot(const Execution&, ConstVec x, ConstVec y, Vec blocks, Vec result);
size_t reduction_blocks(size_t size);

/// Returns |x - y|^2, accumulated as in `dot`; exchanging x and y gives the same bits. Not finite
/// if an element is not. 2 words. Both may be bf16.
double square_distance(const Execution&, ConstVec x, ConstVec y);
void square_distance(const Execution&, ConstVec x, ConstVec y, Vec blocks, Vec result);

/// Calls part(first, last) for each block that a sum over x has, on any number of threads. Returns
/// the sum of the results, in the order of `dot`. CPU memory only.
constexpr size_t kLargestBlock = 4096;  // elements
double sum_of_blocks(const Execution&, ConstVec x,
                     const std::function<double(size_t first, size_t last)>& part);

/// True when every element is finite. 1 word.
bool all_finite(const Execution&, ConstVec x);
/// result[0] = 1 or 0.
void all_finite(const Execution&, ConstVec x, Vec result);

}  // namespace grapevine
