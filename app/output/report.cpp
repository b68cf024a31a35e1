#include "app/output/report.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <sstream>

#include "app/output/cost_report.hpp"
#include "app/output/curves.hpp"
#include "app/output/json_output.hpp"
#include "app/output/row.hpp"
#include "app/system/words.hpp"
#include "kernels/base/printable.hpp"
#include "models/guest.hpp"

namespace grapevine {
namespace {

std::string number(uint64_t n) { return with_commas(static_cast<double>(n)); }

std::string rate(uint64_t count, double seconds) {
  if (!(seconds > 0)) return "";
  return fmt::format(" ({} per second)", with_commas(static_cast<double>(count) / seconds));
}

std::string exchanges_text(const Summary& s) {
  if (s.edges.empty()) return number(s.exchanges);
  auto fewer = [](const EdgeSummary& a, const EdgeSummary& b) { return a.exchanges < b.exchanges; };
  const auto [least, most] = std::minmax_element(s.edges.begin(), s.edges.end(), fewer);
  return fmt::format("{}, {} to {} per edge", number(s.exchanges), number(least->exchanges),
                     number(most->exchanges));
}

std::string idle_text(const Summary& s) {
  const Idle idle = idle_of(s);
  if (idle.rank < 0) return "n/a";
  return fmt::format("{} on average, at most {} (rank {})", as_percent(idle.mean),
                     as_percent(idle.most), idle.rank);
}

void print_idle_by_rank(const Summary& s) {
  for (size_t r = 0; r < s.ranks.size() && s.ranks.size() <= 64; ++r) {
    const bool opens = r % 8 == 0, closes = r % 8 == 7 || r + 1 == s.ranks.size();
    if (opens) std::printf("  %-22s", r == 0 ? "  rank by rank, %" : "");
    const double idle = s.ranks[r].idle_fraction;
    if (std::isfinite(idle))
      std::printf(" %5.2f", 100 * idle);
    else
      std::printf("  gone");
    if (closes) std::printf("\n");
  }
}

void print_common(const Settings& settings, const Summary& s) {
  row("consensus distance", as_short(s.consensus_distance));
  if (settings.objective.objective != "consensus")
    row("gradients", number(s.gradients) +
                         (pools(settings) ? " of " + number(settings.gradients) : "") +
                         rate(s.gradients - s.resumed_at, s.seconds));
  row("exchanges", exchanges_text(s));
  row("bytes",
      fmt::format("{} in {} messages", as_bytes(static_cast<double>(s.bytes)), number(s.frames)));
  const uint64_t broken = s.counts.broken_before + s.counts.broken_after;
  if (broken > 0) row("broken exchanges", number(broken));
  if (!s.quiet) row("exchanges left open", "some exchanges were incomplete at the end");
}

void print_curves(const Summary& s) {
  const std::string plot = curves_text(s);
  if (!plot.empty()) std::printf("\n%s", plot.c_str());
}

void print_accuracy(const Summary& s) {
  if (!std::isfinite(s.averaged.accuracy)) return;
  row("accuracy", as_percent(s.averaged.accuracy) + " of the averaged model");
  row("", as_percent(s.worst_rank_accuracy) + " of the worst rank");
}

void print_best(const Summary& s) {
  if (s.best) row("best of the tests", score_text(*s.best));
  if (s.stopped_early) row("", "no later test was better, so the run ended early");
}

}  // namespace

std::string epoch_text(const EpochInfo& e) {
  return fmt::format("epoch {}: {} of {}, chi1 {:.4g}, chi2 {:.4g}, eta {:.4g}, alpha~ {:.4g}",
                     as_epoch(e.epoch), e.topology, e.ranks, e.chi1, e.chi2, e.eta, e.alpha_tilde);
}

const char* const kWordsOfARun =
    "(epoch: a version of the graph; chi1, chi2: seconds in which differences between ranks "
    "shrink, over the whole graph and over an edge; eta, alpha~: the momentum and the step of an "
    "exchange for this graph; consensus distance: the mean over ranks of |x - mean|^2)";

Error shortfall(const std::string& why) {
  return world_error("the run is incomplete: " + why +
                     ", and with equal shares no rank takes the gradients of another, accepted: "
                     "all ranks from the start to the end; with --share pool the others take them");
}

std::optional<Error> shortfall_of(const Summary& s) {
  if (s.incomplete.empty() || s.interrupted || s.drained || s.stopped_early) return std::nullopt;
  return shortfall(s.incomplete);
}

void print_sample(const std::string& text) {
  if (text.empty()) return;
  std::printf("\n  a sample of the averaged model\n");
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    std::printf("  | %s\n", printable(line).c_str());
}

Idle idle_of(const Summary& s) {
  Idle idle;
  int count = 0;
  for (size_t r = 0; r < s.ranks.size(); ++r) {
    const double fraction = s.ranks[r].idle_fraction;
    if (!std::isfinite(fraction)) continue;
    idle.mean += fraction;
    ++count;
    if (idle.rank >= 0 && fraction <= idle.most) continue;
    idle.most = fraction;
    idle.rank = s.first_rank + static_cast<int>(r);
  }
  if (count > 0) idle.mean /= count;
  return idle;
}

const char* name_of_loss(const Settings& settings) {
  return settings.objective.objective == "network" ? "test loss" : "excess loss of mean";
}

void print_training(const Settings& settings, const Summary& s, const TrainingTimes& times,
                    const std::string& run_dir) {
  std::printf("\n%s on %s of %d ranks, seed %llu%s\n", settings.method.c_str(),
              printable(settings.topology).c_str(), settings.ranks,
              static_cast<unsigned long long>(settings.seed),
              s.interrupted ? ", stopped early" : "");
  print_accuracy(s);
  row(name_of_loss(settings), as_short(s.averaged.loss));
  print_best(s);
  print_common(settings, s);
  row("idle time per rank", idle_text(s));
  print_idle_by_rank(s);
  print_cost(s.cost);
  row("time", fmt::format("{}: training {}, testing {}", as_seconds(times.total_s),
                          as_seconds(s.seconds), as_seconds(times.evaluation_s)));
  if (!run_dir.empty()) row("run directory", run_dir);
  print_sample(s.sample);
  print_curves(s);
}

void print_node(const Settings& settings, const Summary& s, const TrainingTimes& times,
                const std::string& address, const std::string& run_dir) {
  std::printf("\n%s on %s, seed %llu: ranks %d to %d at %s, the mean of %d ranks at %d node%s%s\n",
              settings.method.c_str(), printable(settings.topology).c_str(),
              static_cast<unsigned long long>(settings.seed), s.first_rank,
              s.first_rank + settings.ranks - 1, address.c_str(), s.ranks_in_mean, s.nodes,
              s.nodes == 1 ? "" : "s", s.interrupted ? ", stopped early" : "");
  print_accuracy(s);
  const bool is_tested = settings.objective.objective != kGuestObjective;  // scripts test their own
  if (is_tested) row(name_of_loss(settings), as_short(s.averaged.loss));
  print_best(s);
  print_common(settings, s);
  row("idle time per rank", idle_text(s));
  print_cost(s.cost);
  row("time", fmt::format("{}: training {}", as_seconds(times.total_s), as_seconds(s.seconds)) +
                  (is_tested ? ", testing " + as_seconds(times.evaluation_s) : ""));
  if (!run_dir.empty()) row("run directory", run_dir);
  print_sample(s.sample);
}

void print_simulation(const Settings& settings, const std::vector<Summary>& runs,
                      const std::string& run_dir) {
  const Summary& s = runs.front();
  std::printf("%s on %s of %d ranks, %s, seed %llu\n", settings.method.c_str(),
              printable(settings.topology).c_str(), settings.ranks,
              settings.objective.objective.c_str(), static_cast<unsigned long long>(settings.seed));
  print_accuracy(s);
  if (settings.objective.objective != "consensus")
    row(name_of_loss(settings), as_short(s.averaged.loss));
  print_best(s);
  print_common(settings, s);
  if (settings.objective.objective == "consensus")
    row("|pi x|", fmt::format("{} to {}", as_short(s.norm_start), as_short(s.norm_end)));
  if (settings.target > 0) row("target", s.reached_target ? "reached" : "not reached");
  row("idle time per rank", idle_text(s));
  print_cost(s.cost);
  row("error of conserved sum", as_short(s.conserved_error));
  row("virtual time", as_seconds(s.seconds));
  row("events",
      fmt::format("{} ({} per second)", number(s.events), with_commas(s.events_per_second)));
  std::printf("  %-22s %016llx\n  %-22s %016llx\n", "event log",
              static_cast<unsigned long long>(s.event_log_hash), "parameters",
              static_cast<unsigned long long>(s.parameter_hash));
  if (runs.size() > 1) {
    const MeanAndDeviation e = exchanges_of(runs);
    row("exchanges, all seeds", fmt::format("{} +- {} over {} seeds", with_commas(e.mean),
                                            with_commas(e.deviation), runs.size()));
  }
  for (const EpochInfo& e : s.epochs)
    if (s.epochs.size() > 1) row("at " + as_seconds(e.at_s), epoch_text(e));
  if (!run_dir.empty()) row("run directory", run_dir);
  print_sample(s.sample);
  print_curves(s);
}

}  // namespace grapevine
