// A chart: panels one below the other, each with the curves of several series over one axis, as a
// stand-alone SVG document.
#pragma once
#include <string>
#include <vector>

namespace grapevine {

struct Series {
  std::string name;
  // Points that are not finite, or not positive on a logarithmic axis, are left out.
  std::vector<double> x, y;
  std::vector<double> around = {};  // half the height of a band around y; empty: no band
};

struct Panel {
  std::string name, x_name;  // the name is above the panel, and says what y is
  bool log_x = false, log_y = false;
  bool x_is_bytes = false;
  std::vector<Series> series;
  // Panels with the same quantity share the range of y; empty: own range.
  std::string quantity = {};
};

/// A linear x axis begins at 0, and panels with the same x_name share its range. Colour, dashes and
/// markers of a series follow from its place in its panel, so that lines can be distinguished
/// without colours and where one covers another. If there are several series, the names of the
/// first panel are listed under the title.
std::string chart_svg(const std::string& title, const std::vector<Panel>&);

}  // namespace grapevine
