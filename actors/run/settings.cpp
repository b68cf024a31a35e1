#include "actors/run/settings.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "actors/algorithms/method_registry.hpp"
#include "topologies/topology.hpp"
#include "topologies/weights.hpp"

namespace grapevine {

double LearningRate::at(double done) const {
  if (done < warmup) return peak * done / warmup;
  switch (schedule) {
    case Schedule::constant: return peak;
    case Schedule::step: return peak * (done < 0.5 ? 1 : done < 0.75 ? 0.1 : 0.01);
    case Schedule::cosine: break;
  }
  const double part = warmup < 1 ? (done - warmup) / (1 - warmup) : 1;
  return peak * 0.5 * (1 + std::cos(std::acos(-1.0) * std::min(1.0, part)));
}

namespace {

struct Range {
  const char* name;
  double value;
  double low;
  bool low_allowed;
  double high;
};

Status check(const Range& r) {
  const bool above = r.low_allowed ? r.value >= r.low : r.value > r.low;
  if (std::isfinite(r.value) && above && r.value <= r.high) return Done{};
  std::string accepted = fmt::format("{} {}", r.low_allowed ? "from" : "above", r.low);
  if (r.high < kNever) accepted += fmt::format(" to {}", r.high);
  return user_error(fmt::format("{} is {}, accepted: a number {}", r.name, r.value, accepted));
}

}  // namespace

Status check(const Settings& s) {
  if (s.ranks < 1) return user_error(fmt::format("ranks is {}, accepted: 1 or more", s.ranks));
  const Range ranges[] = {
      {"rate", s.rate, 0, false, kNever},
      {"lr", s.lr.peak, 0, true, kNever},
      {"warmup", s.lr.warmup, 0, true, 1},
      {"momentum", s.rule.optimizer.momentum, 0, true, 0.999999},
      {"weight-decay", s.rule.optimizer.weight_decay, 0, true, kNever},
      {"sample-seconds", s.sample_s, 0, true, kNever},
      {"latency", s.link.latency_s, 0, true, kNever},
      {"jitter", s.link.jitter, 0, true, 1},
      {"transfer", s.link.transfer_s, 0, true, kNever},
      {"bandwidth", s.link.bandwidth, 0, true, kNever},
      {"gradient-seconds", s.gradient_s, 0, false, kNever},
      {"speed-spread", s.speed_spread, 0, true, 10},
      {"until", s.until_s, 0, true, kNever},
      {"target", s.target, 0, true, 1},
      {"noise", s.objective.noise, 0, true, kNever},
      {"gamma", s.rule.gamma, 0, true, kNever},
  };
  for (const Range& range : ranges)
    if (Status in = check(range); !in) return in;
  if (s.threads < 0)
    return user_error(fmt::format("threads is {}, accepted: 0 (all) or more", s.threads));
  const auto graph = make_topology(s.topology, s.ranks, s.rate);
  if (!graph) return graph.error();
  RuleSettings rule = s.rule;
  const Method* method = find_method(s.method);
  if (method != nullptr && method->pattern != Pattern::pairwise && s.pacing == Pacing::poisson)
    return user_error("pacing is poisson, method " + s.method +
                      " accepts: greedy, since a step begins when the round before it has ended");
  if (rule.gamma == 0 && method != nullptr && method->gossips) {  // 0: the best one
    const auto matrix = gossip_matrix(s.weights, *graph);
    if (!matrix) return matrix.error();
    const auto spectrum = matrix_spectrum(*graph, *matrix);
    if (!spectrum) return spectrum.error();
    rule.gamma = best_gamma(*spectrum);
  }
  if (Status fits = check_method(s.method, rule, s.weights, *graph); !fits) return fits;
  return check(s.plan, s.ranks, s.clock == Clock::wall);
}

}  // namespace grapevine
