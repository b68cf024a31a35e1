#include "actors/settings/alarm.hpp"

#include "actors/algorithms/method_registry.hpp"
#include "actors/settings/settings.hpp"
#include "kernels/base/spec.hpp"

namespace grapevine {

std::string Alarm::line() const {
  std::string text = "at " + shown(at_s, 3) + " s ";
  const bool is_of_edge = what == What::silent_edge || what == What::stale_edge ||
                          (what == What::far_edge && peer >= 0);
  if (is_of_edge) {
    text += "edge " + std::to_string(rank) + "-" + std::to_string(peer) + ": ";
  } else if (rank >= 0 && what != What::divergence) {
    text += "rank " + std::to_string(rank) + ": ";
  }
  if (!node.empty()) text += "node " + node + ": ";
  text += is;
  for (const std::string& more : {reason, advice})
    if (!more.empty()) text += "; " + more;
  return text;
}

const char* name_of(Alarm::What what) {
  switch (what) {
    case Alarm::What::divergence: return "divergence";
    case Alarm::What::far_edge: return "far_edge";
    case Alarm::What::silent_edge: return "silent_edge";
    case Alarm::What::stale_edge: return "stale_edge";
    case Alarm::What::idle_rank: return "idle_rank";
    case Alarm::What::conserved_sum: return "conserved_sum";
    case Alarm::What::checkpoint: return "checkpoint";
    case Alarm::What::liar: return "liar";
    case Alarm::What::lost_node: break;
  }
  return "lost_node";
}

Alarm divergence_under(const Settings& s) {
  Alarm alarm;
  const double exchange_s = s.link.latency_s + s.link.transfer_s;
  const double rate = s.rate / (s.gradient_s * static_cast<double>(s.inner_steps));
  const double overlap = exchange_s * rate;
  const bool pairs = method_named(s.method).pattern == Pattern::pairwise;
  if (pairs && s.pairing == Pairing::poisson && overlap > 0) {
    alarm.reason = "exchanges overlap: a latency of " + shown(exchange_s, 3) + " s times " +
                   shown(rate, 3) + " exchanges a second and rank is " +
                   shown(overlap, 3);
    alarm.advice = "use --pairing free, which has one exchange at a time, or a lower --rate";
  } else if (method_named(s.method).gossips && !s.rule.compress.empty()) {
    alarm.reason = "gamma is " + shown(s.rule.gamma, 3) + " with compress " + s.rule.compress;
    alarm.advice = "a smaller --gamma";
  } else if (s.rule.gamma > 1) {
    alarm.reason = "gamma is " + shown(s.rule.gamma, 3);
    alarm.advice = "a smaller --gamma, 0 for the best one";
  } else if (const InnerSteps inner = inner_steps_of(s)) {
    alarm.reason = "outer steps are too large: " + shown(inner.outer_lr, 3) + " times what " +
                   std::to_string(inner.count) + " inner steps do, with momentum " +
                   shown(s.outer_momentum, 3);
    alarm.advice = "a smaller --outer-momentum or --outer-lr, or a smaller --lr of the inner steps";
  } else {
    alarm.reason = "steps are too large for this objective or for this graph";
    alarm.advice = "a smaller --lr may help, or a graph with more edges";
  }
  return alarm;
}

}  // namespace grapevine
