#include "actors/algorithms/compressed_rule.hpp"

#include <limits>
#include <utility>

#include "kernels/passes/workspace.hpp"

namespace grapevine {

CompressedRule::CompressedRule(const RuleContext& context, const char* otherwise)
    : RoundRule(context),
      compressor_(*Compressor::make(settings_.compress.empty() ? otherwise : settings_.compress,
                                    layout_, seed_)),
      own_(execution_, compressor_.bytes(), DType::bytes) {
  if (execution_.device != nullptr)
    scratch_ = Buffer(execution_, compressor_.scratch_bytes(), DType::bytes);
}

RuleState CompressedRule::state(double now) {
  RuleState state = RoundRule::state(now);
  state.add("round", round_, Follows::rank);
  return state;
}

void CompressedRule::encode(ConstVec v) {
  compressor_.encode(execution_, v, static_cast<uint32_t>(rank_), round_,
                     own_.vec().as<std::byte>(), scratch_);
}

void CompressedRule::add_own(double a, Vec y) {
  compressor_.decode(execution_, std::as_const(own_).vec().as<std::byte>(),
                     static_cast<uint32_t>(rank_), round_, a, y, scratch_);
}

bool CompressedRule::add(size_t edge, const Payload& message, double a, Vec y) {
  if (!message || message.count != own_.size()) return false;
  compressor_.decode(execution_, message.vec().as<std::byte>(),
                     static_cast<uint32_t>(near_.neighbours[edge].rank), message.version, a, y,
                     scratch_);
  return true;
}

double CompressedRule::distance(size_t edge, const Payload& message) {
  if (!message || message.count != own_.size()) return std::numeric_limits<double>::quiet_NaN();
  if (heard_.size() == 0) heard_ = Buffer(execution_, size(), dtype());
  if (execution_.device == nullptr || !execution_.workspace->answers()) {
    fill(execution_, 0, heard_);
    add(edge, message, 1, heard_);
  }
  const double squares = dot(execution_, heard_, heard_, edge);
  return squares - squares;  // 0 or NaN
}

void CompressedRule::write(int, size_t, Payload& out) {
  extrapolate(execution_, 0, own_, {}, out.writable(DType::bytes, own_.size()));
  out.version = static_cast<uint32_t>(round_);
}

}  // namespace grapevine
