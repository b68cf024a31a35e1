// Draws a graph: a torus as its grid, a tree from its centre outwards, all others on a circle.
#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numbers>

#include "kernels/base/spec.hpp"
#include "topologies/graphs.hpp"
#include "topologies/topology.hpp"

namespace grapevine {
namespace {

constexpr double kSize = 800;   // of the drawing; the caption is below it
constexpr double kReach = 340;  // from the middle to the outermost ranks
constexpr double kPi = std::numbers::pi;
constexpr int kLabelledRanks = 64;

struct Point {
  double x = 0, y = 0;
};

struct Layout {
  std::vector<Point> points;  // one per rank
  double spacing = kReach;    // about the distance of two neighbouring points
  int rows = 0, columns = 0;  // of a grid, else 0
};

Point on_circle(double radius, double turn) {  // turn 0 is at the top, clockwise
  return {kSize / 2 + radius * std::sin(2 * kPi * turn),
          kSize / 2 - radius * std::cos(2 * kPi * turn)};
}

Layout circle(int ranks) {
  Layout layout;
  const double radius = ranks == 1 ? 0 : kReach;
  for (int k = 0; k < ranks; ++k)
    layout.points.push_back(on_circle(radius, 1.0 * k / ranks));
  layout.spacing = 2 * kPi * kReach / std::max(ranks, 2);
  return layout;
}

Layout grid(int rows, int columns) {
  Layout layout;
  layout.rows = rows;
  layout.columns = columns;
  layout.spacing = 2 * kReach / std::max({rows, columns, 2});
  for (int row = 0; row < rows; ++row) {
    for (int column = 0; column < columns; ++column) {
      layout.points.push_back({kSize / 2 + (column - 0.5 * (columns - 1)) * layout.spacing,
                               kSize / 2 + (row - 0.5 * (rows - 1)) * layout.spacing});
    }
  }
  return layout;
}

/// Removes leaves until one or two ranks are left; returns the smaller one.
int centre_of_tree(const Topology& tree) {
  std::vector<int> left, leaves;
  for (int rank = 0; rank < tree.ranks(); ++rank) {
    left.push_back(tree.degree(rank));
    if (left.back() == 1) leaves.push_back(rank);
  }
  for (int remaining = tree.ranks(); remaining > 2;) {
    remaining -= static_cast<int>(leaves.size());
    std::vector<int> next;
    for (const int leaf : leaves) {
      for (const Neighbour& other : tree.neighbours(leaf)) {
        if (--left[other.rank] == 1) next.push_back(other.rank);
      }
    }
    leaves = std::move(next);
  }
  return *std::ranges::min_element(leaves);
}

/// A rank's depth is its distance from the middle; every branch gets a sector in proportion to its
/// leaves.
Layout radial_tree(const Topology& tree) {
  const auto ranks = static_cast<size_t>(tree.ranks());
  std::vector<int> order{centre_of_tree(tree)};
  std::vector<int> parent(ranks, -1), depth(ranks, 0), leaves(ranks, 0);
  for (size_t at = 0; at < order.size(); ++at) {
    for (const Neighbour& child : tree.neighbours(order[at])) {
      if (child.rank == parent[order[at]]) continue;
      parent[child.rank] = order[at];
      depth[child.rank] = depth[order[at]] + 1;
      order.push_back(child.rank);
    }
  }
  for (size_t at = ranks; at-- > 1;) {
    leaves[order[at]] = std::max(leaves[order[at]], 1);
    leaves[parent[order[at]]] += leaves[order[at]];
  }
  const double step = kReach / depth[order.back()];
  const double all = leaves[order[0]];
  std::vector<double> free_from(ranks, 0.0);  // where the next child's sector begins
  Layout layout;
  layout.points.assign(ranks, on_circle(0, 0));
  for (size_t at = 1; at < ranks; ++at) {
    const int rank = order[at];
    const double begin = free_from[parent[rank]];
    free_from[rank] = begin;
    free_from[parent[rank]] += leaves[rank] / all;
    layout.points[rank] = on_circle(step * depth[rank], begin + 0.5 * leaves[rank] / all);
  }
  layout.spacing = std::min(step, 2 * kPi * kReach / all);
  return layout;
}

Layout layout_of(const Topology& graph) {
  const GraphRequest request = request_of(graph.name(), graph.ranks());
  if (Spec(graph.name()).name == "torus") {
    const auto sides = torus_sides(request);
    if (sides) return grid(sides->rows, sides->columns);
  }
  int most = 0;
  for (int rank = 0; rank < graph.ranks(); ++rank)
    most = std::max(most, graph.degree(rank));
  const bool tree = graph.edges().size() + 1 == static_cast<size_t>(graph.ranks());
  return tree && most > 2 ? radial_tree(graph) : circle(graph.ranks());
}

std::string tenths(double value) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, value, std::chars_format::fixed, 1);
  return std::string(text, end.ptr);
}

std::string line(Point a, Point b) {
  return fmt::format("M{} {}L{} {}", tenths(a.x), tenths(a.y), tenths(b.x), tenths(b.y));
}

/// An edge between opposite borders of the grid leaves on one side and returns on the other.
std::string path_of(const Edge& edge, const Layout& layout) {
  const Point a = layout.points[edge.i], b = layout.points[edge.j];
  if (layout.columns == 0) return line(a, b);
  const bool same_row = edge.i / layout.columns == edge.j / layout.columns;
  const int apart = same_row ? edge.j - edge.i : (edge.j - edge.i) / layout.columns;
  if (apart == 1 || apart + 1 != (same_row ? layout.columns : layout.rows)) return line(a, b);
  const double stub = 0.5 * layout.spacing;
  if (same_row) return line(a, {a.x - stub, a.y}) + line(b, {b.x + stub, b.y});
  return line(a, {a.x, a.y - stub}) + line(b, {b.x, b.y + stub});
}

std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '&')
      result += "&amp;";
    else if (c == '<')
      result += "&lt;";
    else
      result += static_cast<unsigned char>(c) < 0x20 ? '?' : c;
  }
  return result;
}

std::string count(size_t n, const std::string& word) {
  return fmt::format("{} {}{}", n, word, n == 1 ? "" : "s");
}

std::string caption(const Topology& graph, double least, double most) {
  std::string text =
      fmt::format("{}, {}, {}", graph.name(), count(static_cast<size_t>(graph.ranks()), "rank"),
                  count(graph.edges().size(), "edge"));
  if (graph.edges().empty()) return text;
  if (most - least <= 1e-9 * most) return fmt::format("{} of rate {}", text, shown(most));
  return fmt::format("{} of rates {} to {}", text, shown(least), shown(most));
}

void draw_edges(const Topology& graph, const Layout& layout, double most_rate, std::string& svg) {
  const double crowd = static_cast<double>(graph.edges().size()) / (2.0 * graph.ranks());
  const double widest =
      std::clamp(3.5 / std::sqrt(std::max(crowd, 1.0)), 0.5, 0.3 * layout.spacing + 0.5);
  svg += "<g fill=\"none\" stroke=\"#4a6fa5\" stroke-opacity=\"0.6\" stroke-linecap=\"round\">\n";
  for (const Edge& edge : graph.edges()) {
    const double width = std::max(0.2, widest * std::sqrt(edge.rate / most_rate));
    const std::string colour =
        edge.trees == 2 ? "\" stroke=\"#b5651d" : "";  // the second tree's own
    svg += fmt::format("<path d=\"{}{}\" stroke-width=\"{}\"/>\n", path_of(edge, layout), colour,
                       tenths(width));
  }
  svg += "</g>\n";
}

void draw_ranks(const Topology& graph, const Layout& layout, std::string& svg) {
  const double radius = std::clamp(0.36 * layout.spacing, 0.8, 18.0);
  svg += fmt::format("<g fill=\"#ffffff\" stroke=\"#1f3a5f\" stroke-width=\"{}\">\n",
                     tenths(std::min(1.6, 0.3 * radius)));
  for (const Point& point : layout.points) {
    svg += fmt::format("<circle cx=\"{}\" cy=\"{}\" r=\"{}\"/>\n", tenths(point.x), tenths(point.y),
                       tenths(radius));
  }
  svg += "</g>\n";
  if (graph.ranks() > kLabelledRanks) return;
  svg += fmt::format("<g text-anchor=\"middle\" fill=\"#1f3a5f\" font-size=\"{}\">\n",
                     tenths(1.0 * radius));
  for (int rank = 0; rank < graph.ranks(); ++rank) {
    const Point& point = layout.points[rank];
    svg += fmt::format("<text x=\"{}\" y=\"{}\">{}</text>\n", tenths(point.x),
                       tenths(point.y + 0.35 * radius), rank);
  }
  svg += "</g>\n";
}

}  // namespace

std::string draw_svg(const Topology& graph) {
  double least = 0, most = 0;
  if (!graph.edges().empty()) {
    const auto by_rate = std::ranges::minmax(graph.edges(), {}, &Edge::rate);
    least = by_rate.min.rate;
    most = by_rate.max.rate;
  }
  const Layout layout = layout_of(graph);
  std::string svg =
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 800 840\" width=\"800\" "
      "height=\"840\" font-family=\"sans-serif\">\n"
      "<rect width=\"800\" height=\"840\" fill=\"#fbfbf8\"/>\n";
  draw_edges(graph, layout, most, svg);
  draw_ranks(graph, layout, svg);
  svg += fmt::format(
      "<text x=\"400\" y=\"818\" text-anchor=\"middle\" font-size=\"17\" "
      "fill=\"#444444\">{}</text>\n</svg>\n",
      escaped(caption(graph, least, most)));
  return svg;
}

}  // namespace grapevine
