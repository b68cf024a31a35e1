// CompressedRule: the common base of round methods with one message to all neighbours, C(v): C is
// the compressor of settings.compress and v a vector of the method.
#pragma once
#include "actors/algorithms/rule.hpp"
#include "kernels/codecs/compressor.hpp"

namespace grapevine {

class CompressedRule : public RoundRule {
 public:
  /// `otherwise`: the compressor if settings.compress is empty.
  CompressedRule(const RuleContext&, const char* otherwise);

  bool conserves() const override { return settings_.missing == Missing::resend; }
  RuleState state(double now) override;
  size_t message_bytes() const override { return compressor_.bytes(); }
  double distance(size_t edge, const Payload&) override;  // 0 if C(v_j) is finite
  void write(int phase, size_t edge, Payload& out) override;

 protected:
  void encode(ConstVec v);        // sets the message of this round to C(v)
  void add_own(double a, Vec y);  // y += a C(v)
  /// y += a C(v_j), v_j from neighbours[edge]. False: no message came, and y is unchanged.
  bool add(size_t edge, const Payload&, double a, Vec y);

  Buffer heard_;  // C(v_j), to be judged; then free for the subclass

  uint64_t round_ = 0;  // numbers the messages of this rank

 private:
  Compressor compressor_;
  Buffer own_;      // C(v), encoded
  Buffer scratch_;  // on a device
};

}  // namespace grapevine
