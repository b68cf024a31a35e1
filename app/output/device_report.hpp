// The doctor's report on GPUs. Internal to this folder: it includes nlohmann-json.
#pragma once
#include <string>
#include <vector>

#include "app/output/json_output.hpp"
#include "kernels/gpu/device_survey.hpp"

namespace grapevine {

struct DoctorLine {
  bool well = true;
  std::string what, text;
};

/// Lines for "CUDA", "GPU 0" and so on, and "NCCL". No GPU counts as ok, with the reason; a GPU
/// that cannot be used does not.
std::vector<DoctorLine> lines_of(const DeviceSurvey&);

Json json_of(const DeviceSurvey&);

}  // namespace grapevine
