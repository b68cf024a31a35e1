#include "app/output/device_report.hpp"

#include <fmt/core.h>

#include "app/system/words.hpp"

namespace grapevine {
namespace {

std::string cuda_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

std::string nccl_text(int version) {
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

std::string capability_text(int capability) {
  return fmt::format("{}.{}", capability / 10, capability % 10);
}

std::string text_of(const DeviceSurvey& s) {
  std::string text = s.why_none + "; everything runs on the CPU";
  if (s.why_none.empty()) {
    text = fmt::format("{} GPU{}", s.gpus.size(), s.gpus.size() == 1 ? "" : "s");
  }
  if (!s.driver.empty()) text += "; driver " + s.driver;
  if (s.driver_cuda > 0)
    text += fmt::format("; the driver knows CUDA {}", cuda_text(s.driver_cuda));
  if (s.cuda > 0) text += fmt::format("; built with CUDA {}", cuda_text(s.cuda));
  return text;
}

std::string text_of(const SurveyedGpu& gpu, size_t count) {
  if (!gpu.trouble.empty()) return gpu.trouble;
  std::string text = fmt::format("{}, {}, {} free, compute capability {}", gpu.facts.name,
                                 as_bytes(static_cast<double>(gpu.facts.memory_bytes)),
                                 as_bytes(static_cast<double>(gpu.facts.free_bytes)),
                                 capability_text(gpu.capability));
  if (!gpu.facts.shares_memory) text += ", shares no memory between processes";
  if (count == 1) return text;
  text += gpu.reaches.empty() ? ", reaches no other GPU" : ", reaches GPU";
  for (size_t k = 0; k < gpu.reaches.size(); ++k)
    text += fmt::format("{}{}", k == 0 ? " " : ", ", gpu.reaches[k]);
  return text;
}

}  // namespace

std::vector<DoctorLine> lines_of(const DeviceSurvey& s) {
  std::vector<DoctorLine> lines{{true, "CUDA", text_of(s)}};
  for (size_t k = 0; k < s.gpus.size(); ++k) {
    lines.push_back(
        {s.gpus[k].trouble.empty(), fmt::format("GPU {}", k), text_of(s.gpus[k], s.gpus.size())});
  }
  const char* const none = s.cuda > 0 ? "not found" : "not looked for: this build has no CUDA";
  lines.push_back({true, "NCCL", s.nccl > 0 ? nccl_text(s.nccl) : none});
  return lines;
}

Json json_of(const DeviceSurvey& s) {
  const auto unless_absent = [](bool known, const std::string& text) {
    return known ? Json(text) : Json();
  };
  Json gpus = Json::array();
  for (size_t k = 0; k < s.gpus.size(); ++k) {
    const SurveyedGpu& gpu = s.gpus[k];
    gpus.push_back({{"number", k},
                    {"name", gpu.facts.name},
                    {"memory_bytes", gpu.facts.memory_bytes},
                    {"free_bytes", gpu.facts.free_bytes},
                    {"compute_capability", capability_text(gpu.capability)},
                    {"copy_engines", gpu.facts.copy_engines},
                    {"shares_memory", gpu.facts.shares_memory},
                    {"reaches", gpu.reaches},
                    {"trouble", unless_absent(!gpu.trouble.empty(), gpu.trouble)}});
  }
  return {{"built_with_cuda", unless_absent(s.cuda > 0, cuda_text(s.cuda))},
          {"driver", unless_absent(!s.driver.empty(), s.driver)},
          {"driver_cuda", unless_absent(s.driver_cuda > 0, cuda_text(s.driver_cuda))},
          {"why_no_gpu", unless_absent(!s.why_none.empty(), s.why_none)},
          {"gpus", gpus},
          {"nccl", unless_absent(s.nccl > 0, nccl_text(s.nccl))}};
}

}  // namespace grapevine
