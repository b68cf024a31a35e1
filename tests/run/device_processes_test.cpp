// Real processes on one host, each with a device of its own whose memory the others can open: they
// read each other's snapshots where they lie, and one of them is killed.
#include <unistd.h>

#include "tests/catch.hpp"
#include "tests/deadline.hpp"
#include "tests/device/threaded.hpp"
#include "tests/run/node_process.hpp"

using namespace grapevine;
using namespace grapevine::testing;

namespace {

constexpr size_t kPieces = 1 << 19;
constexpr int kNodes = 3;
constexpr char kNode[] = "a node that a test starts";

Settings settings() {
  Settings s;
  s.method = "a2cid2";
  s.topology = "complete";
  s.threads = 2;
  s.gradients = 0;
  s.until_s = 50;
  s.sample_s = 0;
  s.objective.objective = "quadratic";
  s.objective.dim = 20000;
  s.lr = {0.02, Schedule::constant, 0};
  return s;
}

/// Until it holds, or within a minute not.
template <class Holds>
void await(const char* what, Holds holds) {
  const auto until = std::chrono::steady_clock::now() + test::kDeadline;
  while (!holds())
    if (std::chrono::steady_clock::now() > until) test::came_too_late(what);
}

bool in_place(NodeProcess& node, int other, uint64_t more_than) {
  const auto edges = node.told().edges;
  const auto found = edges.find(other);
  return found != edges.end() && found->second.in_place && found->second.lent > more_than &&
         found->second.borrowed > more_than;
}

}  // namespace

TEST_CASE("a node that a test starts", "[.]") {
  NodeProcess::serve(settings(), [] { return std::make_unique<Threaded>(kPieces); });
}

TEST_CASE("processes read each other's snapshots in place, and go on when one of them is killed") {
  const std::string run = "device-" + std::to_string(::getpid());
  NodeProcess first(run, 0, kNodes, DeviceLink::automatic, "-", kNode);
  NodeProcess second(run, 1, kNodes, DeviceLink::vmm, first.address(), kNode);
  NodeProcess third(run, 2, kNodes, DeviceLink::automatic, first.address(), kNode);
  await("exchange in place of all three", [&] {
    return in_place(first, 1, 20) && in_place(second, 2, 20) && in_place(third, 0, 20);
  });
  second.kill();
  const uint64_t before = first.told().edges[2].borrowed;
  await("exchange in place of the two that are left",
        [&] { return in_place(first, 2, before + 100) && in_place(third, 0, before + 100); });
  await("end of the line to the dead one", [&] { return first.told().edges.count(1) == 0; });
  first.asked(ConsoleVerb::stop);
  const std::string mean = first.word_after("mean");
  CHECK_FALSE(mean.empty());
  CHECK(third.word_after("mean") == mean);
}

TEST_CASE("a process that lends nothing in place exchanges with others that would") {
  const std::string run = "device-host-" + std::to_string(::getpid());
  NodeProcess first(run, 0, kNodes, DeviceLink::automatic, "-", kNode);
  NodeProcess second(run, 1, kNodes, DeviceLink::host, first.address(), kNode);
  NodeProcess third(run, 2, kNodes, DeviceLink::automatic, first.address(), kNode);
  await("exchange in place", [&] { return in_place(first, 2, 100); });
  auto told = first.told();
  CHECK((told.edges[1].lent == 0 && told.edges[1].borrowed == 0 && !told.edges[1].in_place));
  await("an exchange of the second", [&] { return second.told().exchanges > 0; });
  first.asked(ConsoleVerb::stop);
  const std::string mean = first.word_after("mean");
  CHECK_FALSE(mean.empty());
  CHECK(second.word_after("mean") == mean);
  CHECK(third.word_after("mean") == mean);
}
