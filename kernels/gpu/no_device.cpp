// cuda_device.hpp and device_survey.hpp in a build without CUDA.
#include "kernels/gpu/cuda_device.hpp"

#include <fmt/core.h>
#include "kernels/gpu/device_survey.hpp"

namespace grapevine {
namespace {

Error none(int number) {
  return user_error(fmt::format("no GPU {}: this build has no CUDA", number));
}

}  // namespace

void prepare_cuda() {}

int cuda_device_count() { return 0; }

int emptiest_cuda_device() { return 0; }

Result<CudaFacts> cuda_facts(int number) { return none(number); }

Result<std::unique_ptr<Device>> open_cuda_device(int number) { return none(number); }

DeviceSurvey survey_devices() {
  DeviceSurvey found;
  found.why_none = "this build has no CUDA";
  return found;
}

}  // namespace grapevine
