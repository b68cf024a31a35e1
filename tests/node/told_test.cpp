// The lines about a run of several processes while it trains: its progress and the remaining time,
// and their wording.
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <limits>
#include <regex>
#include <sstream>

#include "app/system/words.hpp"
#include "tests/app/tools.hpp"
#include "tests/catch.hpp"
#include "tests/node/tools.hpp"

using namespace grapevine;
using namespace grapevine::test;

namespace {

/// A `grapevine ARGUMENTS` whose output is a terminal, where progress is told each second.
class OnTerminal {
 public:
  explicit OnTerminal(const std::string& arguments) {
    const winsize size{24, 200, 0, 0};
    child_ = forkpty(&terminal_, nullptr, nullptr, &size);
    if (child_ == 0) {
      const std::string command = "exec " GRAPEVINE_BINARY_DIR "/grapevine " + arguments;
      execl("/bin/sh", "sh", "-c", command.c_str(), static_cast<char*>(nullptr));
      _exit(127);
    }
    REQUIRE(child_ > 0);
  }
  ~OnTerminal() {
    if (child_ > 0) kill(child_, SIGKILL);
    close(terminal_);
  }

  /// Reads on; false once the program has closed the terminal.
  bool read() {
    char block[4096];
    const ssize_t n = ::read(terminal_, block, sizeof block);
    if (n > 0) said_.append(block, static_cast<size_t>(n));
    return n > 0;
  }
  const std::string& said() const { return said_; }
  void interrupt() { kill(child_, SIGINT); }
  int end() {
    int status = -1;
    waitpid(std::exchange(child_, -1), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
  }

 private:
  pid_t child_ = -1;
  int terminal_ = -1;
  std::string said_;
};

struct Line {  // of progress; negative: not told
  int percent = -1;
  uint64_t steps = 0, exchanges = 0;
  double left_s = -1;
};

uint64_t number_of(std::string digits) {
  std::erase(digits, ',');
  return std::stoull(digits);
}

std::vector<Line> lines_of(const std::string& said) {
  static const std::regex progress(
      "(?:(\\d+) %  )?([\\d,]+) steps, ([\\d,]+) exchanges[^\r\n]*?"
      "(?:, (?:(\\d+) h )?(?:(\\d+) min ?)?(?:([\\d.]+) (ms|s) )?left)?(?=[\r\n])");
  std::vector<Line> lines;
  for (std::sregex_iterator at(said.begin(), said.end(), progress), end; at != end; ++at) {
    Line& line = lines.emplace_back();
    if ((*at)[1].matched) line.percent = std::stoi((*at)[1]);
    line.steps = number_of((*at)[2]);
    line.exchanges = number_of((*at)[3]);
    const auto part = [&](size_t k) { return (*at)[k].matched ? std::stod((*at)[k]) : 0; };
    const double left_s = 3600 * part(4) + 60 * part(5) + part(6) * ((*at)[7] == "ms" ? 1e-3 : 1);
    if (left_s > 0) line.left_s = left_s;
  }
  return lines;
}

const std::string kTwoNodes =
    "launch --nodes 2 --ranks 2 --threads 1 --objective quadratic --no-save ";

std::vector<uint64_t> numbers_behind(const std::string& table, const std::string& words) {
  const size_t at = table.find("  " + words + "  ");
  INFO(table);
  REQUIRE(at != table.npos);
  std::istringstream rest(table.substr(at + words.size() + 4));
  std::string line;
  std::getline(rest, line);
  std::istringstream numbers(line);
  std::vector<uint64_t> found;
  for (uint64_t n = 0; numbers >> n;)
    found.push_back(n);
  return found;
}

}  // namespace

TEST_CASE("a launch never goes backwards, and the time that is left only shrinks") {
  const Scratch scratch;
  const std::string plan = scratch.file("plan.toml",
                                        "[[fault]]\nkind = \"kill\"\nranks = [2, 3]\nat = 3\n"
                                        "[[fault]]\nkind = \"restart\"\nranks = [2, 3]\nat = 4\n");
  constexpr double kUntil_s = 9;
  OnTerminal all(kTwoNodes + "--gradients 0 --until 9 --plan " + plan);
  while (all.read()) {
  }
  INFO(all.said());
  CHECK(all.end() == 0);
  CHECK_THAT(all.said(), Catch::Contains(".1 is started again"));
  const std::vector<Line> lines = lines_of(all.said());
  REQUIRE(lines.size() >= 3);
  Line before{.left_s = std::numeric_limits<double>::infinity()};
  for (const Line& line : lines) {
    CHECK(line.percent == -1);  // there is no number of steps to come to
    CHECK(line.steps >= before.steps);
    CHECK(line.exchanges >= before.exchanges);
    if (line.left_s < 0) continue;
    CHECK(line.left_s <= before.left_s);
    before = line;
  }
  CHECK(before.steps > 0);
  CHECK(before.left_s < kUntil_s);
}

TEST_CASE("the percents of a launch are of the steps that all of its ranks are to take") {
  constexpr uint64_t kSteps = 40'000'000;
  OnTerminal all(kTwoNodes + "--gradients " + std::to_string(kSteps));
  std::vector<Line> lines;
  const auto told = [&] { return !lines.empty() && lines.back().percent >= 1; };
  while (all.read() && !(told() && lines.back().left_s > 0))  // not yet known by the first
    lines = lines_of(all.said());
  all.interrupt();
  while (all.read()) {
  }
  INFO(all.said());
  CHECK(all.end() == 0);
  REQUIRE_FALSE(lines.empty());
  for (const Line& line : lines)
    CHECK(line.percent == static_cast<int>(100 * line.steps / kSteps));
  CHECK(lines.back().left_s > 0);
}

TEST_CASE("a node that begins with another's state says how far the run is") {
  constexpr int kGradients = 10000000;
  const std::vector<std::string> words = {"--gradients=" + std::to_string(kGradients)};
  auto nodes = start_nodes(2, 2, words);
  const std::string address = nodes[0]->address();
  nodes[1]->wait_for([](const Json& s) { return s["progress"] > 0.02; });
  nodes[1]->signal(SIGKILL);
  nodes[1]->end();
  const Json left = nodes[0]->wait_for([](const Json& s) { return state_of(s, "b") == "dead"; });
  const auto counts = left["gradients"].get<std::vector<double>>();  // it goes on with one of these
  const double reached = *std::ranges::min_element(counts) / kGradients;
  Process again({"node", "--objective=quadratic", "--threads=1", "--patience=60", "--ranks=2",
                 "--first-rank=2", "--total-ranks=4", "--node-name=b", "--join=" + address,
                 words[0]});
  const Json first = again.wait_for([](const Json& s) { return sum_of(s["gradients"]) > 0; });
  CHECK(first["progress"].get<double>() >= reached);
  const Json told = again.wait_for([&](const Json&) { return !lines_of(again.err()).empty(); });
  INFO(again.err());
  const int percent = lines_of(again.err()).front().percent;
  CHECK(percent >= static_cast<int>(100 * reached));
  CHECK(percent <= static_cast<int>(100 * told["progress"].get<double>()));
}

TEST_CASE("the status for people says what the one for programs says, in words") {
  auto nodes = start_nodes(2, 2, {"--gradients=400000000"});
  const auto whole = [](const Json& s) {
    return s["graph_ranks"] == 4 && s["loss"].is_number() && s["consensus_distance"].is_number() &&
           s["epoch"].get<uint64_t>() >> 32 > 0;
  };
  const Json before = nodes[0]->wait_for(whole);
  Ran ran;
  nodes[0]->wait_for([&](const Json&) {  // who gets no core is suspected for a while
    ran = run_grapevine("ctl " + nodes[0]->address() + " status");
    REQUIRE(ran.status == 0);
    return ran.out.find(" suspect ") == std::string::npos;
  });
  const Json after = nodes[0]->wait_for(whole);
  const std::string& table = ran.out;
  INFO(table);
  CHECK(numbers_behind(table, "ranks here") == std::vector<uint64_t>{0, 1});
  for (const char* name : {"gradients", "exchanges"}) {
    const auto shown = numbers_behind(table, name + std::string(" by rank"));
    REQUIRE(shown.size() == 2);
    for (size_t k = 0; k < 2; ++k) {
      CHECK(shown[k] >= before[name][k].get<uint64_t>());
      CHECK(shown[k] <= after[name][k].get<uint64_t>());
    }
  }
  std::smatch found;
  REQUIRE(std::regex_search(table, found,
                            std::regex("  progress +([0-9.]+) %, ([0-9.e+]+) gradients a second "
                                       "here, loss [0-9.e-]+\n")));
  CHECK(std::stod(found[1]) >= 100 * before["progress"].get<double>() - 0.01);
  CHECK(std::stod(found[1]) <= 100 * after["progress"].get<double>() + 0.01);
  CHECK(std::stod(found[2]) > 0);
  CHECK_THAT(table, Catch::Contains(", estimated from the edges below\n"));
  CHECK_THAT(table, Catch::Contains("b                    alive    incarnation 1"));

  if (before["epoch"] == after["epoch"]) {  // short: how many there were, and who asked for it
    CHECK_THAT(table, Catch::Contains("epoch " + as_epoch(before["epoch"]) + ": ring of 4 ranks"));
    CHECK(table.find(before["epoch"].dump()) == table.npos);
  }
  std::istringstream rows(table);
  for (std::string row; std::getline(rows, row);) {
    INFO(row);
    CHECK((row.find('_') == row.npos || row.find('/') != row.npos));  // no name of a program's
  }
}

TEST_CASE("every line that a launch says has its time, and none is of a program's making") {
  const Ran ran = run_grapevine(kTwoNodes + "--gradients 4000");
  REQUIRE(ran.status == 0);
  std::istringstream lines(ran.err);
  int seen = 0;
  for (std::string line; std::getline(lines, line); ++seen)
    CHECK_THAT(line, Catch::Matches("[0-2][0-9](:[0-5][0-9]){2} .+"));
  CHECK(seen >= 3);
}
