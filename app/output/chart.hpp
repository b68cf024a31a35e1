// A chart: panels one above the other, each with the curves of several series over one axis, as a
// stand-alone SVG document.
#pragma once
#include <string>
#include <vector>

namespace grapevine {

struct Series {
  std::string name;
  std::vector<double> x, y;  // a point that is not finite, or not positive where logarithmic: none
  std::vector<double> around = {};  // the band is y -+ that; empty: none
};

struct Panel {
  std::string name, x_name;  // the name stands above, and says what y is
  bool log_x = false, log_y = false;
  bool x_is_bytes = false;
  std::vector<Series> series;
  std::string quantity = {};  // panels of one quantity share the range of y; empty: none does
};

/// A linear x axis begins at 0, and panels with one name of x share its range. Colour, dashes
/// and markers of a series go by its place in its panel, so that lines are told apart without
/// colours too, and where one lies on another; with more than one series the first panel's names
/// are told under the title.
std::string chart_svg(const std::string& title, const std::vector<Panel>&);

}  // namespace grapevine
