// grapevine doctor on GPUs: what it says where there are some, and why there is none.
#include "app/output/device_report.hpp"

#include "tests/app/tools.hpp"
#include "tests/catch.hpp"

using namespace grapevine;
using namespace grapevine::test;

namespace {

/// Two GPUs of which the first reaches the other, and a third that is broken.
DeviceSurvey machine_with_gpus() {
  DeviceSurvey survey;
  survey.cuda = 13000;
  survey.driver_cuda = 12080;
  survey.driver = "570.86.15";
  survey.nccl = 22809;
  survey.gpus.resize(3);
  survey.gpus[0] = {{"Fast", size_t{80} << 30, size_t{60} << 30, 12080, 3, true}, 90, {1}, ""};
  survey.gpus[1] = {{"Small", size_t{4} << 30, size_t{1} << 30, 12080, 1, false}, 75, {}, ""};
  survey.gpus[2].trouble = "no GPU 2: out of memory";
  return survey;
}

std::string said(const DeviceSurvey& survey) {
  std::string text;
  for (const DoctorLine& line : lines_of(survey))
    text += (line.well ? "" : "FAIL ") + line.what + ": " + line.text + "\n";
  return text;
}

}  // namespace

TEST_CASE("the doctor describes each GPU, whom it reaches, and what is wrong with one") {
  CHECK(said(machine_with_gpus()) ==
        "CUDA: 3 GPUs; driver 570.86.15; the driver knows CUDA 12.8; built with CUDA 13.0\n"
        "GPU 0: Fast, 85.9 GB, 64.4 GB free, compute capability 9.0, reaches GPU 1\n"
        "GPU 1: Small, 4.3 GB, 1.1 GB free, compute capability 7.5, shares no memory between "
        "processes, reaches no other GPU\n"
        "FAIL GPU 2: no GPU 2: out of memory\n"
        "NCCL: 2.28.9\n");
  DeviceSurvey alone = machine_with_gpus();
  alone.gpus.resize(1);
  CHECK_THAT(said(alone),
             Catch::Contains("CUDA: 1 GPU;") && Catch::Contains("compute capability 9.0\n"));
}

TEST_CASE("programs read of each GPU what people do") {
  const Json json = json_of(machine_with_gpus());
  CHECK(json["driver"] == "570.86.15");
  CHECK(json["driver_cuda"] == "12.8");
  CHECK(json["built_with_cuda"] == "13.0");
  CHECK(json["nccl"] == "2.28.9");
  CHECK(json["why_no_gpu"].is_null());
  REQUIRE(json["gpus"].size() == 3);
  CHECK(json["gpus"][0]["memory_bytes"] == size_t{80} << 30);
  CHECK(json["gpus"][0]["compute_capability"] == "9.0");
  CHECK(json["gpus"][0]["reaches"] == Json::array({1}));
  CHECK(json["gpus"][0]["trouble"].is_null());
  CHECK(json["gpus"][2]["trouble"] == "no GPU 2: out of memory");
}

TEST_CASE("where no GPU is the doctor says why, and is well") {
  DeviceSurvey without_cuda;
  without_cuda.why_none = "this build has no CUDA";
  CHECK(said(without_cuda) ==
        "CUDA: this build has no CUDA; everything runs on the CPU\n"
        "NCCL: not looked for: this build has no CUDA\n");
  DeviceSurvey hidden;
  hidden.cuda = 13000;
  hidden.driver_cuda = 13000;
  hidden.why_none = "a driver, but no GPU";
  CHECK(said(hidden) ==
        "CUDA: a driver, but no GPU; everything runs on the CPU; the driver knows CUDA 13.0; built "
        "with CUDA 13.0\nNCCL: not found\n");
  const Json json = json_of(without_cuda);
  CHECK(json["why_no_gpu"] == "this build has no CUDA");
  CHECK(json["gpus"].empty());
  CHECK(json["built_with_cuda"].is_null());
}

TEST_CASE("the doctor's JSON holds the lines that it says, and the GPUs as they are found here") {
  const DeviceSurvey here = survey_devices();
  CHECK(here.why_none.empty() == !here.gpus.empty());
  const Ran ran = run_grapevine("doctor --json");
  const auto json = nlohmann::json::parse(ran.out);
  CHECK(json["healthy"] == (ran.status == 0));
  CHECK(json["devices"]["gpus"].size() == here.gpus.size());
  for (const auto& check : json["checks"])
    if (check["what"] == "CUDA") CHECK(check["text"] == lines_of(here)[0].text);
  const std::string text = run_grapevine("doctor").out;
  for (const auto& check : json["checks"])
    CHECK_THAT(text, Catch::Contains(check["what"].get<std::string>()));
}
