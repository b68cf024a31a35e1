// Ranks that drift apart, or have a loss that is no number, in real processes.
#include <algorithm>
#include <chrono>
#include <optional>
#include <sstream>

#include "app/metrics/metrics_text.hpp"
#include "tests/app/tools.hpp"
#include "tests/catch.hpp"
#include "tests/eventually.hpp"
#include "tests/node/tools.hpp"

using namespace grapevine;
using namespace grapevine::test;

namespace {

/// Compressed gossip of a step size that its compressor does not bear: some thousand rounds of a
/// millisecond, in which the loss stays finite.
std::vector<std::string> drifting(const Scratch& scratch, std::vector<std::string> more) {
  const std::string plan = scratch.file("slow.toml", "[[fault]]\nkind = \"slow\"\nfactor = 4000\n");
  const std::vector<std::string> words = {"--method=choco",
                                          "--compress=random-k:0.05",
                                          "--dim=200",
                                          "--zeta2=1",
                                          "--lr=0.001",
                                          "--objective=quadratic",
                                          "--sample-seconds=0.02",
                                          "--gradients=0",
                                          "--until=600",
                                          "--threads=1",
                                          "--plan=" + plan,
                                          "--json",
                                          "--quiet"};
  more.insert(more.end(), words.begin(), words.end());
  return more;
}

int lines_with(const std::string& text, const std::string& what) {
  std::istringstream lines(text);
  int count = 0;
  for (std::string line; std::getline(lines, line);)
    count += line.find(what) != line.npos;
  return count;
}

double value_of(const std::string& page, const std::string& series) {
  const size_t at = page.find("\n" + series + " ");
  return at == page.npos ? -1 : std::stod(page.substr(at + series.size() + 2));
}

bool tells_event(const Json& status) {
  return status["events"].dump().find("ALARM: at ") != std::string::npos;
}

/// The node's last status with an alarm of this kind, with the alarm's event if that came: alarms
/// are read as the status is written, events a moment before.
std::optional<Json> status_with_alarm(Process& node, const std::string& kind) {
  const std::string address = node.address();
  std::optional<Json> seen;
  eventually(
      [&] {
        const Json status = status_of(address);
        if (status.is_object())
          for (const Json& alarm : status["alarms"])
            if (alarm["kind"] == kind) seen = status;
        return (seen && tells_event(*seen)) || node.ended();
      },
      kBusyMachine);
  return seen;
}

}  // namespace

TEST_CASE("a node whose ranks drift apart says so, in status and metrics too, and ends by it") {
  const Scratch scratch;
  std::optional<Json> seen;
  for (int life = 0; life < 5 && !(seen && tells_event(*seen));
       ++life) {  // between alarm and end there is not much time
    const std::string out = scratch.path("run" + std::to_string(life));
    Process node(drifting(scratch, {"node", "--ranks=8", "--node-name=a", "--out=" + out}));
    seen = status_with_alarm(node, "divergence");
    CHECK(node.end() == 1);
    INFO(node.err());
    const int of_ranks = lines_with(node.err(), "the others pull it");
    CHECK(lines_with(node.err(), " ALARM: at ") - of_ranks == 1);
    const std::string last = node.err().substr(node.err().rfind("\ngrapevine: ") + 1);
    CHECK_THAT(last, Catch::Contains("the ranks drift apart without end; gamma is 1 with "
                                     "compress random-k:0.05; a smaller --gamma"));
    CHECK(node.result()["diverged"] == true);
    const Json record = Json::parse(text_of(out + "/run.json"));
    CHECK(record["state"] == "failed");
    CHECK(record["failure"]["by"] == "divergence");
    CHECK(record["result"]["diverged"] == true);
  }
  REQUIRE(seen);
  const auto alarm = std::ranges::find_if((*seen)["alarms"],
                                          [](const Json& a) { return a["kind"] == "divergence"; });
  CHECK_THAT((*alarm)["line"].get<std::string>(), Catch::Contains("a smaller --gamma"));
  CHECK_THAT((*seen)["events"].dump(), Catch::Contains("ALARM: at "));
  const std::string page = metrics_text(*seen, MetricsFormat::prometheus);
  CHECK(value_of(page, "grapevine_alarms{kind=\"divergence\"}") == 1);
}

TEST_CASE("a launch whose nodes all diverge has the reason as its last word, and says it as JSON") {
  Process all({"launch", "--nodes=2", "--ranks=2", "--node-name=mine", "--objective=quadratic",
               "--lr=1e9", "--gradients=0", "--until=600", "--json", "--quiet"});
  CHECK(all.end() == 1);
  INFO(all.err());
  const std::string last = all.err().substr(all.err().rfind("grapevine: "));
  CHECK_THAT(last, Catch::StartsWith("grapevine: mine.") && Catch::Contains("loss is ") &&
                       Catch::Contains("a smaller --lr may help"));
  const Json told = all.result();
  CHECK(told["diverged"] == true);
  for (const Json& process : told["processes"]) {
    CHECK(process["diverged"] == true);
    CHECK(process["status"] == 1);
  }
}

TEST_CASE("a node with a loss that is no number prints what it has found, with what others have") {
  Process node({"node", "--objective=quadratic", "--ranks=2", "--lr=1e9", "--gradients=0",
                "--until=600", "--threads=1", "--json", "--quiet"});
  CHECK(node.end() == 1);
  INFO(node.err());
  CHECK(lines_with(node.err(), " ALARM: at ") == 1);
  CHECK_THAT(node.err(), Catch::Contains("has a loss of ") && Catch::Contains("a smaller --lr"));
  CHECK(node.result()["diverged"] == true);
}
