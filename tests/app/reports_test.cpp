// Numbers as words, curves, and the table of idle times.
#include <cmath>
#include <set>
#include <sstream>
#include <utility>
#include <vector>

#include "app/output/chart.hpp"
#include "app/output/curves.hpp"
#include "app/output/report.hpp"
#include "app/system/words.hpp"
#include "tests/catch.hpp"

using namespace grapevine;

TEST_CASE("numbers are rounded as people read them") {
  CHECK(with_commas(0) == "0");
  CHECK(with_commas(999) == "999");
  CHECK(with_commas(1000) == "1,000");
  CHECK(with_commas(12642.3) == "12,642");
  CHECK(with_commas(-1234567) == "-1,234,567");
  CHECK(as_percent(0.91321) == "91.32 %");
  CHECK(as_seconds(0.084) == "84 ms");
  CHECK(as_seconds(12.34) == "12.3 s");
  CHECK(as_seconds(125) == "2 min 05 s");
  CHECK(as_seconds(119.7) == "2 min 00 s");
  CHECK(as_seconds(7260) == "2 h 01 min");
  CHECK(as_bytes(17) == "17 B");
  CHECK(as_bytes(3.4e9) == "3.4 GB");
  CHECK(as_bytes(386e3) == "386 kB");
  CHECK(as_bytes(999999) == "1.0 MB");
  CHECK(as_short(1.23e-7) == "1.23e-7");
  CHECK(as_short(42) == "42");
  CHECK(as_short(1.5e-10) == "1.5e-10");
  CHECK(as_epoch(3) == "3");
  CHECK(as_epoch(uint64_t{257} << 32 | 0xc0c22211) == "257-c0c2");
  for (const auto& text : {with_commas(NAN), as_percent(NAN), as_seconds(NAN), as_short(INFINITY)})
    CHECK(text == "n/a");
}

namespace {

Summary falling(uint64_t gradients_a_sample) {
  Summary run;
  for (int k = 0; k <= 40; ++k) {
    RunSample p;
    p.at_s = k;
    p.gradients = gradients_a_sample * static_cast<uint64_t>(k);
    p.loss = k == 0 ? NAN : 2.0 / k;
    p.consensus_distance = k == 20 ? 0 : std::pow(10, -0.1 * k);
    run.curve.push_back(p);
  }
  return run;
}

size_t count(const std::string& text, const std::string& what) {
  size_t n = 0;
  for (size_t at = text.find(what); at != text.npos; at = text.find(what, at + 1))
    ++n;
  return n;
}

}  // namespace

TEST_CASE("curves are drawn against gradients, or against time where there are none") {
  const std::string both = curves_svg("a < b", falling(100)), time = curves_svg("", falling(0));
  CHECK(count(both, "<polyline") == 2);
  CHECK(count(time, "<polyline") == 1);
  CHECK(both.find(">gradients<") != both.npos);
  CHECK(time.find(">seconds<") != time.npos);
  CHECK(both.find("a &lt; b") != both.npos);
  CHECK(both.find("nan") == both.npos);
  CHECK(both.find("inf") == both.npos);
}

TEST_CASE("the text plot falls from its first column to its last") {
  const std::string text = curves_text(falling(100));
  CHECK(text.find("loss\n") == 0);
  CHECK(text.find("consensus distance (log)") != text.npos);
  const size_t distance = text.find("consensus distance");
  const std::string top = text.substr(text.find('\n', distance) + 1, 73);
  CHECK(top.find("1 |*") != top.npos);
  CHECK(text.find("0.0001 |" + std::string(55, ' ')) != text.npos);
  CHECK(text.find("4,000 gradients\n") != text.npos);
  CHECK(curves_text({}).empty());
}

TEST_CASE("what scripts of all ranks have reported is one curve for each name") {
  Summary run = falling(100);
  for (int k = 0; k < 3; ++k)
    run.reported.push_back({k % 2, 0, 1000u * static_cast<uint64_t>(k), {{"val_loss", 1.0 - k}}});
  run.reported.back().values.emplace_back("seen_once", 1);
  CHECK(count(curves_svg("", run), "<polyline") == 3);
  const std::string text = curves_text(run);
  CHECK(text.find("\nval_loss\n        1 |*") != text.npos);
  CHECK(text.find("seen_once") == text.npos);
}

TEST_CASE("idle time leaves out ranks that are gone") {
  Summary s;
  s.ranks.resize(4);
  s.ranks[0].idle_fraction = 0.9;
  s.ranks[1].idle_fraction = 0.1;
  s.ranks[2].idle_fraction = NAN;
  s.ranks[3].idle_fraction = 0.3;
  const Idle idle = idle_of(s);
  CHECK(idle.mean == Approx(1.3 / 3));
  CHECK(idle.most == 0.9);
  CHECK(idle.rank == 0);
  CHECK(idle_of(Summary()).rank == -1);
  s.first_rank = 12;  // of a node, whose ranks are not the first of the run
  CHECK(idle_of(s).rank == 12);
}

TEST_CASE("a chart has round ticks, one range of x, and lines that differ beyond the colours") {
  Series small, large;
  small.x = {0, 370};
  small.y = {0.13, 0.87};
  large.x = {0, 1234};
  large.y = {0, 1};
  const Panel below{"b", "steps", false, false, false, std::vector<Series>(13, large)};
  const std::string svg = chart_svg("", {{"a", "steps", false, false, false, {small}}, below});
  const auto count = [&svg](const std::string& part) {
    size_t found = 0;
    for (size_t at = svg.find(part); at != svg.npos; at = svg.find(part, at + 1))
      ++found;
    return found;
  };
  CHECK(count(">500<") == 2);
  CHECK(count(">1,000<") == 2);
  CHECK(count(">0.2<") == 2);
  CHECK(count(">370<") + count(">1,234<") + count(">0.13<") == 0);
  std::set<std::string> strokes;
  for (size_t at = svg.find("<polyline"); at != svg.npos; at = svg.find("<polyline", at + 1))
    strokes.insert(svg.substr(at, svg.find(" stroke-width", at) - at));
  CHECK(strokes.size() == 13);
  CHECK(count("class=\"marker\"") == 13);  // one at the end of each
}

TEST_CASE("of two lines that are one the upper one has gaps, through which the lower one is seen") {
  Series line{"a", {}, {}};
  for (int k = 0; k < 200; ++k) {
    line.x.push_back(k);
    line.y.push_back(k + 1);
  }
  const std::string one = chart_svg("", {{"y", "x", false, false, false, {line}}});
  CHECK(one.find("marker") == one.npos);
  const std::string both = chart_svg("", {{"y", "x", false, false, false, {line, line}}});
  const size_t lower = both.find("<polyline"), upper = both.find("<polyline", lower + 1);
  CHECK(both.find("dasharray", lower) > upper);
  CHECK(both.find("dasharray", upper) != both.npos);
  std::set<std::string> places;  // x of the markers of the panel, apart from those of the legend
  size_t markers = 0;
  for (size_t at = both.find("marker", both.find("<rect", both.find("marker"))); at != both.npos;
       at = both.find("marker", at + 1), ++markers)
    places.insert(both.substr(at, both.find("m", at + 8) - at));
  CHECK(markers == 12);
  CHECK(places.size() == markers);  // none hides another
}

TEST_CASE("panels of one quantity show one range of it, and others their own") {
  Series small{"", {0, 1}, {0, 1}}, large{"", {0, 1}, {0, 100}};
  const auto hundreds = [&](const char* quantity) {
    return count(chart_svg("", {{"a", "x", false, false, false, {small}, "loss"},
                                {"b", "x", false, false, false, {large}, quantity}}),
                 ">100<");
  };
  CHECK(hundreds("loss") == 2);
  CHECK(hundreds("error") == 1);
  CHECK(hundreds("") == 1);
}

TEST_CASE("the curves of a run that was killed twice are those of all its lives") {
  std::istringstream lines(
      "{\"at\":1,\"gradients\":10,\"loss\":5,\"consensus_distance\":1}\n"
      "{\"tested_at\":1,\"gradients\":10,\"test_loss\":4,\"accuracy\":null}\n"
      "{\"reported_at\":2,\"gradients\":20,\"rank\":0,\"reported\":{\"lr\":3,\"odd\":\"x\"}}\n"
      "{\"at\":2,\"gradients\":20,\"loss\":null,\"consensus_distance\":2}\n"
      "{\"at\":3,\"gradients\":30,\"loss\":7}\n"  // after the checkpoint: done once more
      "{\"tested_at\":3,\"gradients\":30,\"test_loss\":9}\n"
      "{\"time\":\"T\",\"event\":\"resumes\"}\n"
      "{\"at\":0.5,\"gradients\":25,\"loss\":4}\n"
      "{\"gradients\":-1,\"at\":9}\n[1]\n{\"gradients\":1,\"reported\":7}\nno JSON\n");
  const Curves earlier = curves_in(lines);
  REQUIRE(earlier.samples.size() == 3);
  CHECK(earlier.samples[0].loss == 5);
  CHECK(std::isnan(earlier.samples[1].loss));
  CHECK(earlier.samples[1].consensus_distance == 2);
  CHECK(earlier.samples[2].gradients == 25);
  REQUIRE(earlier.tests.size() == 1);
  CHECK(earlier.tests[0].test.loss == 4);
  CHECK(std::isnan(earlier.tests[0].test.accuracy));
  REQUIRE(earlier.reported.size() == 2);
  CHECK(earlier.reported[0].values == std::vector<std::pair<std::string, double>>{{"lr", 3}});
  Summary run;
  for (const uint64_t gradients : {22, 40, 60}) {
    RunSample p;
    p.at_s = static_cast<double>(gradients);
    p.gradients = gradients;
    p.loss = 1;
    run.curve.push_back(p);
  }
  const auto points = [&](const Curves& before) {
    run.earlier = before;
    const std::string svg = curves_svg("", run, 30);
    CHECK(count(svg, ">gradients (30 are an epoch)<") > 0);
    const size_t at = svg.find("points=\"");
    return count(svg.substr(at, svg.find('"', at + 8) - at), ",");
  };
  CHECK(points({}) == 3);
  CHECK(points(earlier) == 4);  // 10, and not 25, which is after 22
  CHECK_THAT(curves_text(run), Catch::Contains("        5 |          *"));  // at 10 of 60
}

TEST_CASE("a band lies around its curve, at the foot where a logarithm has no place for it") {
  Series plain, banded;
  plain.x = {0, 1, 2};
  plain.y = {20, 10, 30};
  banded = plain;
  banded.around = {5, 0, 40};
  CHECK(chart_svg("", {{"a", "steps", false, false, false, {plain}}}).find("<polygon") ==
        std::string::npos);
  const auto points_of = [](const std::string& svg, const std::string& shape) {
    const size_t begin = svg.find("points=\"", svg.find("<" + shape)) + 8;
    std::istringstream text(svg.substr(begin, svg.find('"', begin) - begin));
    std::vector<std::pair<double, double>> points;
    double x = 0, y = 0;
    for (char comma; text >> x >> comma >> y;)
      points.emplace_back(x, y);
    return points;
  };
  for (const bool logarithmic : {false, true}) {
    INFO(logarithmic);
    const std::string svg = chart_svg("", {{"a", "steps", false, logarithmic, false, {banded}}});
    const auto curve = points_of(svg, "polyline"), band = points_of(svg, "polygon");
    REQUIRE(curve.size() == 3);
    REQUIRE(band.size() == 6);  // there above the curve and back below it; a picture's y goes down
    for (size_t k = 0; k < 3; ++k) {
      CHECK(band[k].first == Approx(curve[k].first));
      CHECK(band[5 - k].first == Approx(curve[k].first));
      CHECK(band[k].second <= curve[k].second + 0.01);
      CHECK(band[5 - k].second >= curve[k].second - 0.01);
    }
    CHECK(band[0].second < curve[0].second - 1);
    CHECK(band[5].second > curve[0].second + 1);
    CHECK(band[1].second == Approx(band[4].second));  // without deviation
    CHECK(band[3].second >= curve[1].second - 0.01);  // 30 - 40 is below all that is shown
  }
}
