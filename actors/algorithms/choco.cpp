#include "actors/algorithms/choco.hpp"

#include <cstring>

namespace grapevine {

namespace {

Compressor compressor_of(const RuleContext& context) {
  const std::string& spec = context.settings.compress;
  return *Compressor::make(spec.empty() ? Choco::kCompress : spec, context.layout, context.seed);
}

}  // namespace

Choco::Choco(const RuleContext& context)
    : RoundRule(context),
      compressor_(compressor_of(context)),
      own_(compressor_.bytes()),
      hat_(size(), dtype()),
      sum_(size(), dtype()),
      difference_(size(), dtype()) {}

void Choco::encode() {
  grapevine::combine(execution_, {{{1, x_}, {-1, hat_}}}, difference_);
  compressor_.encode(execution_, difference_, static_cast<uint32_t>(rank_), round_, own_.data());
}

void Choco::on_gradient(double, double lr, ConstVec g, Vec) {
  optimizer_.step(execution_, 0, lr, g, x_, {}, {});  // x is h from here to combine()
  encode();
}

void Choco::reset(double now, ConstVec x) {
  RoundRule::reset(now, x);
  scale(execution_, 0, hat_, hat_);
  scale(execution_, 0, sum_, sum_);
}

void Choco::enter(const Neighbourhood& near) {
  RoundRule::enter(near);
  scale(execution_, 0, hat_, hat_);
  scale(execution_, 0, sum_, sum_);
  encode();  // a round in progress is written anew
}

void Choco::write(int, size_t, Payload& out) {
  std::memcpy(out.writable(DType::bytes, own_.size()).data, own_.data(), own_.size());
  out.version = round_;
}

void Choco::combine(double, int, std::span<const Payload> in) {
  GV_CHECK(in.size() == near_.neighbours.size());
  compressor_.decode(execution_, own_.data(), static_cast<uint32_t>(rank_), round_, 1, hat_);
  for (size_t k = 0; k < in.size(); ++k) {
    if (!in[k] || in[k].count != own_.size()) continue;  // it has finished: x^_j stays
    const auto& neighbour = near_.neighbours[k];
    compressor_.decode(execution_, in[k].vec().as<std::byte>(),
                       static_cast<uint32_t>(neighbour.rank), in[k].version, neighbour.weight,
                       sum_);
  }
  const double gamma = settings_.gamma;
  grapevine::combine(execution_,
                     {{{1, x_}, {gamma, sum_}, {-gamma * (1 - near_.self_weight), hat_}}}, x_);
  ++round_;
}

}  // namespace grapevine
