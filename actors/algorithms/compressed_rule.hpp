// CompressedRule: what the round methods share whose one message to all neighbours is C(v), C the
// compressor of settings.compress and v some vector of the method.
#pragma once
#include "actors/algorithms/rule.hpp"
#include "kernels/codecs/compressor.hpp"

namespace grapevine {

class CompressedRule : public RoundRule {
 public:
  /// `otherwise`: the compressor where settings.compress is empty.
  CompressedRule(const RuleContext&, const char* otherwise);

  bool conserves() const override { return settings_.missing == Missing::resend; }
  RuleState state(double now) override;
  size_t message_bytes() const override { return compressor_.bytes(); }
  double distance(size_t edge, const Payload&) override;  // 0 where C(v_j) is finite
  void write(int phase, size_t edge, Payload& out) override;

 protected:
  void encode(ConstVec v);        // the message of this round is C(v)
  void add_own(double a, Vec y);  // y += a C(v)
  /// y += a C(v_j) of neighbours[edge]. False: nothing came, and y is as it was.
  bool add(size_t edge, const Payload&, double a, Vec y);

  Buffer heard_;  // C(v_j), to be judged; afterwards the subclass's

  uint64_t round_ = 0;  // numbers the messages of this rank

 private:
  Compressor compressor_;
  Buffer own_;      // C(v), encoded
  Buffer scratch_;  // on a device
};

}  // namespace grapevine
