// Figures of several processes, by name: bin/node_test "[measure]".
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>

#include "tests/catch.hpp"
#include "tests/node/tools.hpp"

using namespace grapevine;
using namespace grapevine::test;

namespace {

using Steady = std::chrono::steady_clock;

double seconds_since(Steady::time_point start) {
  return std::chrono::duration<double>(Steady::now() - start).count();
}

using Rates = std::vector<double>;

/// Gradients per second of each node over two seconds; 0 of the one that is gone.
Rates rates_of(const std::vector<std::string>& addresses, size_t gone) {
  Rates counts(addresses.size()), rates(addresses.size());
  std::vector<Steady::time_point> asked(addresses.size());
  const auto look = [&](auto&& found) {
    for (size_t k = 0; k < addresses.size(); ++k)
      if (k != gone) found(k, static_cast<double>(sum_of(status_of(addresses[k])["gradients"])));
  };
  look([&](size_t k, double count) { counts[k] = count, asked[k] = Steady::now(); });
  while (seconds_since(asked[gone == 0 ? 1 : 0]) < 2)
    look([&](size_t k, double count) { rates[k] = (count - counts[k]) / seconds_since(asked[k]); });
  return rates;
}

}  // namespace

TEST_CASE("each process in turn is killed: when the others know, and how fast they train",
          "[.][measure]") {
  std::vector<double> noticed_ms;
  for (size_t dead = 0; dead < 4; ++dead) {
    auto nodes = start_nodes(4, 4, {"--until=600", "--gradients=0", "--pacing=poisson"});
    for (auto& node : nodes)
      wait_for_status(node->address(), [](const Json& s) { return s["graph_ranks"] == 16; });
    std::vector<std::string> addresses;
    for (auto& node : nodes)
      addresses.push_back(node->address());
    const Rates before = rates_of(addresses, 4);
    const std::string name(1, static_cast<char>('a' + dead));
    const auto killed = Steady::now();
    nodes[dead]->signal(SIGKILL);
    std::vector<size_t> waiting;
    for (size_t k = 0; k < 4; ++k)
      if (k != dead) waiting.push_back(k);
    while (!waiting.empty() && seconds_since(killed) < 30) {
      std::erase_if(waiting, [&](size_t k) {
        if (state_of(status_of(nodes[k]->address()), name) != "dead") return false;
        noticed_ms.push_back(1e3 * seconds_since(killed));
        return true;
      });
    }
    CHECK(waiting.empty());
    const Rates rates = rates_of(addresses, dead);
    for (size_t k = 0; k < 4; ++k)
      if (k != dead) {
        const double after = rates[k];
        CHECK(before[k] > 0);
        CHECK(after > 0);
        std::printf("%s killed: %c at %.0f gradients/s before, %.0f after (%.2f)\n", name.c_str(),
                    static_cast<char>('a' + k), before[k], after, after / before[k]);
      }
  }
  REQUIRE(noticed_ms.size() == 12);
  std::sort(noticed_ms.begin(), noticed_ms.end());
  std::printf("dead after %.1f ms at once, %.1f ms median, %.1f ms at last\n", noticed_ms.front(),
              noticed_ms[noticed_ms.size() / 2], noticed_ms.back());
}
