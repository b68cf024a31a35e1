// Metrics of a node that runs: over HTTP, by the console, and as Prometheus' own reader has them.
#include <fmt/core.h>
#include <httplib.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <set>
#include <sstream>
#include <thread>
#include <vector>

#include "app/metrics/readiness.hpp"
#include "tests/app/tools.hpp"
#include "tests/catch.hpp"
#include "tests/eventually.hpp"
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

/// Over those whose name and labels begin so.
double sum_of_series(const std::string& page, const std::string& begin) {
  double sum = 0;
  for (size_t at = 0; (at = page.find("\n" + begin, at)) != page.npos; ++at)
    sum += std::stod(page.substr(page.find("} ", at) + 2));
  return sum;
}

/// Of the node that is asked.
std::string page_of(Process& node) {
  return run_grapevine("ctl " + node.address() + " metrics").out;
}

struct Answer {
  int status = 0;
  std::string text;
};

/// Of the server of a node's metrics; status 0 where nothing answers.
Answer probe(Process& node, const std::string& path) {
  node.address();  // it has said by then where its metrics are
  httplib::Client client("http://" + url_of(node));
  Answer answer;
  if (const auto got = client.Get(path)) {
    answer.status = got->status;
    answer.text = got->body;
  }
  return answer;
}

/// Asks until it is ready, or until it is not for this reason.
void check_ready(Process& node, const std::string& reason = "") {
  Answer last;
  const bool is_so = eventually(
      [&] {
        ChildProcess::wait_any({&node.child()}, 20);
        last = probe(node, "/readyz");
        return reason.empty() ? last.status == 200
                              : last.status == 503 && last.text.find(reason) == 0;
      },
      kBusyMachine);
  INFO(reason << "; last: " << last.status << " " << last.text << node.err());
  CHECK(is_so);
  CHECK(probe(node, "/healthz").status == 200);
}

Json ready_status() {
  return {{"node", "a"},
          {"graph_ranks", 4},
          {"ranks_here", {0, 1}},
          {"members",
           {{{"node", "a"}, {"state", "alive"}},
            {{"node", "b"}, {"state", "suspect"}},
            {{"node", "c"}, {"state", "left"}}}},
          {"edges",
           {{{"ranks", {0, 1}}, {"in_graph", true}, {"exchanges", 5}},
            {{"ranks", {1, 2}}, {"in_graph", true}, {"exchanges", 1}},
            {{"ranks", {0, 3}}, {"in_graph", true}, {"exchanges", 0}}}},
          {"alarms", Json::array()}};
}

// Each family's type fits its series: counters end in _total in the text format.
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

TEST_CASE("scrapes at once are all answered") {
  auto nodes = start_nodes(1, 2, {"--until=600", "--gradients=0", "--metrics=0"});
  nodes[0]->address();  // it has said by then where its metrics are
  const std::string url = "http://" + url_of(*nodes[0]);
  std::atomic<int> answered = 0;
  std::vector<std::thread> scrapes;
  for (int k = 0; k < 8; ++k)
    scrapes.emplace_back([&] {
      httplib::Client client(url);
      for (int attempt = 0; attempt < 50; ++attempt) {  // a busy machine may be late
        const auto got = client.Get("/metrics");
        if (got && got->status == 200) return void(++answered);
      }
    });
  for (std::thread& scrape : scrapes)
    scrape.join();
  CHECK(answered == 8);
}

TEST_CASE("a node serves its metrics, to whom asks for either format") {
  auto nodes = start_nodes(2, 2,
                           {"--until=600", "--gradients=0", "--metrics=0", "--sample-seconds=0.05",
                            "--test-every=0.05s"});
  nodes[0]->wait_for([](const Json& s) {
    return s["graph_ranks"] == 4 && s["loss"].is_number() && s["exchanges"].size() == 2 &&
           s["exchanges"][0] > 0 && s.contains("test_loss");
  });
  nodes[0]->wait_for([&](const Json&) {  // of an offer of its own
    return value_of(page_of(*nodes[0]), "grapevine_offer_round_trip_seconds_count") > 0;
  });
  httplib::Client client("http://" + url_of(*nodes[0]));
  auto plain = client.Get("/metrics");
  nodes[0]->wait_for([&](const Json&) {  // who gets no core is suspected for a while
    plain = client.Get("/metrics");
    return plain &&
           plain->body.find("\ngrapevine_members{state=\"alive\"} 2\n") != std::string::npos;
  });
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
  CHECK(value_of(plain->body, "grapevine_learning_rate") > 0);
  CHECK(value_of(plain->body, "grapevine_members{state=\"alive\"}") == 2);
  CHECK(value_of(plain->body, "grapevine_alarms{kind=\"silent_edge\"}") == 0);
  CHECK_THAT(plain->body, !Catch::Contains("conserved_sum"));  // which no node can see
  const double round_trips = value_of(plain->body, "grapevine_offer_round_trip_seconds_count");
  CHECK(round_trips > 0);
  CHECK(value_of(plain->body, "grapevine_offer_round_trip_seconds_bucket{le=\"+Inf\"}") ==
        round_trips);
  CHECK(value_of(plain->body, "grapevine_edge_exchanges_total{rank=\"0\",peer=\"1\"}") >= 0);
  CHECK(sum_of_series(plain->body, "grapevine_edge_offer_round_trip_seconds_count{") ==
        round_trips);
  const auto open = client.Get("/metrics", {{"Accept", "application/openmetrics-text"}});
  REQUIRE(open);
  CHECK_THAT(open->get_header_value("Content-Type"),
             Catch::StartsWith("application/openmetrics-text; version=1.0.0"));
  CHECK_THAT(open->body, Catch::EndsWith("\n# EOF\n"));
  CHECK_THAT(open->body, Catch::Contains("# TYPE grapevine_gradients counter\n"));
  nodes[1]->wait_for([](const Json& s) { return s["graph_ranks"] == 4; });  // the first knew before
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
  for (const auto& node : nodes)  // the alarms tell how long ago the last exchange was
    node->wait_for(
        [](const Json& s) { return s["graph_ranks"] == 4 && exchanges_of(s, 1, 2) > 10; });
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
    CHECK(value_of(run_grapevine(ctl + " metrics").out, "grapevine_alarms{kind=\"silent_edge\"}") >=
          1);
  }
  REQUIRE(run_grapevine("ctl " + nodes[0]->address() + " reconfigure star").status == 0);
  for (const auto& node : nodes) {
    node->wait_for([&](const Json& s) { return !stands(s); });
    CHECK_THAT(run_grapevine("ctl " + node->address() + " events").out,
               Catch::Contains("edge 1-2: it has left the graph"));
  }
}

TEST_CASE("bytes over links and lost frames never fall, though a neighbour is gone") {
  auto nodes = start_nodes(2, 1, {"--until=600", "--gradients=0"});
  nodes[0]->wait_for(
      [](const Json& s) { return s["graph_ranks"] == 2 && sum_of(s["exchanges"]) > 20; });
  const std::string sent = "grapevine_link_bytes_total{direction=\"sent\"}";
  const std::string lost = "grapevine_frames_lost_total{reason=\"link_ended\"}";
  const std::string before = page_of(*nodes[0]);
  REQUIRE(value_of(before, sent) > 0);
  nodes[1]->signal(SIGKILL);
  nodes[0]->wait_for([](const Json& s) { return s["links"].empty(); });
  const std::string after = page_of(*nodes[0]);
  CHECK(value_of(after, "grapevine_links") == 0);
  CHECK(value_of(after, sent) >= value_of(before, sent));
  CHECK(value_of(after, lost) >= value_of(before, lost));
}

TEST_CASE(
    "however many edges a graph has, round trips are told of 64, and of the rest in one sum") {
  auto nodes = start_nodes(1, 16, {"--until=600", "--gradients=0", "--topology=complete"});
  const auto others = [](const Json& s) {
    const Json& edges = s["edge_round_trips"];
    return edges.size() == 65 && edges[64]["ranks"].is_null();
  };
  const Json status = nodes[0]->wait_for(others);
  CHECK(status["edges"].size() > 64);
  const std::string page = page_of(*nodes[0]);
  size_t series = 0;
  const std::string name = "\ngrapevine_edge_offer_round_trip_seconds_count{";
  for (size_t at = 0; (at = page.find(name, at)) != page.npos; ++at)
    ++series;
  CHECK(series == 65);
  CHECK(value_of(page,
                 "grapevine_edge_offer_round_trip_seconds_count{rank=\"other\",peer=\"other\"}") >
        0);
  check_page(page);
}

TEST_CASE("a checkpoint that cannot be written is an alarm of its node until one is") {
  const Scratch scratch;
  const std::string run = scratch.path("run");
  std::filesystem::create_directories(run);
  scratch.file("run/checkpoints", "no folder");
  auto nodes = start_nodes(
      1, 2, {"--until=600", "--gradients=0", "--checkpoint-every=3600s", "--out=" + run});
  const std::string ctl = "ctl " + nodes[0]->address();
  const auto stands = [](const Json& s) {
    return !s["alarms"].empty() && s["alarms"][0]["kind"] == "checkpoint";
  };
  nodes[0]->wait_for([](const Json& s) { return s["graph_ranks"] == 2; });
  const std::string count = "grapevine_alarms{kind=\"checkpoint\"}";
  for (int twice = 0; twice < 2; ++twice)
    CHECK_THAT(run_grapevine(ctl + " checkpoint").err, Catch::Contains("no checkpoint: "));
  nodes[0]->wait_for(stands);
  CHECK(value_of(page_of(*nodes[0]), count) == 1);
  CHECK_THAT(run_grapevine(ctl + " status").out, Catch::Contains(" s no checkpoint: cannot "));
  CHECK_THAT(run_grapevine(ctl + " events").out, Catch::Contains("ALARM: at "));
  std::filesystem::remove(run + "/checkpoints");
  REQUIRE(run_grapevine(ctl + " checkpoint").status == 0);
  nodes[0]->wait_for([&](const Json& s) { return !stands(s); });
  CHECK(value_of(page_of(*nodes[0]), count) == 0);
  CHECK_THAT(run_grapevine(ctl + " events").out, Catch::Contains("alarm over: at "));
  nodes[0]->signal(SIGINT);
  CHECK(nodes[0]->end() == 0);
  const std::string log = nodes[0]->err();  // though it is quiet
  CHECK(log.find("ALARM: at ") == log.rfind("ALARM: at "));
  CHECK_THAT(log, Catch::Contains(" ALARM: at ") && Catch::Contains(" alarm over: at "));
}

TEST_CASE("a launch tells each alarm of its nodes once, by their names, and that it is over") {
  const Scratch scratch;
  const std::string plan =
      scratch.file("plan.toml", "[[fault]]\nkind = \"cut\"\nlinks = [[1, 2]]\nat = 1\n");
  const std::string folder = "XDG_RUNTIME_DIR=" + scratch.path();  // where nodes have their names
  Process all({"launch", "--nodes=2", "--node-name=mine", "--ranks=2", "--objective=quadratic",
               "--gradients=0", "--until=600", "--alarm-seconds=0.3", "--quiet", "--json",
               "--plan=" + plan},
              {folder});
  const auto is_told = [&](const std::string& begin) {
    const bool told = eventually(
        [&] {
          ChildProcess::wait_any({&all.child()}, 100);
          return all.err().find(begin) != std::string::npos;
        },
        kBusyMachine);
    INFO(begin << "\n" << all.err());
    CHECK(told);
  };
  for (const std::string node : {"mine.0", "mine.1"})
    is_told(" ALARM: " + node + ": at ");
  REQUIRE(run_grapevine("ctl mine.0 reconfigure star", "export " + folder + ";").status == 0);
  for (const std::string node : {"mine.0", "mine.1"})
    is_told(" alarm over: " + node + ": at ");
  INFO(all.err());
  CHECK_THAT(all.err(), !Catch::Contains("listens on"));
  std::istringstream lines(all.err());
  std::set<std::string> told;
  for (std::string line; std::getline(lines, line);)
    if (const size_t what = line.find(" ALARM: "); what != line.npos)
      CHECK(told.insert(line.substr(what)).second);
}

TEST_CASE("a probe is red before the node is in the run and when it is alone, green in the run") {
  const std::vector<std::string> more = {"--until=600", "--gradients=0", "--metrics=0"};
  std::vector<std::string> waits = more;
  waits.push_back("--total-ranks=4");  // the last one counts
  auto nodes = start_nodes(1, 2, waits);
  check_ready(*nodes[0], "the node is not in the run yet");
  Process other({"node", "--threads=1", "--quiet", "--node-name=b", "--ranks=2", "--metrics=0",
                 "--join=" + nodes[0]->address()});
  check_ready(*nodes[0]);
  check_ready(other);
  other.signal(SIGKILL);
  check_ready(*nodes[0], "the node is alone: no other of the run answers");
}

TEST_CASE("a probe is answered while connections stand idle or in the middle of a request") {
  auto nodes = start_nodes(1, 2, {"--until=600", "--gradients=0", "--metrics=0"});
  check_ready(*nodes[0]);
  const std::string where = url_of(*nodes[0]);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = ::htonl(INADDR_LOOPBACK);
  at.sin_port = ::htons(static_cast<uint16_t>(std::stoi(where.substr(where.rfind(':') + 1))));
  std::vector<int> held;
  for (int k = 0; k < 100; ++k) {
    held.push_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    REQUIRE(::connect(held.back(), reinterpret_cast<const sockaddr*>(&at), sizeof at) == 0);
    const std::string_view begun = k % 2 == 0 ? "" : "GET /metrics HTTP/1.1\r\nHost: ";
    ::send(held.back(), begun.data(), begun.size(), MSG_NOSIGNAL);
  }
  CHECK(probe(*nodes[0], "/healthz").status == 200);
  CHECK(probe(*nodes[0], "/metrics").status == 200);
  for (const int socket : held)
    ::close(socket);
}

TEST_CASE("a node that is the whole run by itself is ready") {
  auto nodes = start_nodes(1, 2, {"--until=600", "--gradients=0", "--metrics=0"});
  check_ready(*nodes[0]);
  CHECK(probe(*nodes[0], "/readiness").status == 404);
}

TEST_CASE("why a node is not ready is told by its status") {
  const Json ready = ready_status();
  CHECK(why_not_ready(ready, true) == "");
  Json status = ready;
  status["graph_ranks"] = 0;
  CHECK(why_not_ready(status, false) == "the node is not in the run yet");
  status = ready;
  status["edges"][1]["exchanges"] = 0;
  CHECK(why_not_ready(status, false) == "no exchange with another node yet");
  status = ready;
  status["alarms"] = {{{"kind", "silent_edge"}, {"rank", 1}, {"peer", 2}, {"line", "edge 1-2"}}};
  CHECK(why_not_ready(status, false) == "");  // the other edge has no alarm
  status["edges"][2]["in_graph"] = false;
  CHECK(why_not_ready(status, false) == "no exchange with another node: edge 1-2");
}

TEST_CASE("whether a node that is alone is ready depends on whether it knows of others") {
  const std::string alone = "the node is alone: no other of the run answers";
  Json status = ready_status();
  status["members"][1]["state"] = "left";
  CHECK(why_not_ready(status, false) == "");
  CHECK(why_not_ready(status, true) == alone);
  status["members"][1]["state"] = "dead";
  CHECK(why_not_ready(status, false) == alone);
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
