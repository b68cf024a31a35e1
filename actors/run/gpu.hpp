// Gpu: the GPU that a run's ranks live and compute on, and its memory for them.
#pragma once
#include <functional>
#include <memory>

#include "actors/device/device_share.hpp"
#include "actors/settings/settings.hpp"

namespace grapevine {

struct Gpu {
  std::shared_ptr<DeviceShare>
      share;  // keeps the device; null: the ranks live in the host's memory
};

/// The GPU of settings.device. If that is "auto" and the run cannot be on a GPU, the run is on the
/// CPU: a line has the reason, and the settings say cpu from then on. Errors (user): there is no
/// such GPU; it has too little memory for the ranks, with the sums and how many would fit; the
/// objective cannot use one.
Result<Gpu> open_gpu(Settings&, Objective&, const std::function<void(const std::string&)>& say);

}  // namespace grapevine
