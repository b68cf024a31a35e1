#include "actors/algorithms/compressed_rule.hpp"

#include <cmath>
#include <cstring>
#include <limits>

namespace grapevine {

CompressedRule::CompressedRule(const RuleContext& context, const char* otherwise)
    : RoundRule(context),
      compressor_(*Compressor::make(settings_.compress.empty() ? otherwise : settings_.compress,
                                    layout_, seed_)),
      own_(compressor_.bytes()) {}

RuleState CompressedRule::state(double now) {
  RuleState state = RoundRule::state(now);
  state.add("round", round_, Follows::rank);
  return state;
}

void CompressedRule::encode(ConstVec v) {
  compressor_.encode(execution_, v, static_cast<uint32_t>(rank_), round_, own_.data());
}

void CompressedRule::add_own(double a, Vec y) {
  compressor_.decode(execution_, own_.data(), static_cast<uint32_t>(rank_), round_, a, y);
}

bool CompressedRule::add(size_t edge, const Payload& message, double a, Vec y) {
  if (!message || message.count != own_.size()) return false;
  compressor_.decode(execution_, message.vec().as<std::byte>(),
                     static_cast<uint32_t>(near_.neighbours[edge].rank), message.version, a, y);
  return true;
}

double CompressedRule::distance(size_t edge, const Payload& message) {
  if (heard_.size() == 0) heard_ = Buffer(execution_, size(), dtype());
  scale(execution_, 0, heard_, heard_);
  if (!add(edge, message, 1, heard_)) return std::numeric_limits<double>::quiet_NaN();
  return std::sqrt(dot(execution_, heard_, heard_));
}

void CompressedRule::write(int, size_t, Payload& out) {
  std::memcpy(out.writable(DType::bytes, own_.size()).data, own_.data(), own_.size());
  out.version = static_cast<uint32_t>(round_);
}

}  // namespace grapevine
