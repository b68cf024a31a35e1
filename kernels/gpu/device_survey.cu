#include <cuda_runtime.h>
#include <dlfcn.h>

#include <cstdlib>
#include <fstream>

#include "kernels/gpu/device_survey.hpp"

namespace grapevine {
namespace {

std::string why_none(cudaError_t answer, int driver_cuda) {
  if (driver_cuda == 0) return "no driver";
  if (answer != cudaSuccess && answer != cudaErrorNoDevice) {
    return std::string("a driver, but: ") + cudaGetErrorString(answer);
  }
  const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
  if (visible == nullptr) return "a driver, but no GPU";
  return std::string("a driver, but no GPU: CUDA_VISIBLE_DEVICES is \"") + visible + '"';
}

SurveyedGpu survey(int number, int count) {
  SurveyedGpu gpu;
  const auto facts = cuda_facts(number);
  if (facts) {
    gpu.facts = *facts;
  } else {
    gpu.trouble = facts.error().message;
  }
  int major = 0, minor = 0;
  cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, number);
  cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, number);
  gpu.capability = 10 * major + minor;
  for (int other = 0; other < count; ++other) {
    int reaches = 0;
    if (other != number) cudaDeviceCanAccessPeer(&reaches, number, other);
    if (reaches != 0) gpu.reaches.push_back(other);
  }
  cudaGetLastError();  // the fields above lack what failed
  return gpu;
}

/// The version of the library that the process would load; LibTorch may have loaded its own before.
int nccl_version() {
  int version = 0;
  void* const library = dlopen("libnccl.so.2", RTLD_LAZY | RTLD_LOCAL);
  if (library == nullptr) return 0;
  const auto ask = reinterpret_cast<int (*)(int*)>(dlsym(library, "ncclGetVersion"));
  if (ask == nullptr || ask(&version) != 0) version = 0;
  return version;
}

}  // namespace

DeviceSurvey survey_devices() {
  DeviceSurvey found;
  found.cuda = CUDART_VERSION;
  found.nccl = nccl_version();
  std::ifstream("/sys/module/nvidia/version") >> found.driver;
  if (cudaDriverGetVersion(&found.driver_cuda) != cudaSuccess) found.driver_cuda = 0;
  int count = 0;
  const cudaError_t answer = cudaGetDeviceCount(&count);
  if (answer != cudaSuccess) count = 0;
  cudaGetLastError();
  if (count == 0) found.why_none = why_none(answer, found.driver_cuda);
  for (int number = 0; number < count; ++number)
    found.gpus.push_back(survey(number, count));
  return found;
}

}  // namespace grapevine
