// PairMessages: what the two ends of an exchange send of x, and how the difference m = x_i - x_j
// acts on them: a strategy beside the pairwise rules, which know their equations and no encoding.
//
//   whole models      m is the difference of the two vectors as sent
//   low-rank factors  compress=powergossip:rank=R (ours): exchange k of an edge is iteration k of
//                     edge_factors.hpp, and m the low-rank difference that both ends get from the
//                     two messages: sum m R (odd k) or sum n R numbers, and the raw tensors
//
// Both ends get the same m, with opposite signs, from the same two messages. Memory: none; or the
// factors, and one more x where the rule has a twin.
#pragma once
#include <memory>

#include "actors/algorithms/rule.hpp"

namespace grapevine {

class PairMessages {
 public:
  virtual ~PairMessages() = default;
  /// REQUIRES: settings.compress is empty or a spec that parses (edge_factors.hpp).
  static std::unique_ptr<PairMessages> make(const RuleContext&);

  virtual size_t bytes() const = 0;  // of the largest message

  /// The message of x mixed by c (kernels/ops.hpp), of x itself where there is no twin.
  virtual void write(const Execution&, const ExchangeKey&, double c, ConstVec x, ConstVec x_tilde,
                     Payload& out) = 0;

  /// Mixes by c, then x -= alpha m, x~ -= alpha_tilde m; without a twin x -= alpha m alone. False:
  /// the two messages do not fit together, and x and x~ are as they were, not mixed.
  virtual bool jump(const Execution&, const ExchangeKey&, const Payload& sent,
                    const Payload& received, double c, double alpha, double alpha_tilde, Vec x,
                    Vec x_tilde) = 0;

  virtual void name(RuleState&) {}
  virtual uint64_t reseeded() const { return 0; }  // edges that began anew
};

}  // namespace grapevine
