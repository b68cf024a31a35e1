// The doctor's words on GPUs. Internal to this room: it shows nlohmann-json.
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

/// "CUDA", "GPU 0" and so on, "NCCL". That there is no GPU is well, and why is said; one that is
/// there and cannot be used is not.
std::vector<DoctorLine> lines_of(const DeviceSurvey&);

Json json_of(const DeviceSurvey&);

}  // namespace grapevine
