// An illegal address in one process of two that share a GPU: its ranks die, the other's train on.
//
//   gpu_lost_bench [DEVICE [SECONDS]]
//
// Two processes of two ranks each. One writes to an illegal address after a third of the SECONDS
// (9); the other says how many gradients its ranks took afterwards. Status 0 where the first ends
// with status 1 and the second with a mean of its own ranks; 77 where no GPU is.
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "actors/run/gpu.hpp"
#include "actors/run/run_node.hpp"
#include "kernels/gpu/cuda_device.hpp"
#include "models/heap.hpp"
#include "models/network/torch_objective.hpp"
#include "tests/bench/gpu_lost.hpp"

namespace grapevine {
namespace {

constexpr int kRanksOfNode = 2;

/// A layer on noise, which needs no data and computes on a GPU.
std::shared_ptr<Objective> made(const Settings& s) {
  at::manual_seed(1);
  TorchTask task;
  task.make = [] {
    TorchNetwork network;
    const at::Tensor weight = (at::rand({8, 256}) * 0.1).set_requires_grad(true);
    network.parameters = {{"weight", weight}};
    network.forward = [weight](const at::Tensor& x) { return at::linear(x, weight); };
    return network;
  };
  task.train = TorchData::of(at::rand({512, 256}), at::randint(8, {512}, at::kLong));
  ObjectiveSpec spec = s.objective;
  spec.ranks = s.ranks;
  spec.threads = compute_threads(s);
  auto objective = make_torch_objective(spec, std::move(task));
  if (objective) return std::move(*objective);
  std::fprintf(stderr, "%s\n", objective.error().message.c_str());
  std::exit(objective.error().exit_status());
}

Settings settings_of(const std::string& device, double seconds) {
  Settings s;
  s.ranks = 2 * kRanksOfNode;
  s.local_ranks = kRanksOfNode;
  s.device = device;
  s.gradients = 0;
  s.until_s = seconds;
  s.sample_s = 0.25;
  s.lr = {1e-3, Schedule::constant, 0};
  return s;
}

NodeSettings node_of(const std::string& run, int first_rank) {
  NodeSettings node;
  node.run = run;
  node.name = run + "-" + std::to_string(first_rank);
  node.first_rank = first_rank;
  node.total_ranks = 2 * kRanksOfNode;
  return node;
}

/// The process that is lost.
int be_lost(const Settings& s, const std::string& run, const std::string& address, int gpu) {
  NodeSettings node = node_of(run, kRanksOfNode);
  node.join = {address};
  NodeHooks hooks;
  hooks.run.sink.on_sample = [gpu, done = false, at_s = s.until_s / 3](const RunSample& x) mutable {
    if (x.at_s < at_s || std::exchange(done, true)) return;
    gpu < 0 ? std::abort() : bench::write_to_an_illegal_address(gpu);
  };
  const auto result = run_node(s, node, made(s), std::move(hooks));
  if (result) return 0;
  std::printf("the lost one: %s\n", result.error().message.c_str());
  return 1;
}

int see_it_lost(const Settings& s, const std::string& device) {
  const std::string run = "lost-" + std::to_string(getpid());
  pid_t other = 0;
  double gone_s = 0;
  uint64_t before = 0, last = 0;
  NodeHooks hooks;
  hooks.on_listening = [&](const std::string& address) {
    other = fork();
    if (other != 0) return;
    const std::string seconds = std::to_string(s.until_s);
    execl("/proc/self/exe", "gpu_lost_bench", "--lost", run.c_str(), address.c_str(),
          device.c_str(), seconds.c_str(), nullptr);
    _exit(127);
  };
  hooks.run.sink.on_epoch = [&](const EpochInfo& e) {
    if (e.ranks == kRanksOfNode && last > 0 && gone_s == 0) gone_s = e.at_s, before = last;
  };
  hooks.run.sink.on_sample = [&](const RunSample& x) { last = x.gradients; };
  const auto result = run_node(s, node_of(run, 0), made(s), std::move(hooks));
  int status = 0;
  if (other <= 0 || waitpid(other, &status, 0) != other) status = -1;
  if (!result) {
    std::printf("the other: %s\n", result.error().message.c_str());
    return 1;
  }
  // Without a GPU the process aborts in its place. With one, to be lost is no reason to abort.
  const bool was_lost =
      device == "cpu" ? WIFSIGNALED(status) : WIFEXITED(status) && WEXITSTATUS(status) == 1;
  const uint64_t after = result->outcome.gradients - before;
  std::printf(
      "lost: %s; gone after %.1f s; the other's ranks took %lu gradients before and %lu "
      "after; the mean is over %d ranks\n",
      was_lost ? "yes" : "NO", gone_s, before, after, result->ranks);
  return was_lost && gone_s > 0 && after > 0 && result->ranks == kRanksOfNode ? 0 : 1;
}

}  // namespace
}  // namespace grapevine

int main(int argc, char** argv) {
  using namespace grapevine;
  prepare_heap();
  const bool lost = argc == 6 && std::strcmp(argv[1], "--lost") == 0;
  const std::string device = lost ? argv[4] : argc > 1 ? argv[1] : "cuda";
  const double seconds = lost ? std::atof(argv[5]) : argc > 2 ? std::atof(argv[2]) : 9;
  const auto number = gpu_named(device);
  if (!number) {
    std::fprintf(stderr, "%s\n", number.error().message.c_str());
    return 2;
  }
  if (*number && cuda_device_count() == 0) {
    std::printf("SKIPPED: no CUDA device\n");
    return 77;
  }
  const Settings s = settings_of(device, seconds);
  return lost ? be_lost(s, argv[2], argv[3], number->value_or(-1)) : see_it_lost(s, device);
}
