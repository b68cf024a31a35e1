#include "app/output/curves.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "app/output/chart.hpp"
#include "app/system/words.hpp"

namespace grapevine {
namespace {

struct Span {
  double low = 0, high = 0;
  double part(double value) const { return high > low ? (value - low) / (high - low) : 0.5; }
};

Span span_of(const std::vector<double>& values) {
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  return {*low, *high};
}

void add_tests(const std::vector<TestPoint>& tests, std::vector<Panel>& panels) {
  struct Curve {
    const char* name;
    double (*of)(const TestPoint&);
  };
  constexpr Curve kCurves[] = {
      {"test accuracy", [](const TestPoint& p) { return p.test.accuracy; }},
      {"validation accuracy", [](const TestPoint& p) { return p.validation.accuracy; }},
      {"test loss", [](const TestPoint& p) { return p.test.loss; }},
      {"validation loss", [](const TestPoint& p) { return p.validation.loss; }},
  };
  for (const auto& [name, value_of] : kCurves) {
    Series curve;
    for (const TestPoint& p : tests)
      if (std::isfinite(value_of(p))) {
        curve.x.push_back(static_cast<double>(p.gradients));
        curve.y.push_back(value_of(p));
      }
    if (curve.x.size() > 2) panels.push_back({name, "gradients", false, false, false, {curve}});
  }
}

void add_reported(const std::vector<ReportedPoint>& reported, std::vector<Panel>& panels) {
  std::map<std::string, Series> curves;
  for (const ReportedPoint& p : reported)
    for (const auto& [name, value] : p.values) {
      curves[name].x.push_back(static_cast<double>(p.gradients));
      curves[name].y.push_back(value);
    }
  for (auto& [name, curve] : curves)
    if (curve.x.size() > 2)
      panels.push_back({name, "gradients", false, false, false, {std::move(curve)}});
}

// One panel a curve.
std::vector<Panel> panels_of(const Summary& run) {
  const std::vector<RunSample>& points = run.curve;
  const bool computes = !points.empty() && points.back().gradients > 0;
  const char* x_name = computes ? "gradients" : "seconds";
  Series loss, distance;
  for (const RunSample& p : points) {
    const double x = computes ? static_cast<double>(p.gradients) : p.at_s;
    if (computes && std::isfinite(p.loss)) {
      loss.x.push_back(x);
      loss.y.push_back(p.loss);
    }
    if (std::isfinite(p.consensus_distance) && p.consensus_distance > 0) {
      distance.x.push_back(x);
      distance.y.push_back(p.consensus_distance);
    }
  }
  std::vector<Panel> panels;
  if (loss.x.size() > 2) panels.push_back({"loss", x_name, false, false, false, {loss}});
  if (distance.x.size() > 2)
    panels.push_back({"consensus distance", x_name, false, true, false, {distance}});
  add_tests(run.tests, panels);
  add_reported(run.reported, panels);
  return panels;
}

// --- letters

constexpr int kRows = 8, kColumns = 60;

// The curve at x: the mean of its points in the column, or a line between those beside it.
double value_at(const Series& curve, double x, double half_column) {
  double sum = 0;
  int count = 0;
  size_t after = 0;
  for (size_t k = 0; k < curve.x.size(); ++k) {
    if (std::abs(curve.x[k] - x) <= half_column) {
      sum += curve.y[k];
      ++count;
    }
    if (curve.x[k] <= x) after = k + 1;
  }
  if (count > 0) return sum / count;
  if (after == 0 || after == curve.x.size()) return std::nan("");
  const Span between{curve.x[after - 1], curve.x[after]};
  return curve.y[after - 1] + between.part(x) * (curve.y[after] - curve.y[after - 1]);
}

std::string panel_text(const Panel& panel, double x_high) {
  Series curve = panel.series.front();
  if (panel.log_y)
    for (double& y : curve.y)
      y = std::log10(y);
  const Span y = span_of(curve.y);
  std::vector<std::string> rows(kRows, std::string(kColumns, ' '));
  const double column_width = x_high / (kColumns - 1);
  for (size_t column = 0; column < kColumns; ++column) {
    const double x = static_cast<double>(column) * column_width;
    const double value = value_at(curve, x, column_width / 2);
    if (std::isnan(value)) continue;
    rows[static_cast<size_t>((1 - y.part(value)) * (kRows - 1) + 0.5)][column] = '*';
  }
  std::string text = fmt::format("{}{}\n", panel.name, (panel.log_y ? " (log)" : ""));
  for (int row = 0; row < kRows; ++row) {
    const bool edge = row == 0 || row == kRows - 1;
    const double value = row == 0 ? y.high : y.low;
    const std::string shown = as_short(panel.log_y ? std::pow(10, value) : value);
    text += fmt::format("{:>9} |{}", edge ? shown : "", rows[static_cast<size_t>(row)]);
    text.erase(text.find_last_not_of(' ') + 1);
    text += "\n";
  }
  return text;
}

}  // namespace

std::string curves_svg(const std::string& title, const Summary& run) {
  return chart_svg(title, panels_of(run));
}

std::string curves_text(const Summary& run) {
  const std::vector<Panel> panels = panels_of(run);
  double x_high = 0;
  for (const Panel& panel : panels)
    x_high = std::max(x_high, span_of(panel.series.front().x).high);
  std::string text;
  for (const Panel& panel : panels)
    text += panel_text(panel, x_high);
  if (text.empty()) return text;
  const std::string end = fmt::format("{} {}", with_commas(x_high), panels.front().x_name);
  const size_t room = kColumns > end.size() ? kColumns - end.size() - 1 : 0;
  return text + std::string(10, ' ') + "0" + std::string(room + 1, ' ') + end + "\n";
}

}  // namespace grapevine
