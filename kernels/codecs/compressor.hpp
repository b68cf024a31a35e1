// Compressor: a lossy map C(v) on the tensors of a ParameterLayout, encoded in a fixed number of
// bytes.
//
// A value: made once from a spec, copied freely, never changed; calls may run on several threads.
// Each tensor is compressed separately. Vectors have the layout's size and dtype. Encoded bytes
// need no alignment; a machine of the same byte order reads them. With w = the bytes of one element
// and d = the elements of a tensor, a tensor costs
//
//   identity         d w              C(v) = v
//   top-k:RATIO      k (4 + w)        the k = max(1, floor(RATIO d)) largest |v|, ties to the first
//   random-k:RATIO   k w              one v drawn in each of k equal strata; both ends draw its
//                                     place from (seed, rank, index), so only values are sent
//   sign             ceil(d/8) + w    (|v|_1 / d) sign(v); a zero counts by its sign bit
//   low-rank:R       (m + n) R w      a rank-R approximation by 4 subspace iterations from a fixed
//                                     start (not the best one if singular values are close);
//                                     tensors of one dimension, or with (m + n) R >= m n: raw, d w
//   quantise:B       ceil(d B/8) + w  nearest of 2^B equidistant points of [-max |v|, max |v|]
//
// No C here is scaled to be unbiased: they serve methods with error feedback (Choco, DeepSqueeze).
// All are contractions, |v - C(v)| < |v|, except quantise:B. It is a contraction only while the
// largest |v| is below 2^B - 1 times their root mean square.
//
// On a device, vectors, bytes and scratch are in its memory, and the passes are queued, a few per
// tensor. A device gives the same bytes and numbers as the CPU, with two exceptions: low-rank,
// whose matrix products round differently on a GPU, and numbers that are not finite.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "kernels/base/result.hpp"
#include "kernels/memory/layout.hpp"
#include "kernels/passes/ops.hpp"

namespace grapevine {

/// The compression of one tensor by a kind that the caller defines. Immutable; any thread may call
/// it; it must not throw. CPU memory only.
class TensorCompressor {
 public:
  virtual ~TensorCompressor() = default;

  /// The size of an encoded tensor, equal for all tensors of this shape.
  virtual size_t bytes(size_t rows, size_t columns, DType) const = 0;
  /// Writes C(v) to out[0, bytes()).
  virtual void encode(ConstVec v, size_t rows, size_t columns, std::byte* out) const = 0;
  /// y += a C(v). `in` may hold anything: another rank sent it.
  virtual void decode(const std::byte* in, size_t rows, size_t columns, double a, Vec y) const = 0;
};

/// Adds NAME[:VALUE] to the specs of Compressor::make. `make` gets VALUE ("" without one); if it
/// does not accept it, it returns a sentence. Errors (user): a name that is taken or invalid, no
/// `make`.
Status register_compressor(
    const std::string& name,
    std::function<Result<std::shared_ptr<const TensorCompressor>>(const std::string& value)> make);

class Compressor {
 public:
  /// "identity", "top-k:0.01", "random-k:0.01", "sign", "low-rank:2", "quantise:4", and registered
  /// kinds. Errors (user): an unknown kind, a ratio outside (0, 1], a rank below 1, bits outside 1
  /// to 16. `seed` keys the positions of random-k and must be equal at both ends.
  static Result<Compressor> make(const std::string& spec, const ParameterLayout&,
                                 uint64_t seed = 0);

  /// Every encoded vector has exactly this size.
  size_t bytes() const;

  const std::string& spec() const;

  /// False for a registered kind.
  bool runs_on_devices() const;

  /// Bytes of device memory that encode and decode need as `scratch`, aligned for fp64. Work on one
  /// stream may share it. Zero on the CPU.
  size_t scratch_bytes() const;

  /// Writes C(v) to out[0, bytes()). `rank` is the encoding rank; `index` distinguishes its
  /// vectors.
  void encode(const Execution&, ConstVec v, uint32_t rank, uint64_t index, std::byte* out,
              Vec scratch = {}) const;

  /// y += a C(v), from the bytes that `encode` wrote for the same rank and index. Other bytes give
  /// some finite or infinite numbers, but never a write outside y.
  void decode(const Execution&, const std::byte* in, uint32_t rank, uint64_t index, double a, Vec y,
              Vec scratch = {}) const;

 private:
  struct Plan;
  explicit Compressor(std::shared_ptr<const Plan> plan) : plan_(std::move(plan)) {}
  std::shared_ptr<const Plan> plan_;
};

}  // namespace grapevine
