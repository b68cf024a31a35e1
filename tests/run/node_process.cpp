#include "tests/run/node_process.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <sstream>

#include "actors/cluster/node_status.hpp"
#include "actors/run/state_sizes.hpp"
#include "actors/transport/console.hpp"
#include "kernels/memory/hash.hpp"
#include "tests/deadline.hpp"

namespace grapevine::testing {

namespace {

constexpr char kNode[] = "GRAPEVINE_TEST_NODE";  // name, number, nodes, link, address to join or -

/// "UPTIME EXCHANGES NODE=lent,borrowed,in_place ..." for consoles.
std::string told_of(const NodeStatus& status) {
  std::ostringstream out;
  uint64_t exchanges = 0;
  for (const CommunicatorReport& c : status.ranks.communicators)
    exchanges += c.counts.applied;
  out << status.uptime_s << " " << exchanges;
  for (const DeviceEdge& e : status.device_edges)
    out << " " << e.node << "=" << e.lent << "," << e.borrowed << "," << e.sends_in_place;
  return out.str();
}

}  // namespace

bool NodeProcess::serve(Settings s, const std::function<std::unique_ptr<Device>()>& device) {
  const char* const told = std::getenv(kNode);
  if (told == nullptr) return false;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  std::istringstream words(told);
  NodeSettings own;
  int number = 0, nodes = 0, link = 0;
  std::string join;
  words >> own.name >> number >> nodes >> link >> join;
  own.run = own.name.substr(0, own.name.rfind('-'));
  own.first_rank = kRanks * number;
  own.total_ranks = kRanks * nodes;
  if (join != "-") own.join = {join};
  s.ranks = own.total_ranks;
  s.local_ranks = kRanks;
  s.device_link = static_cast<DeviceLink>(link);
  GV_CHECK(static_cast<bool>(check_of_node(s)));
  auto objective = *make_objective(s);
  const std::unique_ptr<Device> on = device();
  NodeHooks hooks;
  auto share = DeviceShare::make(*on, device_sizes(s, *objective));
  GV_CHECK(static_cast<bool>(share));
  hooks.run.device = *std::move(share);
  hooks.on_listening = [](const std::string& at) { std::cout << "at " << at << std::endl; };
  hooks.render = told_of;
  const auto result = run_node(s, own, objective, std::move(hooks));
  GV_CHECK(static_cast<bool>(result));
  const auto* bytes = static_cast<const std::byte*>(result->mean->vec().data);
  std::cout << "mean " << fnv1a(std::span(bytes, result->mean->vec().bytes())) << std::endl;
  return true;
}

NodeProcess::NodeProcess(const std::string& run, int number, int nodes, DeviceLink link,
                         const std::string& join, const char* arguments) {
  int ends[2];
  GV_CHECK(::pipe2(ends, O_CLOEXEC) == 0);
  std::ostringstream told;
  told << run << "-" << number << " " << number << " " << nodes << " " << static_cast<int>(link)
       << " " << join;
  const std::string text = told.str();
  pid_ = ::fork();
  if (pid_ == 0) {
    ::dup2(ends[1], STDOUT_FILENO);
    ::setenv(kNode, text.c_str(), 1);
    ::execl("/proc/self/exe", "node", arguments, nullptr);
    ::_exit(1);
  }
  ::close(ends[1]);
  out_ = ::fdopen(ends[0], "r");
  address_ = word_after("at");
}

NodeProcess::~NodeProcess() {
  kill();
  std::fclose(out_);
}

void NodeProcess::kill() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  pid_ = 0;
}

std::string NodeProcess::word_after(const std::string& first) {
  char line[512];
  while (std::fgets(line, sizeof line, out_) != nullptr) {
    std::istringstream words(line);
    std::string word, next;
    if (words >> word >> next && word == first) return next;
  }
  return {};
}

NodeProcess::Told NodeProcess::told() {
  Told told;
  std::istringstream words(asked(ConsoleVerb::status));
  words >> told.uptime_s >> told.exchanges;
  for (std::string word; words >> word;) {
    const size_t equals = word.find('=');
    Edge edge;
    int in_place = 0;
    GV_CHECK(std::sscanf(word.c_str() + equals, "=%lu,%lu,%d", &edge.lent, &edge.borrowed,
                         &in_place) == 3);
    edge.in_place = in_place != 0;
    told.edges[word[equals - 1] - '0'] = edge;
  }
  return told;
}

std::string NodeProcess::asked(ConsoleVerb verb) {
  std::string text;
  auto console = Console::open(address_, {}, 30);
  if (!console) test::came_too_late("console of a node");
  const Status told = (*console)->ask(
      {verb, {}, 0, 0},
      [&](const ConsoleReply& part) {
        text += part.text;
        return true;
      },
      30);
  if (!told) test::came_too_late("answer of a node");
  return text;
}

}  // namespace grapevine::testing
