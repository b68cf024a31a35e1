#include "app/compare/curves.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <set>

#include "app/output/chart.hpp"

namespace grapevine {
namespace {

struct MeanCurve {
  std::vector<ErrorPoint> mean;
  std::vector<double> deviation;  // of the value; empty: one run
};

// Sample by sample over runs, up to the end of the shortest.
MeanCurve mean_curve(const std::vector<std::vector<ErrorPoint>>& curves) {
  size_t length = curves.front().size();
  for (const auto& curve : curves)
    length = std::min(length, curve.size());
  MeanCurve made{std::vector<ErrorPoint>(length), {}};
  std::vector<ErrorPoint>& mean = made.mean;
  const auto n = static_cast<double>(curves.size());
  for (const auto& curve : curves) {
    for (size_t k = 0; k < length; ++k) {
      mean[k].at_s += curve[k].at_s / n;
      mean[k].bytes += curve[k].bytes / n;
      mean[k].gradients += curve[k].gradients / n;
      mean[k].value += curve[k].value / n;
    }
  }
  if (curves.size() < 2) return made;
  for (size_t k = 0; k < length; ++k) {
    double squares = 0;
    for (const auto& curve : curves)
      squares += (curve[k].value - mean[k].value) * (curve[k].value - mean[k].value);
    made.deviation.push_back(std::sqrt(squares / (n - 1)));
  }
  return made;
}

// The job's name, and the number of seeds if there are several.
std::string title_of(const Job& job, const char* banded) {
  std::set<uint64_t> seeds;
  for (const Cell& cell : job.cells)
    seeds.insert(cell.options.settings.seed);
  const std::string name = std::filesystem::path(job.path).stem().string();
  if (seeds.size() < 2) return name;
  return fmt::format("{}: the mean of {} seeds{}", name, seeds.size(), banded);
}

constexpr char kDistances[] = "distance", kSuboptimalities[] = "suboptimality";

// By rank and sample, from simulate's JSON; NaN for a value that is no number.
std::vector<std::vector<ErrorPoint>> rank_curves(const Json& record, const char* name) {
  std::vector<std::vector<ErrorPoint>> curves;
  if (record.is_null() || !record.at("result").contains("rank_samples")) return curves;
  for (const Json& sample : record.at("result").at("rank_samples")) {
    const Json& values = sample.at(name);
    curves.resize(values.size());
    for (size_t rank = 0; rank < values.size(); ++rank) {
      const Json& value = values.at(rank);
      curves[rank].push_back(
          {number_in(sample, "at"), 0, 0,
           value.is_number() ? value.get<double>() : std::numeric_limits<double>::quiet_NaN()});
    }
  }
  return curves;
}

// Each rank, as the mean over seeds. If there are many ranks: the best, the middle and the worst at
// each sample, and the rank that was the worst at the end.
void add_ranks(const std::vector<std::vector<std::vector<ErrorPoint>>>& of_rank, Panel& panel) {
  constexpr size_t kEach = 8;
  std::vector<Series> ranks;
  for (size_t rank = 0; rank < of_rank.size(); ++rank) {
    Series& series = ranks.emplace_back(Series{fmt::format("rank {}", rank), {}, {}, {}});
    for (const ErrorPoint& p : mean_curve(of_rank[rank]).mean) {
      series.x.push_back(p.at_s);
      series.y.push_back(p.value);
    }
  }
  if (ranks.size() <= kEach) {
    panel.series = std::move(ranks);
    return;
  }
  panel.series = {{"the worst rank at each sample", {}, {}},
                  {"the rank in the middle", {}, {}},
                  {"the best rank", {}, {}}};
  std::vector<std::pair<double, size_t>> order;  // of the ranks with a value; the worst is first
  for (size_t k = 0; k < ranks.front().x.size(); ++k) {
    order.clear();
    for (size_t rank = 0; rank < ranks.size(); ++rank)
      if (k < ranks[rank].y.size() && std::isfinite(ranks[rank].y[k]))
        order.emplace_back(-ranks[rank].y[k], rank);
    if (order.empty()) continue;
    std::ranges::sort(order);
    const size_t places[] = {0, order.size() / 2, order.size() - 1};
    for (size_t s = 0; s < std::size(places); ++s) {
      panel.series[s].x.push_back(ranks.front().x[k]);
      panel.series[s].y.push_back(-order[places[s]].first);
    }
  }
  if (!order.empty())
    panel.name += fmt::format(", the worst at the end: rank {}", order.front().second);
}

}  // namespace

// A sample has the bytes, and a test at the same time has the loss.
std::vector<ErrorPoint> error_curve(const Measure& measure, const Json& result) {
  const Json tests = result.value("tests", Json::array());
  std::vector<ErrorPoint> curve;
  auto add = [&](const Json& from, const char* at) {
    const double value = number_in(from, measure.name);
    if (std::isfinite(value))
      curve.push_back(
          {number_in(from, at), number_in(from, "bytes"), number_in(from, "gradients"), value});
  };
  auto test = tests.begin();
  for (Json sample : result.value("samples", Json::array())) {
    const double at = number_in(sample, "at");
    while (test != tests.end() && number_in(*test, "tested_at") < at)
      ++test;
    if (test != tests.end() && number_in(*test, "tested_at") == at) sample.update(*test);
    add(sample, "at");
  }
  add(result, "virtual_seconds");
  return curve;
}

std::string comparison_svg(const Job& job, const JobOutcome& outcome) {
  const bool is_accuracy = job.measure.more_is_better;
  std::string name = is_accuracy ? "test error" : job.measure.name;
  std::replace(name.begin(), name.end(), '_', ' ');
  const bool log_y = !is_accuracy && job.measure.name != "test_loss";
  Panel by_gradients{name, "gradients", false, log_y, false, {}};
  Panel by_bytes{name, "bytes sent", true, log_y, true, {}};
  Panel by_time{name, "virtual seconds", false, log_y, false, {}};
  for (size_t k = 0; k < job.cells.size();) {
    const std::string& group = job.cells[k].group;
    std::vector<std::vector<ErrorPoint>> curves;
    for (; k < job.cells.size() && job.cells[k].group == group; ++k)
      if (const Json& record = outcome.cells[k].record; !record.is_null())
        curves.push_back(error_curve(job.measure, record.at("result")));
    if (curves.empty()) continue;
    const MeanCurve curve = mean_curve(curves);
    Series gradients{group, {}, {}, curve.deviation};
    Series bytes = gradients, time = gradients;
    for (const ErrorPoint& p : curve.mean) {
      const double error = is_accuracy ? 1 - p.value : p.value;
      gradients.x.push_back(p.gradients);
      gradients.y.push_back(error);
      bytes.x.push_back(p.bytes);
      bytes.y.push_back(error);
      time.x.push_back(p.at_s);
      time.y.push_back(error);
    }
    by_gradients.series.push_back(std::move(gradients));
    by_bytes.series.push_back(std::move(bytes));
    by_time.series.push_back(std::move(time));
  }
  for (Panel* panel : {&by_gradients, &by_bytes, &by_time})
    panel->quantity = name;
  const std::string title = title_of(job, ", in a band of one standard deviation to each side");
  const bool computes = std::ranges::any_of(by_gradients.series, [](const Series& s) {
    return std::ranges::any_of(s.x, [](double gradients) { return gradients > 0; });
  });
  if (!computes) return chart_svg(title, {by_bytes, by_time});
  return chart_svg(title, {by_gradients, by_bytes, by_time});
}

std::string curves_csv(const Job& job, const JobOutcome& outcome) {
  std::string text = fmt::format("group,seed,at,gradients,bytes,{}\n", job.measure.name);
  for (size_t k = 0; k < job.cells.size(); ++k) {
    const Json& record = outcome.cells[k].record;
    if (record.is_null()) continue;
    for (const ErrorPoint& p : error_curve(job.measure, record.at("result")))
      text +=
          fmt::format("{},{},{},{},{},{}\n", csv_field(job.cells[k].group),
                      job.cells[k].options.settings.seed, p.at_s, p.gradients, p.bytes, p.value);
  }
  return text;
}

std::string ranks_svg(const Job& job, const JobOutcome& outcome) {
  const bool judged = job.measure.name == "suboptimality";
  const char* const name = judged ? kSuboptimalities : kDistances;
  const char* const what = judged ? "suboptimality" : "squared distance from the mean";
  std::vector<Panel> panels;
  for (size_t k = 0; k < job.cells.size();) {
    const std::string& group = job.cells[k].group;
    std::vector<std::vector<std::vector<ErrorPoint>>> of_rank;  // [rank][seed]
    for (; k < job.cells.size() && job.cells[k].group == group; ++k) {
      const auto curves = rank_curves(outcome.cells[k].record, name);
      of_rank.resize(std::max(of_rank.size(), curves.size()));
      for (size_t rank = 0; rank < curves.size(); ++rank)
        of_rank[rank].push_back(curves[rank]);
    }
    Panel panel{fmt::format("{}: {}", group, what), "virtual seconds", false, true, false, {}};
    panel.quantity = what;
    add_ranks(of_rank, panel);
    if (!panel.series.empty()) panels.push_back(std::move(panel));
  }
  return panels.empty() ? "" : chart_svg(title_of(job, ""), panels);
}

std::string ranks_csv(const Job& job, const JobOutcome& outcome) {
  std::string text = "group,seed,rank,at,distance,suboptimality\n";
  const auto field = [](double value) {
    return std::isfinite(value) ? fmt::format(",{}", value) : std::string(",");
  };
  for (size_t k = 0; k < job.cells.size(); ++k) {
    const auto distances = rank_curves(outcome.cells[k].record, kDistances);
    const auto judged = rank_curves(outcome.cells[k].record, kSuboptimalities);
    for (size_t rank = 0; rank < distances.size(); ++rank) {
      for (size_t at = 0; at < distances[rank].size(); ++at) {
        text += fmt::format("{},{},{}", csv_field(job.cells[k].group),
                            job.cells[k].options.settings.seed, rank);
        text += field(distances[rank][at].at_s) + field(distances[rank][at].value) +
                field(judged[rank][at].value) + "\n";
      }
    }
  }
  return text;
}

std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\n") == text.npos) return text;
  std::string quoted = "\"";
  for (const char c : text)
    quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

}  // namespace grapevine
