#include "tests/topologies/tools.hpp"

using namespace grapevine;
using namespace grapevine::test;

namespace {

size_t occurrences(const std::string& text, const std::string& piece) {
  size_t count = 0;
  for (size_t at = text.find(piece); at != text.npos; at = text.find(piece, at + 1))
    ++count;
  return count;
}

/// Tags nest and close; enough of XML for what is drawn.
bool well_formed(const std::string& text) {
  std::vector<std::string> open;
  for (size_t at = text.find('<'); at != text.npos; at = text.find('<', at + 1)) {
    const size_t end = text.find('>', at);
    if (end == text.npos || text.substr(at + 1, end - at - 1).find('<') != text.npos) return false;
    if (text[end - 1] == '/') continue;
    const std::string tag = text.substr(at + 1, text.find_first_of(" >", at) - at - 1);
    if (tag[0] != '/') {
      open.push_back(tag);
    } else if (open.empty() || "/" + open.back() != tag) {
      return false;
    } else {
      open.pop_back();
    }
  }
  return open.empty();
}

}  // namespace

TEST_CASE("every rank and every edge is drawn once, and nothing is not a number") {
  CHECK(rc::check([] {
    const auto [spec, ranks] = *any_spec();
    const Topology made = *make_topology(spec, ranks, 1);
    const std::string svg = draw_svg(made);
    RC_ASSERT(well_formed(svg));
    RC_ASSERT(occurrences(svg, "<circle") == static_cast<size_t>(ranks));
    RC_ASSERT(occurrences(svg, "<path") == made.edges().size());
    RC_ASSERT(occurrences(svg, "</text>") == (ranks <= 64 ? static_cast<size_t>(ranks) + 1 : 1));
    RC_ASSERT(occurrences(svg, "nan") + occurrences(svg, "inf") == 0);
  }));
}

TEST_CASE("a faster edge is drawn wider") {
  const TextFile file("0 1 1\n1 2 4\n");
  const std::string svg = draw_svg(graph(file.path(), 3));
  CHECK(occurrences(svg, "stroke-width=\"1.8\"/>") == 1);
  CHECK(occurrences(svg, "stroke-width=\"3.5\"/>") == 1);
  CHECK(svg.find("3 ranks, 2 edges of rates 1 to 4") != std::string::npos);
}

TEST_CASE("a torus is drawn as a grid whose closing edges leave it and come back") {
  const std::string svg = draw_svg(graph("torus:4x4", 16));
  CHECK(occurrences(svg, "cx=\"145.0\"") == 4);
  CHECK(svg.find("M145.0 145.0L60.0 145.0M655.0 145.0L740.0 145.0") != std::string::npos);
}

TEST_CASE("a star is drawn with its hub in the middle") {
  CHECK(draw_svg(graph("star", 9)).find("<circle cx=\"400.0\" cy=\"400.0\"") != std::string::npos);
}

TEST_CASE("the edges that only the second of two trees has are drawn in brown") {
  const std::string svg = draw_svg(graph("double-binary-trees", 16));
  CHECK(occurrences(svg, "<path") == 29);
  CHECK(occurrences(svg, "stroke=\"#b5651d\"") == 14);
}

TEST_CASE("a name with markup in it stays text") {
  const auto made = Topology::from_edges(2, {{0, 1, 1}}, "a<b&c");
  REQUIRE(made);
  const std::string svg = draw_svg(*made);
  CHECK(well_formed(svg));
  CHECK(svg.find("a&lt;b&amp;c, 2 ranks, 1 edge of rate 1") != std::string::npos);
}
