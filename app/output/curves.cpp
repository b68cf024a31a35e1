#include "app/output/curves.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "app/output/chart.hpp"
#include "app/output/json_output.hpp"
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

void add_tests(const std::vector<TestPoint>& tests, const std::string& x_name,
               std::vector<Panel>& panels) {
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
    if (curve.x.size() > 1) panels.push_back({name, x_name, false, false, false, {curve}});
  }
}

void add_reported(const std::vector<ReportedPoint>& reported, const std::string& x_name,
                  std::vector<Panel>& panels) {
  std::map<std::string, Series> curves;
  for (const ReportedPoint& p : reported)
    for (const auto& [name, value] : p.values) {
      curves[name].x.push_back(static_cast<double>(p.gradients));
      curves[name].y.push_back(value);
    }
  for (auto& [name, curve] : curves)
    if (curve.x.size() > 2)
      panels.push_back({name, x_name, false, false, false, {std::move(curve)}});
}

constexpr char kGradients[] = "gradients", kSeconds[] = "seconds";

// One panel per curve. `along` is the name of x if gradients are computed.
std::vector<Panel> panels_of(const Curves& curves, const std::string& along = kGradients) {
  const std::vector<RunSample>& points = curves.samples;
  const bool computes = !points.empty() && points.back().gradients > 0;
  const std::string x_name = computes ? along : kSeconds;
  Series loss, distance, relative;
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
    if (std::isfinite(p.relative_distance) && p.relative_distance > 0) {
      relative.x.push_back(x);
      relative.y.push_back(p.relative_distance);
    }
  }
  std::vector<Panel> panels;
  if (loss.x.size() > 2) panels.push_back({"loss", x_name, false, false, false, {loss}});
  if (distance.x.size() > 2)
    panels.push_back({"consensus distance", x_name, false, true, false, {distance}});
  if (relative.x.size() > 2)
    panels.push_back(
        {"relative consensus distance", x_name, false, true, false, {std::move(relative)}});
  add_tests(curves.tests, x_name, panels);
  add_reported(curves.reported, x_name, panels);
  return panels;
}

// --- several lives

void cut_after(uint64_t gradients, Curves& curves) {
  const auto is_beyond = [gradients](const auto& p) { return p.gradients > gradients; };
  std::erase_if(curves.samples, is_beyond);
  std::erase_if(curves.tests, is_beyond);
  std::erase_if(curves.reported, is_beyond);
}

void add_sample(const Json& line, uint64_t gradients, Curves& curves) {
  RunSample p;
  p.at_s = number_in(line, "at");
  p.gradients = gradients;
  p.loss = number_in(line, "loss");
  p.consensus_distance = number_in(line, "consensus_distance");
  p.relative_distance = number_in(line, "relative_consensus_distance");
  const bool is_new_life = !curves.samples.empty() && p.at_s < curves.samples.back().at_s;
  if (is_new_life) cut_after(gradients, curves);
  curves.samples.push_back(p);
}

void add_test(const Json& line, uint64_t gradients, Curves& curves) {
  curves.tests.push_back(
      {number_in(line, "tested_at"),
       gradients,
       {number_in(line, "test_loss"), number_in(line, "accuracy")},
       {number_in(line, "validation_loss"), number_in(line, "validation_accuracy")},
       false});
}

void add_report(const Json& line, uint64_t gradients, Curves& curves) {
  ReportedPoint p{0, number_in(line, "reported_at"), gradients, {}};
  if (line["reported"].is_object())
    for (const auto& [name, value] : line["reported"].items())
      if (value.is_number()) p.values.emplace_back(name, value.get<double>());
  curves.reported.push_back(std::move(p));
}

// The earlier lives, and this one from its beginning on.
Curves joined(const Summary& run) {
  Curves earlier = run.earlier;
  if (run.curve.empty() || run.curve.back().gradients == 0) earlier = {};  // useless if x is time
  if (!run.curve.empty()) cut_after(run.curve.front().gradients, earlier);
  const auto append = [](auto& to, const auto& from) {
    to.insert(to.end(), from.begin(), from.end());
  };
  append(earlier.samples, run.curve);
  append(earlier.tests, run.tests);
  append(earlier.reported, run.reported);
  return earlier;
}

// --- text

constexpr int kRows = 8, kColumns = 60;

// The curve at x: the mean of its points in the column, or a line between the nearest ones.
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

Curves curves_in(std::istream& lines) {
  Curves curves;
  for (std::string text; std::getline(lines, text);) {
    const Json line = json_of_text<Json>(text);
    if (!line.is_object() || !line.contains("gradients")) continue;
    if (!line["gradients"].is_number_unsigned()) continue;
    const auto gradients = line["gradients"].get<uint64_t>();
    if (line.contains("tested_at")) {
      add_test(line, gradients, curves);
    } else if (line.contains("reported")) {
      add_report(line, gradients, curves);
    } else if (line.contains("at")) {
      add_sample(line, gradients, curves);
    }
  }
  return curves;
}

std::string curves_svg(const std::string& title, const Summary& run, uint64_t pass) {
  const std::string along =
      pass == 0 ? kGradients
                : fmt::format("{} ({} are an epoch)", kGradients, with_commas(double(pass)));
  return chart_svg(title, panels_of(joined(run), along));
}

std::string curves_text(const Summary& run) {
  const std::vector<Panel> panels = panels_of(joined(run));
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
