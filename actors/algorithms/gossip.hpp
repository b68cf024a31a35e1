// Gossip: one weighted average with the neighbours, and GossipRule, what every round method with a
// gossip matrix shares.
//
//   x = w_ii x + sum_j w_ij y_j        w_ij = gamma W_ij,  w_ii = 1 - gamma (1 - W_ii)
//
// with w_ij scaled by the share of y_j that is taken (rule.hpp), at both ends alike, and what
// `Missing` says of a y_j that was lost: renormalise divides by the weight that came, own puts x in
// its place, reuse the last y_j that came (x before the first), shrink nothing.
#pragma once
#include <span>
#include <vector>

#include "actors/algorithms/rule.hpp"

namespace grapevine {

class Gossip {
 public:
  explicit Gossip(const RuleSettings& settings)
      : gamma_(settings.gamma), missing_(settings.missing) {}

  /// Forgets what came before; of neighbours that stay it is kept.
  void enter(const Neighbourhood&);

  /// x = the average of x and elements [offset, offset + x.size) of the messages. Every call of one
  /// round gets the same messages.
  void average(const Execution&, std::span<const Received> in, size_t offset, Vec x);

  /// Whether a message has ever been missing.
  bool has_missed() const { return has_missed_; }

 private:
  double gamma_;
  Missing missing_;
  Neighbourhood near_;
  std::vector<Received> last_;  // by neighbour, for reuse
  std::vector<Term> terms_;
  bool has_missed_ = false;
};

/// Rules that average by the gossip matrix, one message to each neighbour: x itself, where a rule
/// does not say otherwise.
class GossipRule : public RoundRule {
 public:
  explicit GossipRule(const RuleContext& context) : RoundRule(context), gossip_(context.settings) {}

  void enter(const Neighbourhood&) override;
  bool conserves() const override { return settings_.missing == Missing::resend; }
  size_t message_bytes() const override { return layout_.bytes(); }
  double distance(size_t edge, const Payload&) override;  // from the message of this rank
  bool ends_agree() const override { return true; }
  void write(int phase, size_t edge, Payload& out) override;

 protected:
  Gossip gossip_;
  Payload sent_;  // the message of this round, from which distances are measured
};

}  // namespace grapevine
