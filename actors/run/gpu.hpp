// Gpu: the GPU that holds a run's ranks and computes for them, and its memory for them.
#pragma once
#include <functional>
#include <memory>

#include "actors/device/device_share.hpp"
#include "actors/settings/settings.hpp"

namespace grapevine {

struct Gpu {
  std::shared_ptr<DeviceShare> share;  // keeps the device; null: the ranks are in the host's memory
};

/// The GPU of settings.device. If that is "auto" and the run cannot use a GPU, the run uses the
/// CPU: `say` gets a line with the reason, and settings.device becomes cpu. Errors (user): there is
/// no such GPU; it has too little memory for the ranks (the error states the sizes and how many
/// ranks would fit); the objective cannot use a GPU.
Result<Gpu> open_gpu(Settings&, Objective&, const std::function<void(const std::string&)>& say);

}  // namespace grapevine
