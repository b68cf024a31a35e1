// Two processes on one GPU that exchange a model of 44.7 MB: in place, and through the host's
// memory; then the one that lends is killed, and the other goes on.
//
//   bin/vmm_bench [cuda|threads] [SECONDS]     cuda: GPU 0, status 77 without one; threads: the
//                                              tests' device, which shows that this program runs
//
// A line for each turn, and one at the end: "in place/host RATIO, kill -9 of the exporter
// survived".
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include "kernels/gpu/cuda_device.hpp"
#include "tests/deadline.hpp"
#include "tests/device/threaded.hpp"
#include "tests/run/node_process.hpp"

using namespace grapevine;
using namespace grapevine::testing;

namespace {

constexpr int kParameters = 11173962 / 2;  // in fp64: the 44.7 MB of ResNet-18 for CIFAR
constexpr int kTurns = 3;
constexpr size_t kPieces = 1 << 19;

Settings settings() {
  Settings s;
  s.method = "ad_psgd";
  s.topology = "chain";
  s.rate = 1000;  // one exchange after the other
  s.gradients = 0;
  s.until_s = 300;
  s.sample_s = 0;
  s.objective.objective = "consensus";
  s.objective.dim = kParameters;
  return s;
}

std::unique_ptr<Device> device_named(const std::string& name) {
  if (name == "threads") return std::make_unique<Threaded>(kPieces);
  auto device = open_cuda_device(0);
  if (!device) fmt::print(stderr, "{}\n", device.error().message);
  return device ? *std::move(device) : nullptr;
}

struct Pair {
  Pair(int turn, DeviceLink link, const char* device)
      : run(fmt::format("vmm-bench-{}-{}", ::getpid(), turn)),
        first(run, 0, 2, link, "-", device),
        second(run, 1, 2, link, first.address(), device) {}

  std::string run;
  NodeProcess first, second;
};

/// Of one exchange, in a pair that has exchanged some.
double seconds_of_exchange(Pair& pair, bool in_place, double for_s) {
  constexpr uint64_t kFirst = 20;
  const auto until = std::chrono::steady_clock::now() + test::kDeadline;
  NodeProcess::Told from = pair.first.told();
  while (from.exchanges < kFirst || from.edges[1].in_place != in_place) {
    if (std::chrono::steady_clock::now() > until) test::came_too_late("exchange");
    from = pair.first.told();
  }
  NodeProcess::Told to = from;
  while (to.uptime_s < from.uptime_s + for_s)
    to = pair.first.told();
  return (to.uptime_s - from.uptime_s) / static_cast<double>(to.exchanges - from.exchanges);
}

double median(std::vector<double> of) {
  std::nth_element(of.begin(), of.begin() + static_cast<ptrdiff_t>(of.size() / 2), of.end());
  return of[of.size() / 2];
}

bool survives_the_exporter(const char* device) {
  Pair pair(2 * kTurns, DeviceLink::vmm, device);
  seconds_of_exchange(pair, true, 0.5);
  pair.first.kill();
  const auto until = std::chrono::steady_clock::now() + test::kDeadline;
  while (pair.second.told().edges.count(0) > 0)  // its line has ended, and its memory is given back
    if (std::chrono::steady_clock::now() > until) return false;
  pair.second.asked(ConsoleVerb::stop);
  return !pair.second.word_after("mean").empty();
}

}  // namespace

int main(int argc, char** argv) {
  const char* const device = argc > 1 ? argv[1] : "cuda";
  if (NodeProcess::serve(settings(), [&] { return device_named(device); })) return 0;
  if (std::strcmp(device, "cuda") == 0 && cuda_device_count() == 0) {
    fmt::print("SKIPPED: no CUDA device: two processes on one GPU by VMM\n");
    return 77;
  }
  const double for_s = argc > 2 ? std::stod(argv[2]) : 2;
  std::vector<double> ms[2];
  for (int turn = 0; turn < 2 * kTurns; ++turn) {
    const bool in_place = turn % 2 == 1;
    Pair pair(turn, in_place ? DeviceLink::vmm : DeviceLink::host, device);
    ms[in_place].push_back(1e3 * seconds_of_exchange(pair, in_place, for_s));
    fmt::print("exchange of {:.1f} MB {:<9} {:8.3f} ms\n", 8e-6 * kParameters,
               in_place ? "in place" : "by host", ms[in_place].back());
    std::fflush(stdout);
  }
  const bool survived = survives_the_exporter(device);
  fmt::print("in place/host {:.2f}, kill -9 of the exporter {}\n", median(ms[0]) / median(ms[1]),
             survived ? "survived" : "NOT survived");
  return survived ? 0 : 1;
}
