#include "actors/algorithms/pair_messages.hpp"

#include "actors/algorithms/edge_factors.hpp"

namespace grapevine {

namespace {

class WholeModels final : public PairMessages {
 public:
  explicit WholeModels(const ParameterLayout& layout) : bytes_(layout.bytes()) {}

  size_t bytes() const override { return bytes_; }

  void write(const Execution& execution, const ExchangeKey&, double c, ConstVec x, ConstVec x_tilde,
             Payload& out) override {
    extrapolate(execution, c, x, x_tilde, out.writable(x.dtype, x.size));
  }

  bool jump(const Execution& execution, const ExchangeKey&, const Payload& sent,
            const Payload& received, double c, double alpha, double alpha_tilde, Vec x,
            Vec x_tilde) override {
    mix_and_jump(execution, c, alpha, alpha_tilde, sent.vec(), received.vec(), x, x_tilde);
    return true;
  }

 private:
  size_t bytes_;
};

}  // namespace

std::unique_ptr<PairMessages> PairMessages::make(const RuleContext& context) {
  if (!context.settings.compress.empty()) return std::make_unique<PairFactors>(context);
  return std::make_unique<WholeModels>(context.layout);
}

}  // namespace grapevine
