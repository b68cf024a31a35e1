#include "app/output/json_output.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "actors/algorithms/method_registry.hpp"
#include "app/output/cost_report.hpp"
#include "app/system/words.hpp"
#include "kernels/base/printable.hpp"
#include "kernels/memory/hash.hpp"

namespace grapevine {
namespace {

Json counts_json(const Summary& s) {
  const Counts& c = s.counts;
  const auto applied = static_cast<double>(std::max<uint64_t>(1, s.exchanges));
  return {{"messages", s.frames},
          {"messages_per_exchange", static_cast<double>(s.frames) / applied},
          {"declines_per_exchange", static_cast<double>(c.declined) / applied},
          {"repeated_frames", c.repeated},
          {"broken_exchanges", c.broken_before + c.broken_after},
          {"broken_before", c.broken_before},
          {"broken_after", c.broken_after},
          {"broken_after_norm", s.broken_after_norm},
          {"clipped", c.clipped},
          {"not_finite", c.not_finite},
          {"edges_renewed", c.renewed},
          {"protocol_errors", c.protocol_errors},
          {"longest_offer_seconds", c.longest_offer_s},
          {"waited_seconds", c.waited_s}};
}

}  // namespace

std::string hash_text(const Buffer& x) { return as_hex(fnv1a(x.vec())); }

void print_json(const Json& object) {
  const std::string text = json_text(object) + "\n";
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

Json json_of_bytes(const std::string& text) {
  constexpr char kDigits[] = "0123456789abcdef";
  const std::string shown = printable(text);
  if (shown == text) return text;
  std::string bytes;
  for (const char c : text) {
    bytes += kDigits[static_cast<uint8_t>(c) >> 4];
    bytes += kDigits[c & 15];
  }
  return {{"text", shown}, {"bytes", bytes}};
}

std::optional<std::string> bytes_of(const Json& json) {
  if (json.is_string()) return json.get<std::string>();
  const auto found = json.is_object() ? json.find("bytes") : json.end();
  if (!json.is_object() || found == json.end() || !found->is_string()) return std::nullopt;
  const auto& digits = found->get_ref<const std::string&>();
  std::string bytes;
  for (size_t k = 0; k + 1 < digits.size(); k += 2) {
    unsigned byte = 0;
    const auto [end, error] = std::from_chars(&digits[k], &digits[k] + 2, byte, 16);
    if (error != std::errc() || end != &digits[k] + 2) return std::nullopt;
    bytes += static_cast<char>(byte);
  }
  return bytes;
}

Json json_of(Options options) {
  Json object = Json::object();
  for (const Option& option : option_table(options)) {
    const std::string name = option.name;
    const bool of_a_run = (option.commands & (kTrain | kSimulate)) != 0;
    if (!of_a_run || name == "json" || name == "quiet" || name.starts_with("log-")) continue;
    if (options.guests > 0 && name != "objective" && is_scripts_own(option)) continue;
    if (const auto* text = std::get_if<std::string*>(&option.field))
      object[name] = json_of_bytes(**text);
    else if (const auto* real = std::get_if<double*>(&option.field))
      object[name] = **real;
    else if (const auto* whole = std::get_if<int*>(&option.field))
      object[name] = **whole;
    else if (const auto* count = std::get_if<uint64_t*>(&option.field))
      object[name] = **count;
    else if (const auto* flag = std::get_if<bool*>(&option.field))
      object[name] = **flag;
    else
      object[name] = option_text(option);
  }
  return object;
}

Json json_of(const RunSample& p) {
  return {{"at", p.at_s},
          {"gradients", p.gradients},
          {"exchanges", p.exchanges},
          {"bytes", p.bytes},
          {"loss", p.loss},
          {"learning_rate", p.learning_rate},
          {"consensus_distance", p.consensus_distance},
          {"relative_consensus_distance", p.relative_distance},
          {"suboptimality", p.suboptimality},
          {"accuracy", p.accuracy}};
}

Json found_json(const TestPoint& p) {
  return {{"accuracy", p.test.accuracy},
          {"test_loss", p.test.loss},
          {"validation_accuracy", p.validation.accuracy},
          {"validation_loss", p.validation.loss}};
}

Json json_of(const TestPoint& p) {
  Json object = {{"tested_at", p.at_s}, {"gradients", p.gradients}};
  object.update(found_json(p));
  object["best"] = p.is_best;
  return object;
}

Json json_of(const ReportedPoint& p) {
  Json values = Json::object();
  for (const auto& [name, value] : p.values)
    values[name] = value;
  return {{"reported_at", p.at_s},
          {"gradients", p.gradients},
          {"rank", p.rank},
          {"reported", std::move(values)}};
}

Json json_of(const Score& s) {
  return {{"by", s.by},
          {"value", s.value},
          {"more_is_better", s.more_is_better},
          {"gradients", s.gradients}};
}

Json json_of(const EpochInfo& e) {
  return {{"epoch", e.epoch},
          {"at", e.at_s},
          {"topology", e.topology},
          {"ranks", e.ranks},
          {"chi1", e.chi1},
          {"chi2", e.chi2},
          {"eta", e.eta},
          {"alpha_tilde", e.alpha_tilde},
          {"lr_factor", 1 + e.relay_delay}};
}

Json json_of(const Settings& settings, const Summary& s) {
  const double time = s.seconds > 0 ? s.seconds : 1;
  Json object = {
      {"method", settings.method},
      {"topology", settings.topology},
      {"ranks", settings.ranks},
      {"seed", settings.seed},
      {"objective", settings.objective.objective},
      {"diverged", s.alarm.has_value()},
      {"accuracy", s.averaged.accuracy},
      {"worst_rank_accuracy", s.worst_rank_accuracy},
      {"test_loss", s.averaged.loss},
      {"validation_accuracy", s.validated.accuracy},
      {"validation_loss", s.validated.loss},
      {"exchanges", s.exchanges},
      {"gradients", s.gradients},
      {"resumed_at", s.resumed_at},
      {"gradients_per_second", static_cast<double>(s.gradients - s.resumed_at) / time},
      {"exchanges_per_rank_second", 2 * static_cast<double>(s.exchanges) / (settings.ranks * time)},
      {"bytes", s.bytes},
      {"payload_bytes", s.payload_bytes},
      {"consensus_distance", s.consensus_distance},
      {"relative_consensus_distance", s.relative_distance},
      {"parameter_hash", as_hex(s.parameter_hash)},
      {"interrupted", s.interrupted},
      {"incomplete", s.incomplete.empty() ? Json() : Json(s.incomplete)},
      {"cost", json_of(s.cost)},
      {"quiet", s.quiet}};
  object.update(counts_json(s));
  if (settings.objective.objective != "network") object["suboptimality"] = s.averaged.loss;
  Json idle = Json::array(), relays = Json::array(), sent = Json::array(), took = Json::array(),
       met = Json::array();
  for (const RankSummary& rank : s.ranks) {
    idle.push_back(rank.idle_fraction);
    relays.push_back(rank.counts.relay_count);
    sent.push_back(rank.bytes);
    took.push_back(rank.gradients);
    met.push_back(rank.exchanges);
  }
  object["idle_fraction"] = idle;
  if (method_named(settings.method).relays) object["relay_counts"] = relays;
  object["gradients_by_rank"] = took;
  object["exchanges_by_rank"] = met;
  object["bytes_by_rank"] = sent;
  Json edges = Json::array(), epochs = Json::array();
  for (const EdgeSummary& e : s.edges)
    edges.push_back({e.i, e.j, e.exchanges});
  for (const EpochInfo& e : s.epochs)
    epochs.push_back(json_of(e));
  Json tests = Json::array();
  for (const TestPoint& p : s.tests)
    tests.push_back(json_of(p));
  object["tests"] = tests;
  object["best"] = s.best ? json_of(*s.best) : Json();
  object["stopped_early"] = s.stopped_early;
  if (!s.sample.empty()) object["sample"] = s.sample;
  object["exchanges_by_edge"] = edges;
  object["epochs"] = epochs;
  return object;
}

Json simulation_json(const Settings& settings, const std::vector<Summary>& runs) {
  const Summary& s = runs.front();
  Json object = json_of(settings, s);
  object["virtual_seconds"] = s.seconds;
  object["events"] = s.events;
  object["events_per_second"] = s.events_per_second;
  object["event_log_hash"] = as_hex(s.event_log_hash);
  object["conserved_sum_error"] = s.conserved_error;
  object["pi_x_start"] = s.norm_start;
  object["pi_x_end"] = s.norm_end;
  if (settings.target > 0) object["reached_target"] = s.reached_target;
  if (settings.target > 0 || runs.size() > 1) {
    const MeanAndDeviation exchanges = exchanges_of(runs);
    object["exchanges_mean"] = exchanges.mean;
    object["exchanges_sd"] = exchanges.deviation;
    Json by_seed = Json::array(), reached = Json::array();
    for (const Summary& run : runs) {
      by_seed.push_back(run.exchanges);
      reached.push_back(run.reached_target);
    }
    object["exchanges_by_seed"] = by_seed;
    if (settings.target > 0) object["reached_target_by_seed"] = reached;
  }
  if (settings.sample_s > 0) {
    Json samples = Json::array();
    for (const RunSample& p : s.curve)
      samples.push_back(json_of(p));
    object["samples"] = samples;
    Json ranks = Json::array();
    for (const RankSample& r : s.rank_curve)
      ranks.push_back(
          {{"at", r.at_s}, {"distance", r.distances}, {"suboptimality", r.suboptimalities}});
    object["rank_samples"] = ranks;
  }
  return object;
}

MeanAndDeviation exchanges_of(const std::vector<Summary>& runs) {
  MeanAndDeviation out;
  const auto n = static_cast<double>(runs.size());
  for (const Summary& run : runs)
    out.mean += static_cast<double>(run.exchanges) / n;
  double squares = 0;
  for (const Summary& run : runs)
    squares += std::pow(static_cast<double>(run.exchanges) - out.mean, 2);
  if (runs.size() > 1) out.deviation = std::sqrt(squares / (n - 1));
  return out;
}

}  // namespace grapevine
