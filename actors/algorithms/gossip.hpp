// Gossip: one weighted average with the neighbours. GossipRule: the common base of round methods
// with a gossip matrix.
//
//   x = w_ii x + sum_j w_ij y_j        w_ij = gamma W_ij,  w_ii = 1 - gamma (1 - W_ii)
//
// Here w_ij is scaled by the share of y_j that is taken (rule.hpp), equally at both ends. `Missing`
// says what replaces a lost y_j. renormalise divides by the weights that came. own uses x. reuse
// uses the last y_j that came (x before the first). shrink uses nothing.
#pragma once
#include <span>
#include <vector>

#include "actors/algorithms/rule.hpp"

namespace grapevine {

class Gossip {
 public:
  explicit Gossip(const RuleSettings& settings)
      : gamma_(settings.gamma), missing_(settings.missing) {}

  /// Forgets the last messages, except those of neighbours that stay.
  void enter(const Neighbourhood&);

  /// x = the average of x and elements [offset, offset + x.size) of the messages. All calls of a
  /// round get the same messages.
  void average(const Execution&, std::span<const Received> in, size_t offset, Vec x);

  /// Whether a message has ever been missing.
  bool has_missed() const { return has_missed_; }

 private:
  double gamma_;
  Missing missing_;
  Neighbourhood near_;
  std::vector<Received> last_;  // by neighbour, for Missing::reuse
  std::vector<Term> terms_;
  bool has_missed_ = false;
};

/// Rules that average by the gossip matrix, with one message to all neighbours, by default x.
class GossipRule : public RoundRule {
 public:
  explicit GossipRule(const RuleContext& context) : RoundRule(context), gossip_(context.settings) {}

  void enter(const Neighbourhood&) override;
  bool conserves() const override { return settings_.missing == Missing::resend; }
  size_t message_bytes() const override { return layout_.bytes(); }
  double distance(size_t edge, const Payload&) override;  // from this rank's message
  bool ends_agree() const override { return true; }
  void write(int phase, size_t edge, Payload& out) override;

 protected:
  Gossip gossip_;
  Payload sent_;  // this round's message, from which distances are measured
};

}  // namespace grapevine
