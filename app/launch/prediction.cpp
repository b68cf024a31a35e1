#include "app/launch/prediction.hpp"

#include <algorithm>

#include "app/run/execute.hpp"

namespace grapevine {
namespace {

constexpr double kMostEvents = 5e6;       // some ten seconds on one core
constexpr double kLeastLatency_s = 2e-5;  // where no link was looked at

// Of the gradients of one rank that was there from begin to end: the one that did most.
double gradient_s_of(const Json& told) {
  double most = 0;
  for (const Json& count : told["gradients_by_rank"])
    most = std::max(most, count.get<double>());
  return most > 0 ? told["seconds"].get<double>() / most : 0;
}

// Among the ranks from `first` on, of one node.
double distance_among(const Summary& s, size_t first, size_t count) {
  std::vector<ConstVec> xs;
  for (size_t r = first; r < std::min(first + count, s.ranks.size()); ++r)
    if (s.ranks[r].x) xs.push_back(std::as_const(*s.ranks[r].x).vec());
  const auto number = [](const ConstVec& x, size_t k) {
    return x.dtype == DType::f64 ? x.as<double>()[k] : static_cast<double>(x.as<float>()[k]);
  };
  double sum = 0;
  for (size_t k = 0; !xs.empty() && k < xs.front().size; ++k) {
    double mean = 0;
    for (const ConstVec& x : xs)
      mean += number(x, k) / static_cast<double>(xs.size());
    for (const ConstVec& x : xs)
      sum += (number(x, k) - mean) * (number(x, k) - mean);
  }
  return xs.empty() ? 0 : sum / static_cast<double>(xs.size());
}

Settings simulated(const Options& launch, const Json& told, double round_trip_s) {
  Settings s = launch.settings;
  s.clock = Clock::simulated;
  s.local_ranks = 0;
  s.sample_s = 0;
  s.gradient_s = gradient_s_of(told);
  s.link.latency_s = std::max(kLeastLatency_s, round_trip_s / 2);
  s.plan = plan_of_processes(s.plan, launch.settings.local_ranks);
  s.until_s = told["seconds"].get<double>();
  return s;
}

}  // namespace

Plan plan_of_processes(const Plan& plan, int local_ranks) {
  Plan whole = plan;
  for (RankFault& fault : whole.rank_faults) {
    if (fault.kind == RankFaultKind::slow) continue;
    std::vector<int> ranks;
    for (const int rank : fault.ranks)
      for (int k = 0; k < local_ranks; ++k)
        ranks.push_back(rank / local_ranks * local_ranks + k);
    std::sort(ranks.begin(), ranks.end());
    ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
    fault.ranks = std::move(ranks);
  }
  return whole;
}

std::optional<Json> predicted(const Options& launch, const Json& told, double round_trip_s) {
  if (launch.settings.objective.objective == "network") return {};
  const double gradients = told["gradients"], exchanges = told["exchanges"];
  if (gradients + 10 * exchanges > kMostEvents) return {};
  const Settings s = simulated(launch, told, round_trip_s);
  if (s.gradient_s <= 0 || !check(s)) return {};
  auto objective = make_objective_of(s);
  if (!objective) return {};
  Summary summary = execute(s, *objective, {});
  if (summary.failure || summary.mean.size() == 0) return {};
  evaluate(s, {}, **objective, summary);
  return Json{{"gradients", summary.gradients},
              {"exchanges", summary.exchanges},
              {"broken_exchanges", summary.counts.broken_before + summary.counts.broken_after},
              {"consensus_distance", distance_among(summary, told["first_rank"].get<size_t>(),
                                                    told["local_ranks"].get<size_t>())},
              {"suboptimality", summary.averaged.loss},
              {"gradient_seconds", s.gradient_s}};
}

}  // namespace grapevine
