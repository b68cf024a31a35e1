// Hostile members, each the program with a patch (tests/hostile), among honest processes: what they
// may cost the others. A case counts only where the member was seen among the members, or its lie
// was refused.
#include <csignal>
#include <set>

#include "tests/app/tools.hpp"
#include "tests/catch.hpp"
#include "tests/node/tools.hpp"

using namespace grapevine;
using namespace grapevine::test;

namespace {

/// a and b, with a rank each, and a hostile c.
struct Three {
  std::vector<std::string> job;
  Process a, b, c;

  Three(const std::string& member, std::vector<std::string> variables,
        std::vector<std::string> more = {}, const std::vector<int>& ranks = {1, 1, 1})
      : job(std::move(more)),
        a(words("a", ranks, 0, "")),
        b(words("b", ranks, 1, a.address())),
        c(words("c", ranks, 2, a.address()), std::move(variables), "bin/hostile_" + member) {}

  std::vector<std::string> words(const std::string& name, const std::vector<int>& ranks, size_t k,
                                 const std::string& join) const {
    int first = 0, all = 0;
    for (size_t other = 0; other < ranks.size(); ++other) {
      first += other < k ? ranks[other] : 0;
      all += ranks[other];
    }
    std::vector<std::string> words = {"node",
                                      "--objective=quadratic",
                                      "--gradients=0",
                                      "--until=600",
                                      "--threads=1",
                                      "--node-name=" + name,
                                      "--ranks=" + std::to_string(ranks[k]),
                                      "--first-rank=" + std::to_string(first),
                                      "--total-ranks=" + std::to_string(all)};
    if (!join.empty()) words.push_back("--join=" + join);
    words.insert(words.end(), job.begin(), job.end());
    return words;
  }

  /// It was heard: as a member, or as somebody whose words are signed by nobody.
  static bool is_seen(const Json& status) {
    const Json& disbelieved = status["refusals"]["disbelieved"];
    return state_of(status, "c") == "alive" || disbelieved.contains("facts that nobody has signed");
  }

  static Json record_of(const Json& status, const std::string& node) {
    for (const Json& m : status["members"])
      if (m["node"] == node) return m;
    return {};
  }

  void end_well() {
    c.signal(SIGKILL);
    c.end();
    for (Process* honest : {&a, &b})
      honest->wait_for([](const Json& s) {
        const std::string state = state_of(s, "c");
        return state != "alive" && state != "suspect";
      });
    end_beside_c();
  }

  void end_beside_c() {
    REQUIRE(run_grapevine("ctl " + a.address() + " stop").status == 0);
    for (Process* honest : {&a, &b}) {
      const int status = honest->end();
      INFO(honest->err());
      CHECK(status == 0);
    }
  }
};

}  // namespace

TEST_CASE("what a member says in the names of others moves none of them, and they exchange on") {
  constexpr uint64_t kExchanges = 300;
  for (const std::string lie :
       {"address", "ranks", "finished", "gone", "incarnation", "left", "stops", "means"}) {
    for (const bool signs : {false, true}) {
      if (signs && lie != "ranks" && lie != "incarnation") continue;
      INFO("says of the others: " << lie << (signs ? ", signed with its own key" : ""));
      Three run("forger", {"LIE=" + lie, signs ? "GRAPEVINE_OWN_KEY=1" : "NOTHING=1"},
                {"--dim=64", "--topology=complete", "--rate=0.05", "--patience=3"});
      const Json begun = run.a.wait_for(
          [](const Json& s) { return Three::is_seen(s) && exchanges_of(s, 0, 1) > 0; });
      const Json later = run.a.wait_for([&](const Json& s) {
        return exchanges_of(s, 0, 1) >= exchanges_of(begun, 0, 1) + kExchanges;
      });
      const Json of_b = run.b.wait_for([](const Json& s) {
        return Three::is_seen(s) && state_of(s, "a") == "alive" && state_of(s, "b") == "alive";
      });
      for (const std::string node : {"a", "b"}) {
        for (const char* what : {"incarnation", "ranks"})
          CHECK(Three::record_of(later, node)[what] == Three::record_of(begun, node)[what]);
        CHECK(Three::record_of(of_b, node)["ranks"] == Three::record_of(begun, node)["ranks"]);
      }
      run.end_well();
    }
  }
}

TEST_CASE("that others are dead, as one alone says again and again, costs them few exchanges") {
  Three run("forger", {"LIE=dead"}, {"--dim=64", "--topology=complete", "--rate=0.05"});
  const Json begun =
      run.a.wait_for([](const Json& s) { return Three::is_seen(s) && exchanges_of(s, 0, 1) > 0; });
  const Json later = run.a.wait_for(
      [&](const Json& s) { return exchanges_of(s, 0, 1) >= exchanges_of(begun, 0, 1) + 300; });
  CHECK(state_of(later, "b") != "dead");
  run.end_well();
}

TEST_CASE("a member that has wanted a great many means, or wants them always, takes nobody's") {
  const Scratch scratch;
  for (const std::string variable : {"NOTHING=1", "LIE=always"}) {
    INFO(variable);
    Three run("means", {variable}, {"--dim=64", "--topology=complete"});
    for (Process* honest : {&run.a, &run.b})
      honest->wait_for(
          [](const Json& s) { return state_of(s, "c") == "alive" && s["graph_ranks"] == 3; });
    if (variable == "LIE=always")  // until it is not heard any more
      run.a.wait_for([](const Json& s) { return !s["alarms"].empty(); });
    for (Process* honest : {&run.a, &run.b}) {
      const std::string file = scratch.path("mean") + std::to_string(honest == &run.b) + variable;
      const Ran taken = run_grapevine("ctl " + honest->address() + " snapshot " + file);
      INFO(taken.err);
      CHECK(taken.status == 0);
    }
    run.end_well();
  }
}

TEST_CASE("rates that a member says of all edges leave the others' constants near what they were") {
  Three run("rates", {"LIE_N=32"},
            {"--zeta2=1", "--dim=16", "--topology=ring", "--rate=1", "--lr=0.01"}, {16, 15, 1});
  run.a.wait_for([](const Json& s) { return state_of(s, "c") == "alive"; });
  const Json later = run.a.wait_for(
      [&](const Json& s) { return s["graph_ranks"] == 32 && sum_of(s["gradients"]) > 40'000; });
  double rate = 0;  // of an edge, as measured here
  for (const Json& edge : later["edges"])
    rate += edge["exchanges_per_second"].get<double>() / static_cast<double>(later["edges"].size());
  const double of_a_ring = 26;  // of 32, with one exchange a second on each edge
  CHECK(later["chi1"].get<double>() > of_a_ring / rate / 8);
  CHECK(later["consensus_distance"].get<double>() < 100);
  run.end_well();
}

TEST_CASE("a member that gives no payload back takes no exchange from the others") {
  Three run("norelease", {"NOTHING=1"},
            {"--dim=100000", "--method=ad_psgd", "--topology=complete", "--rate=20"});
  const Json begun = run.a.wait_for([](const Json& s) {
    return Three::is_seen(s) && exchanges_of(s, 0, 1) > 0 && exchanges_of(s, 0, 2) > 0;
  });
  const Json later = run.a.wait_for(
      [&](const Json& s) { return exchanges_of(s, 0, 1) >= exchanges_of(begun, 0, 1) + 200; });
  CHECK(state_of(later, "b") == "alive");
  run.end_well();
}

TEST_CASE("a member that writes NaN into what it has sent moves nobody to it") {
  Three run("toctou", {"MS=20"}, {"--dim=200000", "--topology=complete", "--rate=2"});
  const Json begun = run.a.wait_for([](const Json& s) {
    return Three::is_seen(s) && exchanges_of(s, 0, 1) > 0 && exchanges_of(s, 0, 2) > 0;
  });
  run.a.wait_for(
      [&](const Json& s) { return exchanges_of(s, 0, 2) >= exchanges_of(begun, 0, 2) + 20; });
  const Json later = run.a.wait_for([](const Json& s) { return s["loss"].is_number(); });
  CHECK(later["consensus_distance_here"].is_number());
  run.end_well();
}

TEST_CASE("a sum of 1e30 that a member says of its ranks is in nobody's mean, and fails nobody") {
  const Scratch scratch;
  for (const std::string lie : {"1e30", "-1e12"}) {
    INFO(lie);
    Three run("meanliar", {"LIE_SUM=" + lie},
              {"--dim=64", "--topology=complete", "--rate=5", "--json"});
    for (Process* honest : {&run.a, &run.b})
      honest->wait_for([](const Json& s) {
        return Three::is_seen(s) && s["graph_ranks"] == 3 && sum_of(s["gradients"]) > 100;
      });
    for (Process* honest : {&run.a, &run.b}) {
      const std::string file = scratch.path(honest == &run.a ? "a" : "b");
      const Ran taken = run_grapevine("ctl " + honest->address() + " snapshot " + file);
      INFO(taken.err);
      REQUIRE(taken.status == 0);
      for (const double number : numbers_of(file))
        REQUIRE(std::abs(number) < 1e6);
    }
    run.end_beside_c();
    for (Process* honest : {&run.a, &run.b}) {
      CHECK(honest->result()["missing"].empty());
      CHECK(honest->result()["ranks"] == 2);
      CHECK_THAT(honest->err(), Catch::Contains("node c: it sent values far from those"));
    }
    run.c.signal(SIGKILL);
  }
}

TEST_CASE("a root of the tree that lies about the mean is missing by name in the others' mean") {
  const auto words = [](const std::string& name, int rank) {
    return std::vector<std::string>{"node",
                                    "--objective=quadratic",
                                    "--dim=64",
                                    "--topology=complete",
                                    "--gradients=0",
                                    "--until=600",
                                    "--threads=1",
                                    "--json",
                                    "--quiet",
                                    "--ranks=1",
                                    "--patience=3",
                                    "--node-name=" + name,
                                    "--first-rank=" + std::to_string(rank),
                                    "--total-ranks=3"};
  };
  Process liar(words("a", 0), {"LIE_SUM=1e30"}, "bin/hostile_meanliar");
  std::vector<std::unique_ptr<Process>> others;
  for (const std::string name : {"b", "c"}) {
    auto join = words(name, name == "b" ? 1 : 2);
    join.push_back("--join=" + liar.address());
    others.push_back(std::make_unique<Process>(join));
  }
  for (auto& other : others)
    other->wait_for(
        [](const Json& s) { return s["graph_ranks"] == 3 && sum_of(s["gradients"]) > 100; });
  REQUIRE(run_grapevine("ctl " + others.front()->address() + " stop").status == 0);
  for (auto& other : others) {
    CHECK(other->end() == 1);
    CHECK(other->result()["missing"] == Json{"a"});
    CHECK(other->result()["ranks"] == 2);
    CHECK_THAT(other->err(), Catch::Contains("have not confirmed the mean of this node: a,"));
  }
  liar.signal(SIGKILL);
}

TEST_CASE("a newcomer takes no state that a member of this run cannot have, and trains") {
  for (const std::string lie : {"nan", "huge", "gradients", "numbers"}) {
    INFO(lie);
    const std::vector<std::string> words = {"node",        "--objective=quadratic", "--dim=64",
                                            "--ranks=1",   "--gradients=0",         "--until=600",
                                            "--threads=1", "--patience=3"};
    const auto of = [&](const std::string& name, const std::string& join) {
      std::vector<std::string> own = words;
      own.push_back("--node-name=" + name);
      if (!join.empty()) own.push_back("--join=" + join);
      return own;
    };
    Process liar(of("c", ""), {"LIE=" + lie, "GRAD=9007199254740992"}, "bin/hostile_liar");
    liar.wait_for([](const Json& s) { return sum_of(s["gradients"]) > 0; });
    Process newcomer(of("a", liar.address()));
    newcomer.wait_for([](const Json& s) { return sum_of(s["gradients"]) > 1000; });
    const Json later = newcomer.wait_for([](const Json& s) { return s["loss"].is_number(); });
    CHECK(state_of(later, "c") == "alive");
    CHECK(later["loss"].get<double>() < 1e6);
    newcomer.signal(SIGTERM);
    const int status = newcomer.end();
    INFO(newcomer.err());
    CHECK(status == 0);
  }
}

TEST_CASE("a graph that is a device, as a member asks for it, is no graph, and all train on") {
  for (const std::string spec : {"/dev/zero", "edges:/dev/zero"}) {
    INFO(spec);
    Three run("grapher", {"EVILSPEC=" + spec}, {"--dim=64", "--topology=complete", "--rate=5"});
    const Json begun = run.a.wait_for(
        [](const Json& s) { return Three::is_seen(s) && exchanges_of(s, 0, 1) > 0; });
    run_grapevine("ctl " + run.c.address() + " reconfigure chain");  // it asks for what it will
    const Json later = run.a.wait_for(
        [&](const Json& s) { return exchanges_of(s, 0, 1) >= exchanges_of(begun, 0, 1) + 200; });
    CHECK(state_of(later, "b") == "alive");
    run.end_well();
  }
}
