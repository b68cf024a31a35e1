// Metrics of a node that runs: over HTTP, by the console, and as Prometheus' own reader has them.
#include <fmt/core.h>
#include <httplib.h>

#include <algorithm>
#include <sstream>

#include "tests/app/tools.hpp"
#include "tests/catch.hpp"
#include "tests/node/tools.hpp"
#include "tests/skipped.hpp"

using namespace grapevine;
using namespace grapevine::test;

namespace {

std::string url_of(const Process& node) {
  const std::string says = "metrics at http://";
  const size_t begin = node.err().find(says);
  REQUIRE(begin != std::string::npos);
  const size_t host = begin + says.size();
  return node.err().substr(host, node.err().find("/metrics", host) - host);
}

double value_of(const std::string& page, const std::string& series) {
  const size_t at = page.find("\n" + series + " ");
  INFO(series << "\n" << page);
  REQUIRE(at != std::string::npos);
  return std::stod(page.substr(at + series.size() + 2));
}

// What each family says of itself holds for its series: counters end in _total in the text format.
void check_page(const std::string& page) {
  std::istringstream lines(page);
  std::string family, type;
  for (std::string line; std::getline(lines, line);) {
    INFO(line);
    std::istringstream words(line);
    std::string mark, what;
    if (line[0] == '#') {
      words >> mark >> what >> family >> type;
      CHECK((what == "HELP" || what == "TYPE"));
      continue;
    }
    words >> mark >> what;
    const std::string name = mark.substr(0, mark.find('{'));
    if (type == "histogram")
      CHECK((name == family + "_bucket" || name == family + "_sum" || name == family + "_count"));
    else
      CHECK(name == family);
    CHECK(family.ends_with("_total") == (type == "counter"));
    CHECK_NOTHROW(std::stod(what));
  }
}

}  // namespace

TEST_CASE("a node serves its metrics, to whom asks for either format") {
  auto nodes = start_nodes(2, 2,
                           {"--until=600", "--gradients=0", "--metrics=0", "--sample-seconds=0.05",
                            "--test-every=0.05s"});
  nodes[0]->wait_for([](const Json& s) {
    return s["graph_ranks"] == 4 && s["loss"].is_number() && s["exchanges"][0] > 0 &&
           s.contains("test_loss");
  });
  httplib::Client client("http://" + url_of(*nodes[0]));
  const auto plain = client.Get("/metrics");
  REQUIRE(plain);
  REQUIRE(plain->status == 200);
  CHECK_THAT(plain->get_header_value("Content-Type"),
             Catch::StartsWith("text/plain; version=0.0.4"));
  check_page(plain->body);
  for (const char* rank : {"0", "1"}) {
    CHECK(value_of(plain->body, fmt::format("grapevine_gradients_total{{rank=\"{}\"}}", rank)) > 0);
    CHECK(value_of(plain->body, fmt::format("grapevine_exchanges_total{{rank=\"{}\"}}", rank)) >=
          0);
  }
  CHECK(value_of(plain->body, "grapevine_ranks") == 4);
  CHECK(value_of(plain->body, "grapevine_test_loss") >= 0);
  CHECK(value_of(plain->body, "grapevine_members{state=\"alive\"}") == 2);
  CHECK(value_of(plain->body, "grapevine_alarms{kind=\"silent_edge\"}") == 0);
  const double round_trips = value_of(plain->body, "grapevine_offer_round_trip_seconds_count");
  CHECK(round_trips > 0);
  CHECK(value_of(plain->body, "grapevine_offer_round_trip_seconds_bucket{le=\"+Inf\"}") ==
        round_trips);
  CHECK(value_of(plain->body, "grapevine_edge_exchanges_total{rank=\"0\",peer=\"1\"}") >= 0);
  const auto open = client.Get("/metrics", {{"Accept", "application/openmetrics-text"}});
  REQUIRE(open);
  CHECK_THAT(open->get_header_value("Content-Type"),
             Catch::StartsWith("application/openmetrics-text; version=1.0.0"));
  CHECK_THAT(open->body, Catch::EndsWith("\n# EOF\n"));
  CHECK_THAT(open->body, Catch::Contains("# TYPE grapevine_gradients counter\n"));
  const Ran ran = run_grapevine("ctl " + nodes[1]->address() + " metrics");
  CHECK(ran.status == 0);
  check_page(ran.out);
  CHECK(value_of(ran.out, "grapevine_ranks") == 4);

  const Scratch scratch;
  const Ran read =
      run_command("PYTHONPATH=" GRAPEVINE_SOURCE_DIR "/.deps/modules python3 " GRAPEVINE_SOURCE_DIR
                  "/tests/node/metrics_reader.py " +
                  scratch.file("plain", plain->body) + " " + scratch.file("open", open->body));
  INFO(read.out << read.err);
  if (read.status == 77) return skipped("no prometheus_client here, so it did not read the page");
  CHECK(read.status == 0);
}

TEST_CASE("an edge whose frames are lost is an alarm of both nodes until the graph lacks it") {
  auto nodes = start_nodes(2, 2, {"--until=600", "--gradients=0", "--alarm-seconds=0.3"});
  const auto stands = [](const Json& s) {
    const Json& alarms = s["alarms"];
    return std::any_of(alarms.begin(), alarms.end(), [](const Json& a) {
      return a["kind"] == "silent_edge" && a["rank"] == 1 && a["peer"] == 2;
    });
  };
  nodes[0]->wait_for([](const Json& s) { return s["graph_ranks"] == 4 && s["exchanges"][1] > 10; });
  const Scratch scratch;
  const std::string plan =
      scratch.file("plan.toml", "[[fault]]\nkind = \"cut\"\nlinks = [[1, 2]]\n");
  for (const auto& node : nodes)
    REQUIRE(run_grapevine("ctl " + node->address() + " inject " + plan).status == 0);
  for (const auto& node : nodes) {
    node->wait_for(stands);
    const std::string ctl = "ctl " + node->address();
    CHECK_THAT(run_grapevine(ctl + " status").out, Catch::Contains("ALARM: at "));
    CHECK_THAT(run_grapevine(ctl + " events").out, Catch::Contains("edge 1-2: no exchange for "));
    CHECK(value_of(run_grapevine(ctl + " metrics").out,
                   "grapevine_alarms{kind=\"silent_edge\"}") >= 1);
  }
  REQUIRE(run_grapevine("ctl " + nodes[0]->address() + " reconfigure star").status == 0);
  for (const auto& node : nodes) {
    node->wait_for([&](const Json& s) { return !stands(s); });
    CHECK_THAT(run_grapevine("ctl " + node->address() + " events").out,
               Catch::Contains("edge 1-2: it has left the graph"));
  }
}

TEST_CASE("metrics are served at an address of this machine, on a port that is free") {
  const std::string node = "node --objective quadratic --threads 1 --quiet --metrics ";
  check_refused(node + ":9400", 2, {"metrics is \":9400\"", "an address of this machine"});
  check_refused(node + "many", 2, {"metrics is \"many\"", "accepted: a port"});
  check_refused(node + "192.0.2.1:9400", 1, {"192.0.2.1", "not an address of this machine"});
  httplib::Server taken;
  const int port = taken.bind_to_any_port("127.0.0.1");
  REQUIRE(port > 0);
  check_refused(node + std::to_string(port), 1, {std::to_string(port), "nothing can listen"});
}
