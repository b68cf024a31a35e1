#include "actors/algorithms/moniqua.hpp"

#include <fmt/core.h>

#include <cmath>
#include <utility>

#include "kernels/base/spec.hpp"
#include "kernels/passes/moniqua.hpp"

namespace grapevine {

Result<double> Moniqua::theta_of(const std::string& compress) {
  if (compress.empty()) return kTheta;
  const Spec given(compress);
  const double theta =
      given.name == "modulo" ? number_of<double>(given.value.value_or("")).value_or(0) : 0;
  if (theta > 0 && std::isfinite(theta)) return theta;
  return user_error(fmt::format(
      "compress is \"{}\", moniqua accepts: modulo:THETA with THETA above 0, e.g. modulo:0.25",
      compress));
}

Moniqua::Moniqua(const RuleContext& context)
    : RoundRule(context),
      theta_(*theta_of(settings_.compress)),
      own_(execution_, moniqua_bytes(size()), DType::bytes),
      pull_(execution_, size(), dtype()) {}

RuleState Moniqua::state(double now) {
  RuleState state = RoundRule::state(now);
  state.add("round", round_, Follows::graph);
  return state;
}

// All ranks draw the same noise.
void Moniqua::encode() {
  constexpr uint32_t kShared = 0;  // the rank of the noise
  moniqua_encode(execution_, theta_, seed_, kShared, round_, x_, own_.vec().as<std::byte>());
}

void Moniqua::enter(const Neighbourhood& near) {
  RoundRule::enter(near);
  round_ = 0;
  encode();  // a round in progress is written again
}

void Moniqua::on_gradient(double now, double lr, ConstVec g, Vec copy) {
  RoundRule::on_gradient(now, lr, g, copy);
  encode();
}

void Moniqua::write(int, size_t, Payload& out) {
  extrapolate(execution_, 0, own_, {}, out.writable(DType::bytes, own_.size()));
}

// pull_ = gamma sum_j W_ij (h_j - h)
Vec Moniqua::pull(int, std::span<const Received> in) {
  GV_CHECK(in.size() == near_.neighbours.size());
  fill(execution_, 0, pull_);
  for (size_t k = 0; k < in.size(); ++k) {
    const Payload& message = in[k].payload;
    if (!message || message.count != own_.size()) continue;
    moniqua_add(execution_, theta_, settings_.gamma * near_.neighbours[k].weight, x_,
                std::as_const(own_).vec().as<std::byte>(), message.vec().as<std::byte>(), pull_);
  }
  return pull_.vec();
}

void Moniqua::combine(double, int, std::span<const Received>) {
  axpy(execution_, 1, pull_, x_);
  ++round_;
}

}  // namespace grapevine
