#include "actors/run/gpu.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "actors/algorithms/method_registry.hpp"
#include "actors/run/state_sizes.hpp"
#include "kernels/codecs/compressor.hpp"
#include "kernels/gpu/cuda_device.hpp"

namespace grapevine {

namespace {

constexpr char kAuto[] = "auto";

// Refuses a method or a compressor that runs on the CPU alone.
Status computes_on_gpu(const Settings& s, const Objective& objective) {
  const auto refused = [&s](const std::string& what) {
    return user_error(what + ", which runs on the CPU alone, with device " + s.device +
                      ", accepted: device cpu");
  };
  if (!runs_on_devices(method_named(s.method))) return refused("method is " + s.method);
  if (s.rule.compress.empty()) return Done{};
  const auto compressor = Compressor::make(s.rule.compress, objective.layout());
  if (!compressor || compressor->runs_on_devices()) return Done{};  // null: the method has its own
  return refused("compress is " + s.rule.compress);
}

// state_bytes does not depend on the number of ranks; the rest is divided by the ranks.
int ranks_that_fit(const DeviceSizes& sizes, int ranks, size_t free_bytes) {
  const size_t grows = sizes.memory_bytes() + sizes.gradient_bytes() - sizes.state_bytes;
  if (free_bytes < sizes.state_bytes || grows == 0) return 0;
  return static_cast<int>((free_bytes - sizes.state_bytes) / (grows / static_cast<size_t>(ranks)));
}

Result<Gpu> open(int number, const Settings& s, Objective& objective) {
  if (Status able = computes_on_gpu(s, objective); !able) return able.error();
  const auto facts = cuda_facts(number);
  if (!facts) return facts.error();
  const DeviceSizes sizes = device_sizes(s, objective);
  if (sizes.memory_bytes() + sizes.gradient_bytes() > facts->free_bytes) {
    const int ranks = ranks_here(s);
    return user_error(fmt::format(
        "GPU {}: {} ranks need {} beside what LibTorch takes, and {:.1f} GB are free, accepted: at "
        "most {} ranks",
        number, ranks, sizes.text(), 1e-9 * static_cast<double>(facts->free_bytes),
        ranks_that_fit(sizes, ranks, facts->free_bytes)));
  }
  if (Status able = objective.use_gpu(number); !able) return able.error();
  auto device = open_cuda_device(number);
  if (!device) return device.error();
  const std::shared_ptr<Device> kept(std::move(*device));
  auto share = DeviceShare::make(*kept, sizes);
  if (!share) return share.error();
  (*share)->hold(kept);
  return Gpu{std::move(*share)};
}

}  // namespace

Result<Gpu> open_gpu(Settings& s, Objective& objective,
                     const std::function<void(const std::string&)>& say) {
  const auto number = gpu_named(s.device);
  if (!number) return number.error();
  if (*number) {
    auto opened = open(**number, s, objective);
    if (opened || s.device != kAuto) return opened;
    s.threads = kLanes + 1;  // as compute_threads, with which the objective was made
    if (say)
      say(fmt::format("device auto is the CPU, with {} threads: {}", s.threads,
                      opened.error().message));
  }
  s.device = "cpu";
  objective.use_host();
  return Gpu();
}

}  // namespace grapevine
