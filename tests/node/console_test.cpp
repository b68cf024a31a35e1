// The view of a console on nodes that train, and on a node that leaves.
#include <atomic>
#include <cmath>
#include <csignal>
#include <future>
#include <mutex>
#include <thread>

#include "actors/run/run_node.hpp"
#include "app/system/ask_node.hpp"
#include "models/files/model_file.hpp"
#include "tests/app/tools.hpp"
#include "tests/catch.hpp"
#include "tests/node/tools.hpp"
#include "tests/skipped.hpp"

using namespace grapevine;
using namespace grapevine::test;

namespace {

const std::vector<std::string> kEndless = {"--until=600", "--gradients=0"};

void wait_for_ranks(const std::vector<std::unique_ptr<Process>>& nodes, int ranks) {
  for (const auto& node : nodes)
    node->wait_for([&](const Json& s) { return s["graph_ranks"] == ranks; });
}

std::vector<double> snapshot_of(const std::string& address, int dim) {
  const Scratch scratch;
  const std::string file = scratch.path("m.safetensors");
  REQUIRE(run_grapevine("ctl " + address + " snapshot " + file).status == 0);
  const ParameterLayout layout = ParameterLayout::flat(static_cast<size_t>(dim), DType::f64);
  Buffer x(layout.size(), DType::f64);
  std::string bytes = text_of(file);
  REQUIRE(bytes.size() > layout.bytes());
  bytes.erase(0, bytes.size() - layout.bytes());
  std::vector<double> values(layout.size());
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

// The words before the script's name; "" where none works.
std::string python_with_pycapnp() {
  const std::string path = "PYTHONPATH=" GRAPEVINE_SOURCE_DIR "/.deps/modules ";
  for (const char* python : {"python3", "/usr/bin/python3"})
    if (run_command(path + python + " -c 'import capnp'").status == 0) return path + python;
  return "";
}

double distance(const std::vector<double>& a, const std::vector<double>& b) {
  double squares = 0;
  for (size_t k = 0; k < a.size(); ++k)
    squares += (a[k] - b[k]) * (a[k] - b[k]);
  return std::sqrt(squares);
}

/// A node of this process, which answers every console with one text.
class Answering {
 public:
  Answering() {
    NodeHooks hooks;
    hooks.on_listening = [this](const std::string& at) { address_.set_value(at); };
    hooks.render = [this](const NodeStatus&) {
      const std::lock_guard lock(mutex_);
      return text_;
    };
    hooks.run.interrupts = &interrupts_;
    thread_ = std::thread([hooks = std::move(hooks)] {
      Settings settings;
      settings.objective.objective = "quadratic";
      settings.ranks = 1;
      settings.gradients = 0;
      NodeSettings own;
      own.name = "answering";
      CHECK(run_node(settings, own, *make_objective(settings), hooks));
    });
  }
  ~Answering() {
    interrupts_ = 1;
    thread_.join();
  }

  std::string address() { return address_.get_future().get(); }
  void say(std::string text) {
    const std::lock_guard lock(mutex_);
    text_ = std::move(text);
  }

 private:
  std::promise<std::string> address_;
  std::mutex mutex_;
  std::string text_;
  std::atomic<int> interrupts_{0};
  std::thread thread_;
};

/// The paths of all values in an object; of an array only its first element.
void paths_in(const Json& value, const Json::json_pointer& at, std::vector<std::string>& paths) {
  if (!at.empty()) paths.push_back(at.to_string());
  if (value.is_object())
    for (const auto& [name, part] : value.items())
      paths_in(part, at / name, paths);
  else if (value.is_array() && !value.empty())
    paths_in(value[0], at / 0, paths);
}

Json departure_of(const Json& told, const std::string& node) {
  for (const Json& d : told["departures"])
    if (d["node"] == node) return d;
  return {};
}

}  // namespace

TEST_CASE("the status of a node that trains has all that a console is promised") {
  auto nodes = start_nodes(2, 2, kEndless);
  wait_for_ranks(nodes, 4);
  const Json s = nodes[0]->wait_for([](const Json& s) {
    for (const Json& e : s["edges"])
      if (e["in_graph"] == true &&
          (e["staleness_seconds"].is_null() || e["exchanges_per_second"] == 0))
        return false;
    return s["consensus_distance"].is_number();
  });
  for (const char* name : {"node",
                           "members",
                           "epoch",
                           "topology",
                           "chi1",
                           "chi2",
                           "eta",
                           "alpha_tilde",
                           "constants_age_seconds",
                           "gradients",
                           "exchanges",
                           "edges",
                           "uptime_seconds",
                           "consensus_distance",
                           "refusals",
                           "frames_lost",
                           "suspects",
                           "departures",
                           "links",
                           "events"})
    CHECK(s.contains(name));
  for (const Json& m : s["members"])
    for (const char* name : {"node", "state", "incarnation", "address", "ranks"})
      CHECK(m.contains(name));
  CHECK(s["consensus_distance"].get<double>() >= 0);
  const double uptime_s = s["uptime_seconds"].get<double>();
  int seen = 0;
  for (const Json& e : s["edges"]) {
    if (e["in_graph"] == false) continue;
    CHECK(e["staleness_seconds"].get<double>() >= 0);
    CHECK(e["staleness_seconds"].get<double>() < uptime_s);
    CHECK(e["exchanges_per_second"].get<double>() > 0);
    CHECK(e["bytes"].get<uint64_t>() > 0);
    ++seen;
  }
  CHECK(seen >= 2);
  uint64_t declined = 0;
  for (const auto& [reason, count] : s["refusals"]["declined_because"].items())
    declined += count.get<uint64_t>();
  CHECK(declined >= s["refusals"]["offers_declined"].get<uint64_t>());
  CHECK(s["frames_lost"]["by_plan"] == 0);
  const Ran table = run_grapevine("ctl " + nodes[0]->address() + " status");
  for (const char* words : {"last one", "distance", "offers declined", "frames lost", "alive"})
    CHECK_THAT(table.out, Catch::Contains(words));
}

TEST_CASE("who is turned away, and why, is in the status") {
  auto nodes = start_nodes(1, 1, kEndless);
  const std::string join = "node --objective quadratic --threads 1 --quiet --patience 120 --join " +
                           nodes[0]->address() + " --run-name other";
  CHECK(run_grapevine(join).status == 1);
  const Json s =
      nodes[0]->wait_for([](const Json& s) { return s["refusals"]["turned_away"].size() == 1; });
  for (const auto& [reason, count] : s["refusals"]["turned_away"].items()) {
    CHECK_THAT(reason, Catch::Contains("another run"));
    CHECK(count.get<uint64_t>() >= 1);
  }
}

TEST_CASE("exchanges that time out are told to the membership, which probes at once") {
  auto nodes = start_nodes(2, 1, kEndless);
  wait_for_ranks(nodes, 2);
  nodes[1]->signal(SIGSTOP);
  nodes[0]->wait_for([](const Json& s) { return s["suspects"].get<uint64_t>() > 0; });
  nodes[1]->signal(SIGCONT);
}

TEST_CASE("a console follows the events until the node ends, and asks for the last of them") {
  auto nodes = start_nodes(2, 2, kEndless);
  wait_for_ranks(nodes, 4);
  const std::string address = nodes[0]->address();
  Process follower({"ctl", address, "events", "follow"});
  REQUIRE(run_grapevine("ctl " + address + " reconfigure complete").status == 0);
  REQUIRE(run_grapevine("ctl " + nodes[1]->address() + " drain").status == 0);
  CHECK(nodes[1]->end() == 0);
  nodes[0]->wait_for([](const Json& s) { return departure_of(s, "b").is_object(); });
  const Ran last = run_grapevine("ctl " + address + " events 1 --json");
  const Json events = Json::parse(last.out)["events"];
  REQUIRE(events.size() == 1);
  CHECK_THAT(events[0].get<std::string>(), Catch::Matches("[0-2][0-9](:[0-5][0-9]){2} .+"));
  check_refused("ctl " + address + " events some", 2, {"some", "accepted", "follow"});
  REQUIRE(run_grapevine("ctl " + address + " stop").status == 0);
  CHECK(nodes[0]->end() == 0);
  CHECK(follower.end() == 0);
  CHECK_THAT(follower.child().out(), Catch::Contains("2 of 4 ranks have left with b") &&
                                         Catch::Contains("the graph is complete of 2 ranks"));
}

TEST_CASE("a console that follows ends when its reader is gone, or its terminal is closed") {
  const auto nodes = start_nodes(1, 2, kEndless);
  const std::string address = nodes[0]->address();
  nodes[0]->wait_for([](const Json& s) { return !s["events"].empty(); });
  const Scratch scratch;
  const Ran read =
      run_command("sh -c 'timeout 60 " GRAPEVINE_BINARY_DIR "/grapevine ctl " + address +
                  " events follow; echo $? >" + scratch.path("status") + "' | head -n 1");
  CHECK(std::count(read.out.begin(), read.out.end(), '\n') == 1);
  CHECK(text_of(scratch.path("status")) == "0\n");  // `timeout` has not ended it
  const Ran full = run_command("timeout 60 " GRAPEVINE_BINARY_DIR "/grapevine ctl " + address +
                               " events follow >/dev/full");
  CHECK(full.status == 1);
  CHECK_THAT(full.err, Catch::Contains("standard output cannot be written"));
  Process follower({"ctl", address, "events", "follow"});
  while (follower.child().out().empty() && !follower.ended())
    ChildProcess::wait_any({&follower.child()}, 100);
  follower.signal(SIGHUP);
  CHECK(follower.end() == 128 + SIGHUP);
}

TEST_CASE("a console ends in order, whatever a node's answer lacks or has in another type") {
  const auto nodes = start_nodes(2, 1, kEndless);
  wait_for_ranks(nodes, 2);
  const Json whole = nodes[0]->wait_for([](const Json& s) { return exchanges_of(s, 0, 1) > 0; });
  std::vector<std::string> paths;
  paths_in(whole, Json::json_pointer(), paths);
  REQUIRE(paths.size() > 100);
  Answering node;
  const std::string address = node.address();
  const auto ends_in_order = [&](const Json& answer, const char* verb) {
    node.say(answer.dump());
    const Ran ran = run_grapevine("ctl " + address + " " + verb);
    INFO(ran.err);
    CHECK((ran.status == 0 || ran.status == 1));
    if (ran.status == 1) CHECK(ran.err.find("the answer is not what was asked") != ran.err.npos);
  };
  for (size_t k = 0; k < paths.size(); ++k) {
    const Json::json_pointer at(paths[k]);
    INFO(paths[k]);
    Json lacks = whole, other = whole;
    Json& around = lacks[at.parent_pointer()];
    if (around.is_array())
      around = Json::array();
    else
      around.erase(at.back());
    other[at] = other[at].is_array() ? Json::object() : Json::array();
    for (const Json* answer : {&lacks, &other})
      for (const char* verb : {"status", "metrics"})
        ends_in_order(*answer, verb);
  }
  for (const char* verb : {"topology", "topology --json", "events", "events --json"})
    ends_in_order({{"members", Json::array()}}, verb);
}

TEST_CASE("a Python script that speaks the schema is answered like any console") {
  const std::string script = GRAPEVINE_SOURCE_DIR "/examples/status.py";
  const std::string python = python_with_pycapnp();
  if (python.empty()) {
    return skipped("no Python here has pycapnp, ./test would install it into .deps/modules");
  }
  const Scratch scratch;
  const std::string socket = "unix:" + scratch.path("node.sock");
  auto nodes = start_nodes(1, 2, {"--until=600", "--gradients=0", "--listen=" + socket});
  nodes[0]->wait_for([](const Json& s) { return s["graph_ranks"] == 2; });
  const Ran ran = run_command(python + " " + script + " " + socket + " node topology gradients");
  INFO(ran.err);
  REQUIRE(ran.status == 0);
  CHECK_THAT(ran.out, Catch::StartsWith("node \"a\"\ntopology \"ring\"\ngradients ["));
  const Ran wrong = run_command(python + " " + script + " " + socket + " weather");
  CHECK(wrong.status == 1);
  CHECK_THAT(wrong.err, Catch::Contains("weather") && Catch::Contains("accepted"));
  const Ran dead = run_command(python + " " + script + " 127.0.0.1:1");
  CHECK(dead.status == 1);
  CHECK(std::count(dead.err.begin(), dead.err.end(), '\n') == 1);
}

TEST_CASE("a node that leaves says how far the others' mean is from that of all") {
  constexpr int kDim = 8;
  std::vector<std::unique_ptr<Process>> nodes;
  for (const char* name : {"a", "b", "c"}) {
    std::vector<std::string> words = {"node",
                                      "--objective=consensus",
                                      "--dim=8",
                                      "--threads=1",
                                      "--rate=1e-9",  // nobody ever meets
                                      "--until=600",
                                      "--json",
                                      "--quiet",
                                      "--patience=60",
                                      "--ranks=2",
                                      "--total-ranks=6",
                                      "--node-name=" + std::string(name)};
    if (!nodes.empty()) words.push_back("--join=" + nodes[0]->address());
    nodes.push_back(std::make_unique<Process>(words));
  }
  wait_for_ranks(nodes, 6);
  const std::vector<double> all = snapshot_of(nodes[0]->address(), kDim);
  REQUIRE(run_grapevine("ctl " + nodes[2]->address() + " drain").status == 0);
  REQUIRE(nodes[2]->end() == 0);
  const Json left = departure_of(nodes[2]->result(), "c");
  nodes[0]->wait_for([](const Json& s) { return s["graph_ranks"] == 4; });
  const double moved = distance(snapshot_of(nodes[0]->address(), kDim), all);
  CHECK(moved > 0.1);
  CHECK(std::abs(left["mean_changed_by"].get<double>() - moved) < 1e-12);
  CHECK(left["ranks"] == 2);
  CHECK(left["of"] == 6);
}

TEST_CASE("who survives a death says by how much the mean has moved, as the edges saw it") {
  auto nodes = start_nodes(3, 1, kEndless);
  wait_for_ranks(nodes, 3);
  nodes[0]->wait_for([](const Json& s) {
    for (const Json& e : s["edges"])
      if (e["ranks"] == Json({0, 2})) return e["distance"].is_number();
    return false;
  });
  nodes[2]->signal(SIGKILL);
  const Json s = nodes[0]->wait_for([](const Json& s) { return departure_of(s, "c").is_object(); });
  const Json gone = departure_of(s, "c");
  CHECK(gone["state"] == "dead");
  CHECK(gone["ranks"] == 1);
  CHECK(gone["of"] == 3);
  for (const Json& e : s["edges"])
    if (e["ranks"] == Json({0, 2}))
      CHECK(gone["mean_changed_by"].get<double>() ==
            Approx(e["distance"].get<double>() / 3).epsilon(1e-9));
}

TEST_CASE("a node that leaves says how much of push-sum's weight goes with it") {
  auto nodes = start_nodes(3, 2, {"--until=600", "--gradients=0", "--method=sgp"});
  wait_for_ranks(nodes, 6);
  for (const auto& node : nodes)
    node->wait_for([](const Json& s) { return sum_of(s["gradients"]) > 100; });
  REQUIRE(run_grapevine("ctl " + nodes[2]->address() + " drain").status == 0);
  REQUIRE(nodes[2]->end() == 0);
  for (const size_t k : {0, 1})
    nodes[k]->wait_for([](const Json& s) { return s["graph_ranks"] == 4; });
  REQUIRE(run_grapevine("ctl " + nodes[0]->address() + " stop").status == 0);
  double mass = 0;
  for (const size_t k : {0, 1}) {
    REQUIRE(nodes[k]->end() == 0);
    const Json told = nodes[k]->result();
    for (const Json& w : told["push_weights"])
      mass += w.get<double>();
    CHECK(told["push_weight_lost"] == 0);
  }
  CHECK(std::abs(mass - 4) < 1e-5);
  const Json gone = nodes[2]->result();
  CHECK(std::abs(gone["push_weight_lost"].get<double>() - 2) < 1e-5);
  CHECK(departure_of(gone, "c")["mean_changed_by"] > 0);
}
