#include "actors/algorithms/moniqua.hpp"

#include <charconv>
#include <cmath>
#include <cstring>
#include <utility>

#include "kernels/moniqua.hpp"

namespace grapevine {

Result<double> Moniqua::theta_of(const std::string& compress) {
  if (compress.empty()) return kTheta;
  const std::string name = "modulo:";
  double theta = 0;
  const char* const end = compress.data() + compress.size();
  if (compress.rfind(name, 0) == 0) {
    const auto [stop, error] = std::from_chars(compress.data() + name.size(), end, theta);
    if (error != std::errc() || stop != end) theta = 0;
  }
  if (theta > 0 && std::isfinite(theta)) return theta;
  return user_error("compress is \"" + compress +
                    "\", moniqua accepts: modulo:THETA with THETA above 0, e.g. modulo:0.25");
}

Moniqua::Moniqua(const RuleContext& context)
    : RoundRule(context),
      theta_(*theta_of(settings_.compress)),
      own_(moniqua_bytes(size())),
      next_(size(), dtype()) {}

RuleState Moniqua::state(double now) {
  RuleState state = RoundRule::state(now);
  state.add("round", round_,
            Follows::model);  // the noise is the same on all ranks
  return state;
}

void Moniqua::on_gradient(double now, double lr, ConstVec g, Vec copy) {
  constexpr uint32_t kShared = 0;  // the rank of the noise
  RoundRule::on_gradient(now, lr, g, copy);
  moniqua_encode(execution_, theta_, seed_, kShared, round_++, x_, own_.data());
}

void Moniqua::write(int, size_t, Payload& out) {
  std::memcpy(out.writable(DType::bytes, own_.size()).data, own_.data(), own_.size());
}

void Moniqua::combine(double, int, std::span<const Payload> in) {
  GV_CHECK(in.size() == near_.neighbours.size());
  scale(execution_, 1, x_, next_);
  for (size_t k = 0; k < in.size(); ++k) {
    if (!in[k] || in[k].count != own_.size()) continue;
    moniqua_add(execution_, theta_, settings_.gamma * near_.neighbours[k].weight, x_, own_.data(),
                in[k].vec().as<std::byte>(), next_);
  }
  std::swap(x_, next_);
}

}  // namespace grapevine
