// Networks on the lanes of a device: of the zoo, of texts, and of one's own, with what they keep
// aside. The device's streams are threads, and LibTorch computes on the memory of the lanes.
#include <cmath>
#include <thread>

#include "actors/run/run.hpp"
#include "actors/run/state_sizes.hpp"
#include "kernels/gpu/cuda_device.hpp"
#include "kernels/passes/ops.hpp"
#include "models/warm_start.hpp"
#include "tests/catch.hpp"
#include "tests/device/threaded.hpp"
#include "tests/kernels/on_device.hpp"
#include "tests/models/tools.hpp"
#include "tests/models/torch_tasks.hpp"
#include "tests/skipped.hpp"

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

/// Of all kinds, with data in the folder.
struct Network {
  const char* name;
  Make make;
  double rounding = 1e-4;  // of a gradient on a GPU, relative
};

std::vector<Network> all_networks(const test::Scratch& scratch) {
  test::write_optdigits(scratch, 60, 20);
  std::string text;
  for (int k = 0; k < 400; ++k)
    text += "abcde fgh";
  const std::string of_text = "text:" + scratch.file("t.txt", text);
  const std::string script = scratch.path("own.pt"), folder = scratch.path();
  test::write_script(script, 64, 10);
  return {{"a classifier", [=](auto& s) { return zoo(s, "cnn-small", "optdigits", folder); }},
          {"with norms", [=](auto& s) { return zoo(s, "resnet18", "optdigits", folder); }, 1e-3},
          {"by characters", [=](auto& s) { return zoo(s, "lm-char", of_text, ""); }},
          {"by words", [=](auto& s) { return zoo(s, "lm-word", of_text, ""); }},
          {"a script's file", [=](auto& s) { return zoo(s, script, "optdigits", folder); }},
          {"one's own", odd},
          {"begun elsewhere", [](auto& s) {
             const auto own = odd(s);
             Buffer start(own->layout().size(), DType::f32);
             own->initial_point(0, start);
             start.vec().as<float>()[0] = 0.5f;
             return begun_at(std::move(start), own);
           }}};
}

/// In the 2-norm, relative to `right`.
double off(ConstVec found, ConstVec right) {
  const double from_zero = std::sqrt(dot({}, right, right));
  return std::sqrt(square_distance({}, found, right)) / std::max(from_zero, 1e-30);
}

/// One gradient on each lane, both at once, against the same in the host's memory.
void check_gradients(Device& device, Objective& there, Objective& host, uint64_t index,
                     double rounding) {
  const size_t size = host.layout().size(), bytes = size * sizeof(float);
  OnDevice on(device, kLanes * 2 * (bytes + 256), [] { std::this_thread::yield(); });
  Block losses;
  REQUIRE(device.allocate(kLanes * sizeof(double), Block::Kind::pinned, losses) == Fate::ok);
  Buffer x(size, DType::f32), g(size, DType::f32), expected(size, DType::f32);
  host.initial_point(0, x);
  struct Lane {
    Stream stream;
    Event event;
    Vec x, g;
  };
  std::vector<Lane> lanes(kLanes);
  for (Lane& lane : lanes) {
    REQUIRE(device.make_stream(false, lane.stream) == Fate::ok);
    REQUIRE(device.make_event(lane.event) == Fate::ok);
    lane.x = on.upload(x);
    lane.g = on.make(size, DType::f32);
  }
  std::vector<std::thread> threads;
  for (int k = 0; k < kLanes; ++k)
    threads.emplace_back([&, k, &lane = lanes[static_cast<size_t>(k)]] {
      auto* const loss = losses.data + static_cast<size_t>(k) * sizeof(double);
      const Access accesses[] = {{lane.x.data, bytes, Access::Mode::reads},
                                 {lane.g.data, bytes, Access::Mode::writes},
                                 {loss, sizeof(double), Access::Mode::writes}};
      const auto pass = [&, k](void* native, void* const* at) {
        there.queue_gradient(k, native, k, index, {at[0], size, DType::f32},
                             {at[1], size, DType::f32}, static_cast<double*>(at[2]));
      };
      static_cast<void>(device.launch(lane.stream, accesses, pass));
    });
  for (std::thread& thread : threads)
    thread.join();
  for (int k = 0; k < kLanes; ++k) {
    Lane& lane = lanes[static_cast<size_t>(k)];
    REQUIRE(device.record(lane.event, lane.stream) == Fate::ok);
    while (device.query(lane.event) == Fate::later)
      std::this_thread::yield();
    REQUIRE(device.query(lane.event) == Fate::ok);
    there.gradient_came(k, k);
    on.read(lane.g, g);
    const double loss = host.gradient(k, k, index, x, expected);
    INFO("lane " << k);
    CHECK(off(g, expected) <= rounding);
    CHECK(reinterpret_cast<const double*>(losses.data)[k] == Approx(loss).epsilon(rounding));
    const std::vector<float> aside = test::statistics_of(host, k);
    const std::vector<float> aside_there = test::statistics_of(there, k);
    for (size_t i = 0; i < aside.size(); ++i)
      CHECK(aside_there[i] == Approx(aside[i]).epsilon(rounding).margin(rounding));
  }
  REQUIRE(device.free(losses) == Fate::ok);
}

}  // namespace

TEST_CASE("two lanes compute gradients of all kinds of networks at once, each as the CPU does") {
  const test::Scratch scratch;
  for (const Network& network : all_networks(scratch)) {
    INFO(network.name);
    const Settings s = settings_of("a2cid2");
    const auto host = network.make(s), there = network.make(s);
    for (uint64_t index = 0; index < 2; ++index) {
      Threaded device(kPieces);
      check_gradients(device, *there, *host, index, 0);
    }
  }
}

TEST_CASE("a network's gradient on a GPU is the CPU's to rounding, also of the next device",
          "[gpu]") {
  if (cuda_device_count() == 0) return test::skipped("no CUDA device");
  const test::Scratch scratch;
  for (const Network& network : all_networks(scratch)) {
    INFO(network.name);
    Settings s = settings_of("a2cid2");
    s.objective.tf32 = false;
    const auto host = network.make(s), there = network.make(s);
    const Status able = there->use_gpu(0);
    INFO((able ? "" : able.error().message));
    REQUIRE(able);
    for (uint64_t index = 0; index < 3; ++index) {  // the last batch is one that was prefetched
      const auto device = open_cuda_device(0);
      REQUIRE(device);
      check_gradients(**device, *there, *host, index, network.rounding);
    }
  }
}

TEST_CASE("a run on a GPU ends, twice in one process, and what it has trained is saved", "[gpu]") {
  if (cuda_device_count() == 0) return test::skipped("no CUDA device");
  const test::Scratch scratch;
  for (const Network& network : all_networks(scratch)) {
    INFO(network.name);
    Settings s = settings_of("a2cid2");
    s.device = "cuda";
    const auto objective = network.make(s);
    for (int round = 0; round < 2; ++round) {
      const auto result = run(s, objective);
      INFO((result ? "" : result.error().message));
      REQUIRE(result);
      CHECK(!result->outcome.failure);
      CHECK(result->outcome.gradients >= s.gradients);
    }
    Buffer x(objective->layout().size(), DType::f32);
    objective->initial_point(0, x);
    CHECK(objective->save_model(scratch.path(), x));
    const Evaluation judged = objective->evaluate(kLanes, -1, x);
    CHECK(std::isfinite(judged.loss));
  }
}

TEST_CASE(
    "networks of all kinds have on the lanes of a device the bits that they have on the CPU") {
  const test::Scratch scratch;
  for (const std::string method : {"all_reduce", "d_psgd"}) {
    for (const auto& [name, make, rounding] : all_networks(scratch)) {
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
