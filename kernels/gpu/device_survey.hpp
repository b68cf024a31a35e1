// The GPUs that a process finds, for reports: `grapevine doctor` prints them. Exists in every
// build. It opens a context on every GPU for a moment, so only programs that do nothing else should
// call it.
#pragma once
#include <string>
#include <vector>

#include "kernels/gpu/cuda_device.hpp"

namespace grapevine {

struct SurveyedGpu {
  CudaFacts facts;
  int capability = 0;        // 90 is 9.0
  std::vector<int> reaches;  // GPUs whose memory it can read directly
  std::string trouble;       // why it cannot be used, in one line; empty: it can
};

struct DeviceSurvey {
  int cuda = 0;          // of this build: 13000 is 13.0; 0: no CUDA
  int driver_cuda = 0;   // the newest that the driver supports; 0: no driver
  std::string driver;    // the driver's own version, if known
  std::string why_none;  // why there is no GPU; empty: there is one
  std::vector<SurveyedGpu> gpus;
  int nccl = 0;  // 22809 is 2.28.9; 0: not found, or no CUDA
};

DeviceSurvey survey_devices();

}  // namespace grapevine
