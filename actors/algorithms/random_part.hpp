// RandomPart: a part of the parameters, drawn anew for each exchange or round and alike by all who
// share its number, so that no places are sent. compress = "random:P": in each tensor one number in
// each of floor(P d) equal pieces, one at least.
//
// After SPARTA (Exo, 2025), which averages 0.1 to 0.5 % of the parameters after every step.
#pragma once
#include "actors/algorithms/rule.hpp"
#include "kernels/codecs/compressor.hpp"

namespace grapevine {

/// The compressor that "random:P" is. Errors (user): another spec, a P outside (0, 1].
Result<Compressor> random_part(const std::string& spec, const ParameterLayout&, uint64_t seed);

class RandomPart {
 public:
  /// REQUIRES: random_part() accepts settings.compress.
  explicit RandomPart(const RuleContext&);

  /// How many parameters it is.
  size_t size() const { return size_; }

  /// out = the part of x, of size().
  void take(uint64_t number, ConstVec x, Vec out);
  /// x += a part, at its places.
  void add(uint64_t number, double a, ConstVec part, Vec x);

 private:
  Execution execution_;
  Compressor compressor_;
  size_t size_;
  Buffer scratch_;  // on a device
};

}  // namespace grapevine
