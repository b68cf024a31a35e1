#include "app/curves.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <sstream>

#include "app/words.hpp"

namespace grapevine {
namespace {

struct Curve {
  std::string name;
  bool logarithmic = false;
  std::vector<double> x, y;  // y: log10 of the value where logarithmic
};

struct Span {
  double low = 0, high = 0;
  double part(double value) const { return high > low ? (value - low) / (high - low) : 0.5; }
};

struct Plot {
  std::string x_name;
  Span x;
  std::vector<Curve> curves;
};

Span span_of(const std::vector<double>& values) {
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  return {*low, *high};
}

Plot plot_of(const std::vector<CurvePoint>& points) {
  const bool computes = !points.empty() && points.back().gradients > 0;
  Plot plot{computes ? "gradients" : "seconds", {}, {}};
  Curve loss{"loss", false, {}, {}}, distance{"consensus distance", true, {}, {}};
  for (const CurvePoint& p : points) {
    const double x = computes ? static_cast<double>(p.gradients) : p.at_s;
    plot.x.high = std::max(plot.x.high, x);
    if (computes && std::isfinite(p.loss)) {
      loss.x.push_back(x);
      loss.y.push_back(p.loss);
    }
    if (std::isfinite(p.consensus_distance) && p.consensus_distance > 0) {
      distance.x.push_back(x);
      distance.y.push_back(std::log10(p.consensus_distance));
    }
  }
  for (Curve* curve : {&loss, &distance})
    if (curve->x.size() > 2) plot.curves.push_back(std::move(*curve));
  return plot;
}

std::string shown(const Curve& curve, double y) {
  return as_short(curve.logarithmic ? std::pow(10, y) : y);
}

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '&') out += "&amp;";
    else if (c == '<') out += "&lt;";
    else if (c == '>') out += "&gt;";
    else out += c;
  }
  return out;
}

// --- SVG: one panel a curve, one above the other

constexpr double kWidth = 640, kPanel = 200, kLeft = 80, kRight = 20, kTop = 40, kGap = 50;

void add_text(std::ostream& out, double x, double y, const char* anchor, const std::string& text) {
  out << "<text x=\"" << x << "\" y=\"" << y << "\" text-anchor=\"" << anchor << "\">"
      << escaped(text) << "</text>\n";
}

std::vector<double> ticks(const Curve& curve, const Span& y) {
  std::vector<double> at;
  if (curve.logarithmic && y.high - y.low >= 1) {
    const double step = std::ceil((y.high - y.low) / 6);
    for (double t = std::ceil(y.low); t <= y.high; t += step) at.push_back(t);
  } else {
    for (int k = 0; k <= 4; ++k) at.push_back(y.low + (y.high - y.low) * k / 4);
  }
  return at;
}

void add_panel(std::ostream& out, const Plot& plot, const Curve& curve, double top) {
  const Span y = span_of(curve.y);
  const double width = kWidth - kLeft - kRight;
  auto across = [&](double x) { return kLeft + width * plot.x.part(x); };
  auto down = [&](double v) { return top + kPanel * (1 - y.part(v)); };
  out << "<rect x=\"" << kLeft << "\" y=\"" << top << "\" width=\"" << width << "\" height=\""
      << kPanel << "\" fill=\"none\" stroke=\"#999\"/>\n";
  add_text(out, kLeft, top - 6, "start", curve.name + (curve.logarithmic ? " (log)" : ""));
  for (const double t : ticks(curve, y)) {
    out << "<path d=\"M" << kLeft << " " << down(t) << "h" << width
        << "\" stroke=\"#ddd\" fill=\"none\"/>\n";
    add_text(out, kLeft - 6, down(t) + 4, "end", shown(curve, t));
  }
  for (int k = 0; k <= 4; ++k) {
    const double x = plot.x.low + (plot.x.high - plot.x.low) * k / 4;
    add_text(out, across(x), top + kPanel + 16, "middle",
             plot.x.high < 100 ? as_short(x) : with_commas(x));
  }
  out << "<polyline fill=\"none\" stroke=\"#1a6\" stroke-width=\"1.5\" points=\"";
  for (size_t k = 0; k < curve.x.size(); ++k)
    out << (k == 0 ? "" : " ") << across(curve.x[k]) << "," << down(curve.y[k]);
  out << "\"/>\n";
}

// --- letters

constexpr int kRows = 8, kColumns = 60;

// The curve at x: the mean of its points in the column, or a line between those beside it.
double value_at(const Curve& curve, double x, double half_column) {
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

std::string panel_text(const Plot& plot, const Curve& curve) {
  const Span y = span_of(curve.y);
  std::vector<std::string> rows(kRows, std::string(kColumns, ' '));
  const double column_width = (plot.x.high - plot.x.low) / (kColumns - 1);
  for (size_t column = 0; column < kColumns; ++column) {
    const double x = plot.x.low + static_cast<double>(column) * column_width;
    const double value = value_at(curve, x, column_width / 2);
    if (std::isnan(value)) continue;
    rows[static_cast<size_t>((1 - y.part(value)) * (kRows - 1) + 0.5)][column] = '*';
  }
  std::string text = curve.name + (curve.logarithmic ? " (log)" : "") + "\n";
  for (int row = 0; row < kRows; ++row) {
    const bool edge = row == 0 || row == kRows - 1;
    const double value = row == 0 ? y.high : y.low;
    char label[16];
    std::snprintf(label, sizeof label, "%9s |", edge ? shown(curve, value).c_str() : "");
    text += label + rows[static_cast<size_t>(row)];
    text.erase(text.find_last_not_of(' ') + 1);
    text += "\n";
  }
  return text;
}

}  // namespace

std::string curves_svg(const std::string& title, const std::vector<CurvePoint>& points) {
  const Plot plot = plot_of(points);
  const double panels = static_cast<double>(std::max<size_t>(1, plot.curves.size()));
  const double height = kTop + panels * (kPanel + kGap);
  std::ostringstream out;
  out << "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" << kWidth << "\" height=\"" << height
      << "\" font-family=\"sans-serif\" font-size=\"12\">\n"
      << "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n";
  add_text(out, kWidth / 2, 16, "middle", title);
  if (plot.curves.empty()) add_text(out, kWidth / 2, 60, "middle", "fewer than three samples");
  double top = kTop;
  for (const Curve& curve : plot.curves) {
    add_panel(out, plot, curve, top);
    add_text(out, kWidth / 2, top + kPanel + 32, "middle", plot.x_name);
    top += kPanel + kGap;
  }
  out << "</svg>\n";
  return out.str();
}

std::string curves_text(const std::vector<CurvePoint>& points) {
  const Plot plot = plot_of(points);
  std::string text;
  for (const Curve& curve : plot.curves) text += panel_text(plot, curve);
  if (text.empty()) return text;
  const std::string end = with_commas(plot.x.high) + " " + plot.x_name;
  const size_t room = kColumns > end.size() ? kColumns - end.size() - 1 : 0;
  return text + std::string(10, ' ') + "0" + std::string(room + 1, ' ') + end + "\n";
}

}  // namespace grapevine
