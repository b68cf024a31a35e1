// RandomPart: a random part of the parameters. All ranks with the same number (of an exchange or a
// round) draw the same part, so no places are sent. compress = "random:P": each tensor is cut into
// floor(P d) equal pieces, at least one, and one number of each piece is drawn.
//
// After SPARTA (Exo, 2025), which averages 0.1 to 0.5 % of the parameters after every step.
#pragma once
#include "actors/algorithms/rule.hpp"
#include "kernels/codecs/compressor.hpp"

namespace grapevine {

/// The compressor of "random:P". Errors (user): another spec, a P outside (0, 1].
Result<Compressor> random_part(const std::string& spec, const ParameterLayout&, uint64_t seed);

class RandomPart {
 public:
  /// REQUIRES: random_part() accepts settings.compress.
  explicit RandomPart(const RuleContext&);

  /// The number of parameters in the part.
  size_t size() const { return size_; }

  /// out = the part of x; it has size() elements.
  void take(uint64_t number, ConstVec x, Vec out);
  /// x += a part, at the places of the part.
  void add(uint64_t number, double a, ConstVec part, Vec x);

 private:
  Execution execution_;
  Compressor compressor_;
  size_t size_;
  Buffer scratch_;  // on a device
};

}  // namespace grapevine
