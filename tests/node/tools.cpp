#include "tests/node/tools.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>

#include "app/system/ask_node.hpp"
#include "models/files/tensor_file.hpp"
#include "tests/catch.hpp"

namespace grapevine::test {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kPatience = std::chrono::seconds(60);
constexpr char kListening[] = "listening on ";

}  // namespace

Process::Process(std::vector<std::string> arguments, std::vector<std::string> variables,
                 const std::string& program) {
  variables.insert(variables.begin(), "/usr/bin/env");
  variables.push_back(GRAPEVINE_BINARY_DIR "/" + program);
  const bool runs = !arguments.empty() && (arguments[0] == "node" || arguments[0] == "launch");
  const bool kept = std::ranges::any_of(
      arguments, [](const std::string& word) { return word.starts_with("--out"); });
  if (runs && !kept) arguments.push_back("--no-save");
  variables.insert(variables.end(), arguments.begin(), arguments.end());
  auto child = ChildProcess::start(variables);
  REQUIRE(child);
  child_ = *std::move(child);
}

std::string Process::address_said() const {
  const size_t begin = err().find(kListening), end = err().find('\n', begin);
  if (begin == std::string::npos || end == std::string::npos) return {};
  const size_t word = begin + sizeof kListening - 1;
  return err().substr(word, end - word);
}

std::string Process::address() {
  const auto deadline = Clock::now() + kPatience;
  for (;;) {
    if (std::string said = address_said(); !said.empty()) return said;
    INFO(err());
    REQUIRE_FALSE(child_->ended());
    REQUIRE(Clock::now() < deadline);
    ChildProcess::wait_any({child_.get()}, 100);
  }
}

Json Process::wait_for(const std::function<bool(const Json&)>& holds) {
  return wait_for_status(
      address(), [&](const Json& status) { return holds(status); },
      [this] {
        INFO(err());
        REQUIRE_FALSE(ended());
        ChildProcess::wait_any({child_.get()}, 20);
      });
}

bool Process::ended() {
  if (!child_->ended()) ChildProcess::wait_any({child_.get()}, 0);
  return child_->ended();
}

int Process::end() {
  const auto deadline = Clock::now() + kPatience;
  while (!child_->ended()) {
    if (Clock::now() >= deadline)
      FAIL("a process does not end. It has said:\n"
           << err() << "\nIts members, links and edges, by its console: "
           << (address_said().empty() ? Json() : status_of(address_said())).dump());
    ChildProcess::wait_any({child_.get()}, 100);
  }
  return child_->status();
}

Json Process::result() {
  INFO(err());
  const Json object = Json::parse(child_->out(), nullptr, false);
  REQUIRE(object.is_object());
  return object;
}

Json status_of(const std::string& address, const std::string& key) {
  const auto answer = ask_node(address, key, {ConsoleVerb::status, {}});
  return answer ? Json::parse(*answer, nullptr, false) : Json();
}

Json wait_for_status(const std::string& address, const std::function<bool(const Json&)>& holds,
                     const std::function<void()>& otherwise) {
  const auto deadline = Clock::now() + kPatience;
  for (;;) {
    const Json status = status_of(address);
    if (status.is_object() && holds(status)) return status;
    otherwise();
    INFO(address << ": " << status.dump());
    REQUIRE(Clock::now() < deadline);
  }
}

Json status_when_there(const std::string& address) {
  return wait_for_status(address, [](const Json&) { return true; });
}

std::vector<double> numbers_of(const std::string& path) {
  const auto tensors = read_tensors(path);
  INFO(path);
  REQUIRE(tensors);
  REQUIRE(tensors->size() == 1);
  const StoredTensor& t = tensors->front();
  REQUIRE(t.type == TensorType::f64);
  std::vector<double> numbers(t.bytes.size() / sizeof(double));
  std::memcpy(numbers.data(), t.bytes.data(), t.bytes.size());
  return numbers;
}

double farthest(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return std::numeric_limits<double>::infinity();
  double most = 0;
  for (size_t k = 0; k < a.size(); ++k)
    most = std::max(most, std::abs(a[k] - b[k]));
  return most;
}

std::string state_of(const Json& status, const std::string& node) {
  for (const Json& m : status["members"])
    if (m["node"] == node) return m["state"].get<std::string>();
  return "";
}

bool all_alive(const Json& status) {
  return std::ranges::all_of(status["members"],
                             [](const Json& m) { return m["state"] == "alive"; });
}

uint64_t exchanges_of(const Json& status, int rank, int peer) {
  for (const Json& e : status["edges"])
    if (e["ranks"] == Json({rank, peer})) return e["exchanges"];
  return 0;
}

uint64_t sum_of(const Json& numbers) {
  uint64_t sum = 0;
  for (const Json& n : numbers)
    sum += n.get<uint64_t>();
  return sum;
}

std::vector<std::unique_ptr<Process>> start_nodes(int nodes, int ranks,
                                                  const std::vector<std::string>& more) {
  std::vector<std::unique_ptr<Process>> processes;
  for (int k = 0; k < nodes; ++k) {
    const std::string name(1, static_cast<char>('a' + k));
    std::vector<std::string> words = {"node",
                                      "--threads=1",
                                      "--json",
                                      "--quiet",
                                      "--patience=60",
                                      "--node-name=" + name,
                                      "--ranks=" + std::to_string(ranks),
                                      "--first-rank=" + std::to_string(k * ranks),
                                      "--total-ranks=" + std::to_string(nodes * ranks)};
    if (k > 0) words.push_back("--join=" + processes.front()->address());
    for (std::string word : more) {
      if (const size_t at = word.find('@'); at != word.npos) word.replace(at, 1, name);
      words.push_back(std::move(word));
    }
    const auto names_one = [](const std::string& w) { return w.starts_with("--objective="); };
    if (std::none_of(more.begin(), more.end(), names_one)) words.push_back("--objective=quadratic");
    processes.push_back(std::make_unique<Process>(words));
  }
  return processes;
}

}  // namespace grapevine::test
