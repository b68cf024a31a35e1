// Networks on the lanes of a device: of the zoo, of texts, and of one's own, with what they keep
// aside. The device's streams are threads, and LibTorch computes on the memory of the lanes.
#include "actors/run/run.hpp"
#include "actors/run/state_sizes.hpp"
#include "models/warm_start.hpp"
#include "tests/catch.hpp"
#include "tests/device/threaded.hpp"
#include "tests/models/tools.hpp"
#include "tests/models/torch_tasks.hpp"

using namespace grapevine;
using namespace grapevine::testing;

namespace {

constexpr int kRanks = 3;
constexpr uint64_t kSteps = 6;       // of each rank
constexpr size_t kPieces = 1 << 17;  // of work in a stream, at most

Settings settings_of(const std::string& method) {
  Settings s;
  s.method = method;
  s.topology = "ring";
  s.ranks = kRanks;
  s.threads = kLanes + 1;
  s.gradients = kSteps * kRanks;
  s.lr = {0.05, Schedule::constant, 0};
  s.objective.batch = 4;
  s.objective.window = 8;
  s.objective.clip = 1;
  return s;
}

using Make = std::function<std::shared_ptr<Objective>(const Settings&)>;

std::shared_ptr<Objective> zoo(Settings s, const std::string& model, const std::string& dataset,
                               const std::string& folder) {
  s.objective.model = model;
  s.objective.dataset = dataset;
  s.objective.data_dir = folder;
  auto made = make_objective(s);
  if (!made) FAIL(made.error().message);
  return *made;
}

std::shared_ptr<Objective> odd(const Settings& s) {
  ObjectiveSpec spec = s.objective;
  spec.ranks = s.ranks;
  spec.threads = compute_threads(s);
  auto made = make_torch_objective(spec, test::odd_task());
  if (!made) FAIL(made.error().message);
  return std::move(*made);
}

}  // namespace

TEST_CASE(
    "networks of all kinds have on the lanes of a device the bits that they have on the CPU") {
  const test::Scratch scratch;
  test::write_optdigits(scratch, 60, 20);
  std::string text;
  for (int k = 0; k < 400; ++k)
    text += "abcde fgh";
  const std::string of_text = "text:" + scratch.file("t.txt", text);
  test::write_script(scratch.path("own.pt"), 64, 10);
  const std::pair<const char*, Make> networks[] = {
      {"a classifier", [&](auto& s) { return zoo(s, "cnn-small", "optdigits", scratch.path()); }},
      {"with norms", [&](auto& s) { return zoo(s, "resnet18", "optdigits", scratch.path()); }},
      {"by characters", [&](auto& s) { return zoo(s, "lm-char", of_text, ""); }},
      {"by words", [&](auto& s) { return zoo(s, "lm-word", of_text, ""); }},
      {"a script's file",
       [&](auto& s) { return zoo(s, scratch.path("own.pt"), "optdigits", scratch.path()); }},
      {"one's own", odd},
      {"begun elsewhere", [](auto& s) {
         const auto own = odd(s);
         Buffer start(own->layout().size(), DType::f32);
         own->initial_point(0, start);
         start.vec().as<float>()[0] = 0.5f;
         return begun_at(std::move(start), own);
       }}};
  for (const std::string method : {"all_reduce", "d_psgd"}) {
    for (const auto& [name, make] : networks) {
      INFO(method << ", " << name);
      if (std::string(name) == "with norms" && method == "d_psgd") continue;  // it takes its time
      const Settings s = settings_of(method);
      const auto at_host = make(s), there = make(s);
      const auto host = run(s, at_host);
      REQUIRE(host);
      Threaded device(kPieces);
      auto share = DeviceShare::make(device, device_sizes(s, *there));
      REQUIRE(share);
      RunHooks hooks;
      hooks.device = std::move(*share);
      const auto on_device = run(s, there, std::move(hooks));
      REQUIRE(on_device);
      CHECK(!on_device->outcome.failure);
      CHECK(on_device->outcome.gradients == host->outcome.gradients);
      CHECK(parameter_hash(on_device->outcome) == parameter_hash(host->outcome));
      for (int rank = 1; rank < kRanks; ++rank)  // of rank 0 the CPU has measured gradients before
        CHECK(test::statistics_of(*there, rank) == test::statistics_of(*at_host, rank));
    }
  }
}
