#include "actors/algorithms/deepsqueeze.hpp"

#include <cstring>

namespace grapevine {

namespace {

Compressor compressor_of(const RuleContext& context) {
  const std::string& spec = context.settings.compress;
  return *Compressor::make(spec.empty() ? DeepSqueeze::kCompress : spec, context.layout,
                           context.seed);
}

}  // namespace

DeepSqueeze::DeepSqueeze(const RuleContext& context)
    : RoundRule(context),
      compressor_(compressor_of(context)),
      own_(compressor_.bytes()),
      delta_(size(), dtype()) {}

void DeepSqueeze::on_gradient(double, double lr, ConstVec g, Vec) {
  const auto rank = static_cast<uint32_t>(rank_);
  std::byte* const q = own_.data();
  optimizer_.step(execution_, 0, lr, g, x_, {}, {});  // x is h from here to combine()
  axpy(execution_, 1, x_, delta_);                    // v
  compressor_.encode(execution_, delta_, rank, round_, q);
  compressor_.decode(execution_, q, rank, round_, -1, delta_);
}

void DeepSqueeze::reset(double now, ConstVec x) {
  RoundRule::reset(now, x);
  scale(execution_, 0, delta_, delta_);
}

void DeepSqueeze::write(int, size_t, Payload& out) {
  std::memcpy(out.writable(DType::bytes, own_.size()).data, own_.data(), own_.size());
  out.version = round_;
}

void DeepSqueeze::combine(double, int, std::span<const Payload> in) {
  GV_CHECK(in.size() == near_.neighbours.size());
  double received = 0;  // weight
  for (size_t k = 0; k < in.size(); ++k) {
    if (!in[k] || in[k].count != own_.size()) continue;
    const auto& neighbour = near_.neighbours[k];
    received += neighbour.weight;
    compressor_.decode(execution_, in[k].vec().as<std::byte>(),
                       static_cast<uint32_t>(neighbour.rank), in[k].version,
                       settings_.gamma * neighbour.weight, x_);
  }
  compressor_.decode(execution_, own_.data(), static_cast<uint32_t>(rank_), round_,
                     -settings_.gamma * received, x_);
  ++round_;
}

}  // namespace grapevine
