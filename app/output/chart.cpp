#include "app/output/chart.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <sstream>

#include "app/system/words.hpp"
#include "kernels/base/printable.hpp"

namespace grapevine {
namespace {

constexpr double kWidth = 640, kPanel = 200, kLeft = 80, kRight = 20, kTop = 40, kGap = 60;
constexpr double kLine = 16;  // of the legend
constexpr double kAcross = kWidth - kLeft - kRight;

const char* const kColours[] = {"#1a6", "#c33", "#26c", "#d80", "#829", "#088",
                                "#666", "#a52", "#c2a", "#480", "#039", "#b70"};

const char* colour(size_t k) { return kColours[k % std::size(kColours)]; }

// The style of a line. The next one has other dashes, and is visible through the gaps where it
// covers this one.
std::string stroke(size_t k) {
  const char* const dashes[] = {"", " stroke-dasharray=\"6 3\"", " stroke-dasharray=\"2 3\"",
                                " stroke-dasharray=\"9 3 2 3\""};
  return std::string("stroke=\"") + colour(k) + "\"" +
         dashes[(k + k / std::size(kColours)) % std::size(dashes)];
}

// One of five small shapes around a point.
void add_marker(std::ostream& out, double x, double y, size_t k) {
  const char* const shapes[] = {"m-3 -3h6v6h-6z", "m0 -4l4 7h-8z", "m0 -4l4 4l-4 4l-4 -4z",
                                "m-3 -3l6 6m0 -6l-6 6", "m-4 0h8m-4 -4v8"};
  out << "<path class=\"marker\" d=\"M" << x << " " << y << shapes[k % std::size(shapes)]
      << "\" stroke=\"" << colour(k) << "\" fill=\"" << colour(k) << "\"/>\n";
}

// 1, 2 or 5 times a power of ten: about five of them in the span.
double round_step(double span) {
  const double least = span / 5, power = std::pow(10, std::floor(std::log10(least)));
  for (const double times : {1.0, 2.0, 5.0})
    if (times * power >= least * (1 - 1e-9)) return times * power;
  return 10 * power;
}

std::vector<double> multiples(double step, double low, double high) {
  std::vector<double> all;
  const auto first = static_cast<int64_t>(std::ceil(low / step - 1e-9));
  const auto last = static_cast<int64_t>(std::floor(high / step + 1e-9));
  for (int64_t k = first; k <= last; ++k)
    all.push_back(static_cast<double>(k) * step);
  return all;
}

// An axis in the units of the drawing: logarithms to base 10 if it is logarithmic.
struct Axis {
  bool logarithmic = false;
  double low = 0, high = 0;

  bool shows(double value) const { return std::isfinite(value) && (!logarithmic || value > 0); }
  double drawn(double value) const { return logarithmic ? std::log10(value) : value; }
  double part(double at) const { return high > low ? (at - low) / (high - low) : 0.5; }
  double value(double at) const { return logarithmic ? std::pow(10, at) : at; }
  std::string text(double at) const { return as_short(value(at)); }

  std::vector<double> ticks() const {
    if (!(high > low)) return {low};
    if (!logarithmic) return multiples(round_step(high - low), low, high);
    if (high - low >= 1) return multiples(std::ceil((high - low) / 6), low, high);
    const double least = value(low), most = value(high);  // less than a decade: round values
    std::vector<double> at = multiples(round_step(most - least), least, most);
    for (double& t : at)
      t = drawn(t);
    return at;
  }
};

struct Axes {
  Axis x, y;
  bool shows(const Series& s, size_t k) const { return x.shows(s.x[k]) && y.shows(s.y[k]); }
};

Axes axes_of(const Panel& panel) {
  Axes axes{{panel.log_x, 0, 0}, {panel.log_y, 0, 0}};
  bool first = true;
  for (const Series& s : panel.series) {
    for (size_t k = 0; k < s.x.size(); ++k) {
      if (!axes.shows(s, k)) continue;
      const double x = axes.x.drawn(s.x[k]), y = axes.y.drawn(s.y[k]);
      if (first) axes = {{panel.log_x, panel.log_x ? x : 0, x}, {panel.log_y, y, y}};
      first = false;
      axes.x = {panel.log_x, std::min(axes.x.low, x), std::max(axes.x.high, x)};
      axes.y = {panel.log_y, std::min(axes.y.low, y), std::max(axes.y.high, y)};
    }
  }
  return axes;
}

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : printable(text)) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      default: out += c;
    }
  }
  return out;
}

void add_text(std::ostream& out, double x, double y, const char* anchor, const std::string& text) {
  out << "<text x=\"" << x << "\" y=\"" << y << "\" text-anchor=\"" << anchor << "\">"
      << escaped(text) << "</text>\n";
}

void add_frame(std::ostream& out, const Panel& panel, const Axes& axes, double top) {
  out << "<rect x=\"" << kLeft << "\" y=\"" << top << "\" width=\"" << kAcross << "\" height=\""
      << kPanel << "\" fill=\"none\" stroke=\"#999\"/>\n";
  add_text(out, kLeft, top - 6, "start", panel.name + (panel.log_y ? " (log)" : ""));
  for (const double t : axes.y.ticks()) {
    const double down = top + kPanel * (1 - axes.y.part(t));
    out << "<path d=\"M" << kLeft << " " << down << "h" << kAcross
        << "\" stroke=\"#ddd\" fill=\"none\"/>\n";
    add_text(out, kLeft - 6, down + 4, "end", axes.y.text(t));
  }
  for (const double t : axes.x.ticks()) {
    const bool is_short = panel.log_x || axes.x.high < 100;
    const std::string text = panel.x_is_bytes ? as_bytes(axes.x.value(t))
                             : is_short       ? axes.x.text(t)
                                              : with_commas(t);
    add_text(out, kLeft + kAcross * axes.x.part(t), top + kPanel + 16, "middle", text);
  }
  add_text(out, kLeft + kAcross / 2, top + kPanel + 32, "middle",
           panel.x_name + (panel.log_x ? " (log)" : ""));
}

// Panels with the same quantity on an axis share its range.
std::vector<Axes> axes_of(const std::vector<Panel>& panels) {
  std::vector<Axes> all;
  for (const Panel& panel : panels)
    all.push_back(axes_of(panel));
  std::vector<Axes> shared = all;
  const auto widen = [](Axis& axis, const Axis& other) {
    axis.low = std::min(axis.low, other.low);
    axis.high = std::max(axis.high, other.high);
  };
  for (size_t a = 0; a < all.size(); ++a) {
    for (size_t b = 0; b < all.size(); ++b) {
      const Panel &one = panels[a], &other = panels[b];
      if (one.x_name == other.x_name && one.log_x == other.log_x) widen(shared[a].x, all[b].x);
      const bool alike = !one.quantity.empty() && one.quantity == other.quantity;
      if (alike && one.log_y == other.log_y) widen(shared[a].y, all[b].y);
    }
  }
  return shared;
}

// Values below the lowest shown y are drawn at it.
void add_band(std::ostream& out, const Series& s, const Axes& axes, size_t place, double top) {
  std::string there, back;
  for (size_t k = 0; k < s.around.size(); ++k) {
    if (!axes.shows(s, k)) continue;
    const double x = kLeft + kAcross * axes.x.part(axes.x.drawn(s.x[k]));
    const auto point = [&](double y) {
      const double part = axes.y.shows(y) ? std::clamp(axes.y.part(axes.y.drawn(y)), 0.0, 1.0) : 0;
      return fmt::format("{:g},{:g} ", x, top + kPanel * (1 - part));
    };
    there += point(s.y[k] + s.around[k]);
    back = point(s.y[k] - s.around[k]) + back;
  }
  if (there.empty()) return;
  out << "<polygon fill-opacity=\"0.15\" fill=\"" << colour(place) << "\" points=\"" << there
      << back << "\"/>\n";
}

// Six along each series; those of the next series are shifted.
void add_markers(std::ostream& out, const Panel& panel, const Axes& axes, double top) {
  constexpr double kMarkers = 6;
  const auto count = static_cast<double>(panel.series.size());
  for (size_t c = 0; c < panel.series.size(); ++c) {
    const Series& s = panel.series[c];
    double next = kAcross / kMarkers * (static_cast<double>(c) + 0.5) / count;
    for (size_t k = 0; k < s.x.size(); ++k) {
      if (!axes.shows(s, k)) continue;
      const double across = kAcross * axes.x.part(axes.x.drawn(s.x[k]));
      if (across < next) continue;
      add_marker(out, kLeft + across, top + kPanel * (1 - axes.y.part(axes.y.drawn(s.y[k]))), c);
      while (next <= across)
        next += kAcross / kMarkers;
    }
  }
}

void add_panel(std::ostream& out, const Panel& panel, const Axes& axes, double top) {
  add_frame(out, panel, axes, top);
  if (panel.series.size() > 1) add_markers(out, panel, axes, top);
  for (size_t c = 0; c < panel.series.size(); ++c) {
    const Series& s = panel.series[c];
    add_band(out, s, axes, c, top);
    out << "<polyline fill=\"none\" " << stroke(c) << " stroke-width=\"1.5\" points=\"";
    bool first = true;
    for (size_t k = 0; k < s.x.size(); ++k) {
      if (!axes.shows(s, k)) continue;
      out << (first ? "" : " ") << kLeft + kAcross * axes.x.part(axes.x.drawn(s.x[k])) << ","
          << top + kPanel * (1 - axes.y.part(axes.y.drawn(s.y[k])));
      first = false;
    }
    out << "\"/>\n";
  }
}

}  // namespace

std::string chart_svg(const std::string& title, const std::vector<Panel>& panels) {
  const size_t names = panels.empty() || panels[0].series.size() < 2 ? 0 : panels[0].series.size();
  const double below = kTop + kLine * static_cast<double>(names) + (names > 0 ? 10 : 0);
  const auto count = static_cast<double>(std::max<size_t>(1, panels.size()));
  std::ostringstream out;
  out << "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" << kWidth << "\" height=\""
      << below + count * (kPanel + kGap) << "\" font-family=\"sans-serif\" font-size=\"12\">\n"
      << "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n";
  add_text(out, kWidth / 2, 16, "middle", title);
  if (panels.empty()) add_text(out, kWidth / 2, 60, "middle", "fewer than three samples");
  for (size_t k = 0; k < names; ++k) {
    const double down = kTop + kLine * static_cast<double>(k);
    out << "<path d=\"M" << kLeft << " " << down - 4 << "h24\" " << stroke(k)
        << " stroke-width=\"2\"/>\n";
    add_marker(out, kLeft + 12, down - 4, k);
    add_text(out, kLeft + 32, down, "start", panels[0].series[k].name);
  }
  const std::vector<Axes> axes = axes_of(panels);
  for (size_t k = 0; k < panels.size(); ++k)
    add_panel(out, panels[k], axes[k], below + static_cast<double>(k) * (kPanel + kGap));
  out << "</svg>\n";
  return out.str();
}

}  // namespace grapevine
