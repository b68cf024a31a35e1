// Plan files: what they become, and how they are refused.
#include "app/options/plan_file.hpp"
#include "tests/app/tools.hpp"
#include "tests/catch.hpp"

using namespace grapevine;
using namespace grapevine::test;

namespace {

Plan plan_of(const std::string& text) {
  const Scratch scratch;
  auto plan = read_plan(scratch.file("plan.toml", text));
  if (!plan) FAIL(plan.error().message);
  return *plan;
}

std::string complaint(const std::string& text) {
  const Scratch scratch;
  const auto plan = read_plan(scratch.file("plan.toml", text));
  REQUIRE_FALSE(plan);
  const std::string& line = plan.error().message;
  return line.substr(line.find("plan.toml"));
}

}  // namespace

TEST_CASE("the example plan is one") {
  const auto plan = read_plan(GRAPEVINE_SOURCE_DIR "/examples/plan.toml");
  REQUIRE(plan);
  CHECK(plan->rank_faults.size() == 4);
  CHECK(plan->reconfigurations.size() == 1);
}

TEST_CASE("faults of ranks, and new graphs, are read with their times and factors") {
  const Plan plan = plan_of(R"(
[[fault]]
kind = "slow"
ranks = [3, 5]
at = 10
until = 20.5
factor = 3
[[fault]]
kind = "pause"
until = 2
[[fault]]
kind = "kill"
ranks = [1]
at = 1
[[fault]]
kind = "restart"
ranks = [1]
at = 2
[[fault]]
kind = "reconfigure"
at = 5
topology = "exponential"
)");
  REQUIRE(plan.rank_faults.size() == 4);
  REQUIRE(plan.reconfigurations.size() == 1);
  const RankFault& slow = plan.rank_faults[0];
  CHECK(slow.kind == RankFaultKind::slow);
  CHECK(slow.ranks == std::vector<int>{3, 5});
  CHECK(slow.at == 10);
  CHECK(slow.until == 20.5);
  CHECK(slow.factor == 3);
  CHECK(plan.rank_faults[1].kind == RankFaultKind::pause);
  CHECK(plan.rank_faults[1].ranks.empty());
  CHECK(plan.rank_faults[1].at == 0);
  CHECK(plan.rank_faults[2].kind == RankFaultKind::kill);
  CHECK(plan.rank_faults[2].until == kNever);
  CHECK(plan.rank_faults[3].kind == RankFaultKind::restart);
  CHECK(plan.reconfigurations[0].topology == "exponential");
  CHECK(plan.reconfigurations[0].at == 5);
}

TEST_CASE("faults of links are read with their links, frames and the kind's own keys") {
  const Plan plan = plan_of(R"(
[[fault]]
kind = "loss"
links = [[0, 1], [4, 3]]
probability = 0.25
frames = "bulk"
[[fault]]
kind = "delay"
ranks = [2]
seconds = 0.5
factor = 2
frames = "control"
[[fault]]
kind = "cut"
[[fault]]
kind = "one_way"
links = [[0, 1]]
[[fault]]
kind = "repeat"
probability = 1.0
frames = "all"
[[fault]]
kind = "corrupt"
links = [[0, 1]]
probability = 0.01
[[fault]]
kind = "bandwidth"
links = [[2, 3]]
bytes_per_second = 1e6
)");
  REQUIRE(plan.link_faults.size() == 7);
  const LinkFault& loss = plan.link_faults[0];
  CHECK(loss.kind == LinkFaultKind::loss);
  CHECK(loss.links == std::vector<std::pair<int, int>>{{0, 1}, {4, 3}});
  CHECK(loss.probability == 0.25);
  CHECK(loss.frames == FrameClass::bulk);
  const LinkFault& delay = plan.link_faults[1];
  CHECK(delay.kind == LinkFaultKind::delay);
  CHECK(delay.ranks == std::vector<int>{2});
  CHECK(delay.seconds == 0.5);
  CHECK(delay.factor == 2);
  CHECK(delay.frames == FrameClass::control);
  CHECK(plan.link_faults[2].kind == LinkFaultKind::cut);
  CHECK(plan.link_faults[3].kind == LinkFaultKind::one_way);
  CHECK(plan.link_faults[4].kind == LinkFaultKind::repeat);
  CHECK(plan.link_faults[5].kind == LinkFaultKind::corrupt);
  CHECK(plan.link_faults[5].probability == 0.01);
  CHECK(plan.link_faults[6].kind == LinkFaultKind::bandwidth);
  CHECK(plan.link_faults[6].bytes_per_second == 1e6);
}

TEST_CASE("a plan's mistake is named with its file, its line and what is accepted") {
  CHECK(complaint("[[fault]]\nkind = \"slwo\"\n") ==
        "plan.toml:2: kind is \"slwo\", accepted: slow, pause, kill, restart, reconfigure, loss, "
        "delay, cut, one_way, repeat, corrupt, bandwidth");
  CHECK(complaint("[[fault]]\nkind = \"slow\"\nfactr = 3\n") ==
        "plan.toml:3: unknown key factr of slow (did you mean factor?), accepted: kind, at, ranks, "
        "until, factor");
  CHECK(complaint("[[fault]]\nkind = \"kill\"\nlinks = [[0, 1]]\n") ==
        "plan.toml:3: unknown key links of kill, accepted: kind, at, ranks");
  CHECK(complaint("[[fault]]\nkind = \"slow\"\nfactor = \"3\"\n") ==
        "plan.toml:3: factor is \"3\", accepted: a number");
  CHECK(complaint("[[fault]]\nkind = \"kill\"\nranks = 3\n") ==
        "plan.toml:3: ranks is 3, accepted: a list of ranks, for instance [0, 3]");
  CHECK(complaint("[[fault]]\nkind = \"cut\"\nlinks = [[0, 1, 2]]\n") ==
        "plan.toml:3: links is [ [ 0, 1, 2 ] ], accepted: a list of pairs of ranks, for instance "
        "[[0, 1]]");
  CHECK(complaint("[[fault]]\nkind = \"cut\"\nframes = \"small\"\n") ==
        "plan.toml:3: frames is \"small\", accepted: \"control\", \"bulk\", \"all\"");
  CHECK_THAT(complaint("\n[[fault]]\nat = 3\n"),
             Catch::StartsWith("plan.toml:2: a fault without kind, accepted: slow"));
  CHECK(complaint("\n[[fault]]\nkind = \"slow\"\n") == "plan.toml:2: slow needs the key factor");
  CHECK(complaint("[[fault]]\nkind = \"bandwidth\"\n") ==
        "plan.toml:1: bandwidth needs the key bytes_per_second");
  CHECK(complaint("[[fault]]\nkind = \"corrupt\"\nbytes_per_second = 3\n") ==
        "plan.toml:3: unknown key bytes_per_second of corrupt, accepted: kind, at, ranks, links, "
        "until, frames, probability");
  CHECK(complaint("[[fault]]\nkind = \"reconfigure\"\nat = 1\n") ==
        "plan.toml:1: reconfigure needs the key topology");
  CHECK(complaint("ranks = 3\n") ==
        "plan.toml:1: unknown key ranks, accepted: a list of [[fault]] tables");
  CHECK(complaint("[fault]\nkind = \"cut\"\n").find("accepted: a list of [[fault]] tables") !=
        std::string::npos);
  CHECK(complaint("[[fault]]\nkind = \n").find("plan.toml:2: ") == 0);
}

TEST_CASE("an empty plan is a plan without faults") { CHECK(plan_of("").empty()); }

TEST_CASE("a plan that names a rank, a graph or a time that cannot be is refused before the run") {
  const Scratch scratch;
  const auto plan = [&](const char* text) {
    return "simulate --plan " + scratch.file("plan.toml", std::string("[[fault]]\n") + text);
  };
  check_refused(plan("kind = \"slow\"\nranks = [99]\nfactor = 3"), 2, {"99", "accepted: 0 to 15"});
  check_refused(plan("kind = \"cut\"\nlinks = [[0, 99]]"), 2, {"99", "accepted: 0 to 15"});
  check_refused(plan("kind = \"reconfigure\"\ntopology = \"moebius\""), 2, {"moebius"});
  check_refused(plan("kind = \"pause\"\nat = 5\nuntil = 4"), 2, {"at = 5", "until = 4"});
  check_refused("simulate --plan " + scratch.path("none.toml"), 2, {"none.toml", "cannot be read"});
}

TEST_CASE("link faults are for the virtual clock, and train says so") {
  const Scratch scratch;
  const std::string plan = scratch.file("p.toml", std::string("[[fault]]\nkind = \"cut\"\n"));
  check_refused("train --objective quadratic --plan " + plan, 2, {"link faults", "simulate"});
}

TEST_CASE("what of a plan can have no effect is said with its file and line, and the run goes on") {
  const Scratch scratch;
  const std::string plan =
      scratch.file("p.toml", std::string("[[fault]]\nkind = \"cut\"\nlinks = [[0, 3]]\n\n"
                                         "[[fault]]\nkind = \"pause\"\nranks = [1]\nat = 50\n"));
  const Ran ran = run_grapevine("simulate --quiet --ranks 8 --until 10 --plan " + plan);
  INFO(ran.err);
  CHECK(ran.status == 0);
  CHECK_THAT(ran.err, Catch::Contains("p.toml:1: without effect: ranks 0 and 3"));
  CHECK_THAT(ran.err, Catch::Contains("p.toml:5: without effect: it begins at 50 s"));
}
