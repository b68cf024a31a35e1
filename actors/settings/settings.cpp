#include "actors/settings/settings.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "actors/algorithms/method_registry.hpp"
#include "kernels/gpu/cuda_device.hpp"
#include "models/guest.hpp"
#include "models/partition.hpp"
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

constexpr double kShortest_s = 1e-9, kLongest_s = 1e9;  // limits of clocks
constexpr int kThreadsAtMost = 1024;                    // more than the cores of any machine
constexpr uint64_t kInnerStepsAtMost = 1'000'000;
constexpr double kFew = 1e-6, kMany = 1e6, kRarest = 1e-9;

struct Range {
  const char* name;
  double value;
  double low, high;
  bool or_0 = false;
};

Status check(const Range& r) {
  const bool inside = r.value >= r.low && r.value <= r.high;
  if (std::isfinite(r.value) && (inside || (r.or_0 && r.value == 0))) return Done{};
  std::string accepted = fmt::format("{}a number from {}", r.or_0 ? "0 or " : "", r.low);
  if (r.high < kNever) accepted += fmt::format(" to {}", r.high);
  return user_error(fmt::format("{} is {}, accepted: {}", r.name, r.value, accepted));
}

// Vectors of analytic objectives can have any length. A rank has at least two, x and a gradient. A
// run that does not fit is paged in and out until it is killed, and reacts to no signal.
Status check_memory(const Settings& s) {
  const std::string& objective = s.objective.objective;
  const bool analytic = objective == "quadratic" || objective == "diagonal" ||
                        objective == "consensus" || objective == "matrix";
  if (!analytic || s.objective.dim < 1) return Done{};  // the objective refuses values below 1
  constexpr double kGiB = 1 << 30;
  const double needed = 2.0 * sizeof(double) * static_cast<double>(s.objective.dim) * ranks_here(s);
  const double there =
      static_cast<double>(::sysconf(_SC_PHYS_PAGES)) * static_cast<double>(::sysconf(_SC_PAGESIZE));
  if (needed <= there) return Done{};
  return user_error(fmt::format(
      "dim is {} with ranks {}, whose vectors need {:.1f} GiB at least, accepted: what fits into "
      "the {:.1f} GiB of this machine",
      s.objective.dim, ranks_here(s), needed / kGiB, there / kGiB));
}

bool shares_work(const Settings& s) {
  if (s.share == Share::equal) return false;
  const Method* const method = find_method(s.method);
  const bool waits = method != nullptr && method->pattern != Pattern::pairwise && method->waits;
  if (s.share == Share::pool || waits) return !waits;
  const std::string& partition = s.objective.partition;
  const bool alike = partition == "auto" || partition == "iid" || partition == kWhole;
  return alike && (s.objective.objective == "network" || s.objective.objective == kGuestObjective);
}

}  // namespace

InnerSteps inner_steps_of(const Settings& s) {
  constexpr double kOuterLr = 0.7;
  const bool by_default = s.inner_steps > 1 && s.outer_lr == 0;
  return {s.inner_steps, by_default ? kOuterLr : s.outer_lr, s.rule.optimizer};
}

RuleSettings rule_settings_of(const Settings& s) {
  RuleSettings rule = s.rule;
  if (inner_steps_of(s))
    rule.optimizer = {.momentum = s.outer_momentum, .nesterov = s.outer_momentum > 0};
  return rule;
}

bool pools(const Settings& s) { return s.gradients > 0 && shares_work(s); }

bool may_pool(const Settings& s) {
  return shares_work(s) && (s.gradients > 0 || s.objective.objective == kGuestObjective);
}

Result<std::optional<int>> gpu_named(const std::string& name) {
  using Number = std::optional<int>;
  if (name == "cpu") return Number();
  if (name == "cuda") return Number(0);
  if (name == "auto") return cuda_device_count() > 0 ? Number(emptiest_cuda_device()) : Number();
  constexpr std::string_view kPrefix = "cuda:";
  int number = 0;
  if (name.starts_with(kPrefix)) {
    const char* const end = name.data() + name.size();
    const auto [stopped, wrong] = std::from_chars(name.data() + kPrefix.size(), end, number);
    if (wrong == std::errc() && stopped == end && number >= 0) return Number(number);
  }
  return user_error("device is \"" + name + "\", accepted: cpu, cuda, cuda:K, auto");
}

Status check(const Settings& s) {
  if (s.ranks < 1) return user_error(fmt::format("ranks is {}, accepted: 1 or more", s.ranks));
  const Range ranges[] = {
      {"rate", s.rate, kRarest, kMany},
      {"lr", s.lr.peak, 0, kNever},
      {"warmup", s.lr.warmup, 0, 1},
      {"momentum", s.rule.optimizer.momentum, 0, 0.999999},
      {"weight-decay", s.rule.optimizer.weight_decay, 0, kNever},
      {"beta2", s.rule.optimizer.beta2, 0, 0.999999},
      {"sample-seconds", s.sample_s, kFew, kLongest_s, true},
      {"alarm-seconds", s.alarm_s, kFew, kLongest_s, true},
      {"latency", s.link.latency_s, kShortest_s, kLongest_s, true},
      {"jitter", s.link.jitter, 0, 1},
      {"transfer", s.link.transfer_s, kShortest_s, kLongest_s, true},
      {"bandwidth", s.link.bandwidth, 1, kNever, true},
      {"gradient-seconds", s.gradient_s, kFew, kLongest_s},
      {"speed-spread", s.speed_spread, 0, 10},
      {"until", s.until_s, kShortest_s, kLongest_s, true},
      {"target", s.target, 0, 1},
      {"noise", s.objective.noise, 0, kNever},
      {"clip", s.objective.clip, 0, kNever},
      {"gamma", s.rule.gamma, 0, kNever},
      {"fastest-at-most", s.fastest_at_most, 1, kNever},
      {"outer-lr", s.outer_lr, 0, kNever},
      {"outer-momentum", s.outer_momentum, 0, 0.999999},
  };
  for (const Range& range : ranges)
    if (Status in = check(range); !in) return in;
  if (s.inner_steps < 1 || s.inner_steps > kInnerStepsAtMost)
    return user_error(
        fmt::format("inner-steps is {}, accepted: from 1 to {}", s.inner_steps, kInnerStepsAtMost));
  if (s.exchanges_at_once < 1)
    return user_error(
        fmt::format("exchanges_at_once is {}, accepted: 1 or more", s.exchanges_at_once));
  if (s.threads < 0 || s.threads > kThreadsAtMost)
    return user_error(
        fmt::format("threads is {}, accepted: 0 (all) to {}", s.threads, kThreadsAtMost));
  if (s.target > 0 && s.clock == Clock::wall)
    return user_error(
        fmt::format("target is {} on the wall clock, accepted: 0, or the virtual clock", s.target));
  if (Status room = check_memory(s); !room) return room;
  const auto gpu = gpu_named(s.device);
  if (!gpu) return gpu.error();
  if (*gpu && s.clock == Clock::simulated)
    return user_error("device is " + s.device + " on the virtual clock, accepted: cpu");
  const Method* method = find_method(s.method);
  if (method != nullptr && method->pattern != Pattern::pairwise && s.pacing == Pacing::poisson)
    return user_error("pacing is poisson, method " + s.method +
                      " accepts: greedy, since a step begins when the round before it has ended");
  const bool is_counted = s.gradients > 0 || s.objective.objective == kGuestObjective;
  if (s.share == Share::pool && !(is_counted && shares_work(s)))
    return user_error(fmt::format(
        "share is pool {}, accepted: equal{}",
        !is_counted ? "without --gradients" : "with method " + s.method,
        !is_counted ? ", or --gradients N" : ", since its ranks take their steps together"));
  if (const auto graph = usable_graph(s, s.topology, s.ranks); !graph) return graph.error();
  if (Status plan = check(s.plan, s.ranks, s.clock == Clock::wall); !plan) return plan;
  for (const Reconfiguration& change : s.plan.reconfigurations)
    if (const auto later = usable_graph(s, change.topology, s.ranks); !later) return later.error();
  return Done{};
}

Result<Topology> usable_graph(const Settings& s, const std::string& topology, int ranks) {
  auto graph = make_topology(topology, ranks, s.rate);
  if (!graph) return graph;
  RuleSettings rule = rule_settings_of(s);
  const Method* method = find_method(s.method);
  if (rule.gamma == 0 && method != nullptr && method->gossips) {  // 0: the best one
    const auto matrix = gossip_matrix(s.weights, *graph);
    if (!matrix) return matrix.error();
    const auto spectrum = matrix_spectrum(*graph, *matrix);
    if (!spectrum) return spectrum.error();
    rule.gamma = best_gamma(*spectrum);
  }
  if (const Status fits = check_method(s.method, rule, s.weights, *graph); !fits)
    return fits.error();
  return graph;
}

}  // namespace grapevine
