// grapevine stragglers: one slow rank, and how long the others wait for it: gossip beside
// all-reduce, on the virtual clock and under the wall clock, with one plan.
#include "actors/settings/plan.hpp"
#include "app/commands/commands.hpp"
#include "app/output/json_output.hpp"
#include "app/output/report.hpp"
#include "app/run/execute.hpp"
#include "app/run/interrupts.hpp"

namespace grapevine {
namespace {

constexpr double kVirtualGradients = 300;  // of a rank at full speed
constexpr double kWall_s = 10;

Result<StragglerRow> run_one(const Options& options, const std::string& method, Clock clock) {
  Settings s = options.settings;
  const bool wall = clock == Clock::wall;
  s.method = method;
  s.clock = clock;
  s.sample_s = 0;
  s.gradients = 0;
  if (wall) {
    s.until_s = s.until_s > 0 ? s.until_s : kWall_s;
  } else {
    s.until_s = kVirtualGradients * s.gradient_s;
    s.objective.objective = "quadratic";
  }
  RankFault slow;
  slow.ranks = {options.slow_rank};
  slow.factor = options.factor;
  s.plan.rank_faults.push_back(slow);
  if (Status ok = check(s); !ok) return ok.error();
  auto objective = make_objective_of(s);
  if (!objective) return objective.error();
  Watch watch;
  watch.interrupts = &interrupts();
  Summary summary = execute(s, *objective, watch);
  if (summary.failure) return *summary.failure;
  return StragglerRow{method, wall ? "wall" : "virtual", options.slow_rank, std::move(summary)};
}

Json row_json(const StragglerRow& r) {
  const Idle idle = idle_of(r.summary, r.slow_rank);
  Json fractions = Json::array();
  for (const RankSummary& rank : r.summary.ranks)
    fractions.push_back(rank.idle_fraction);
  return {{"method", r.method},
          {"clock", r.clock},
          {"seconds", r.summary.seconds},
          {"gradients", r.summary.gradients},
          {"idle_others_mean", idle.mean},
          {"idle_others_most", idle.most},
          {"idle_fraction", fractions}};
}

}  // namespace

Result<int> stragglers(Options options) {
  const Settings& s = options.settings;
  if (s.objective.objective == "consensus")
    return user_error("objective is \"consensus\", accepted: network, quadratic");
  std::vector<StragglerRow> rows;
  for (const Clock clock : {Clock::simulated, Clock::wall}) {
    for (const std::string& method : {s.method, std::string("all_reduce")}) {
      auto row = run_one(options, method, clock);
      if (!row) return row.error();
      rows.push_back(std::move(*row));
      if (interrupts() > 0) return kInterrupted;
    }
  }
  if (options.json) {
    Json list = Json::array();
    for (const StragglerRow& row : rows)
      list.push_back(row_json(row));
    print_json({{"ranks", s.ranks},
                {"topology", s.topology},
                {"slow_rank", options.slow_rank},
                {"factor", options.factor},
                {"runs", list}});
  } else {
    print_stragglers(s, options.factor, rows);
  }
  return 0;
}

}  // namespace grapevine
