#include "actors/algorithms/pair_messages.hpp"

#include "actors/algorithms/edge_factors.hpp"

namespace grapevine {

namespace {

class WholeModels final : public PairMessages {
 public:
  explicit WholeModels(const RuleContext& context)
      : execution_(context.execution), bytes_(context.layout.bytes()) {}

  size_t bytes() const override { return bytes_; }

  void write(const ExchangeKey&, double c, ConstVec x, ConstVec x_tilde, Payload& out) override {
    extrapolate(execution_, c, x, x_tilde, out.writable(x.dtype, x.size));
  }

  bool jump(const ExchangeKey&, const Payload& sent, const Payload& received, double c,
            double alpha, double alpha_tilde, Vec x, Vec x_tilde) override {
    mix_and_jump(execution_, c, alpha, alpha_tilde, sent.vec(), received.vec(), x, x_tilde);
    return true;
  }

 private:
  Execution execution_;
  size_t bytes_;
};

}  // namespace

std::unique_ptr<PairMessages> PairMessages::make(const RuleContext& context) {
  if (!context.settings.compress.empty()) return std::make_unique<PairFactors>(context);
  return std::make_unique<WholeModels>(context);
}

}  // namespace grapevine
