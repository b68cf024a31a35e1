// What a guest trains, as an objective: its layout, its start, and its names in the saved model.
#include <cmath>
#include <cstring>
#include <filesystem>

#include "models/files/tensor_file.hpp"
#include "models/guest.hpp"
#include "tests/catch.hpp"
#include "tests/kernels/tools.hpp"
#include "tests/models/tools.hpp"

using namespace grapevine;

namespace {

ParameterLayout layout_of(std::initializer_list<std::pair<const char*, std::vector<int64_t>>> all) {
  ParameterLayout layout(DType::f32);
  for (const auto& [name, shape] : all)
    layout.add(name, shape, false);
  return layout;
}

}  // namespace

TEST_CASE("a guest's objective has workers and no gradients, and every rank begins at its start") {
  const Buffer start = testing::random_buffer(7, DType::f32, 1);
  GuestObjective objective(layout_of({{"fc.weight", {2, 3}}, {"scale", {}}}), {},
                           testing::random_buffer(7, DType::f32, 1), {});
  CHECK_FALSE(objective.has_gradients());
  CHECK(objective.has_workers());
  for (const int rank : {0, 5}) {
    Buffer x(7, DType::f32);
    objective.initial_point(rank, x);
    CHECK(testing::numbers(x) == testing::numbers(start));
  }
  CHECK(std::isnan(objective.evaluate(0, -1, start).loss));
  CHECK(objective.description() == "a guest's model: 7 parameters in 2 tensors");
}

TEST_CASE("a rank whose script has said nothing has the statistics of the start") {
  const Buffer start = testing::random_buffer(4, DType::f32, 4);
  GuestObjective objective(layout_of({{"scale", {}}}), layout_of({{"bn.running_mean", {4}}}),
                           Buffer(1, DType::f32), testing::random_buffer(4, DType::f32, 4));
  const Buffer own = testing::random_buffer(4, DType::f32, 5);
  objective.set_statistics(1, 3, own);
  Buffer read(4, DType::f32);
  objective.read_statistics(1, read);
  CHECK(testing::numbers(read) == testing::numbers(own));
  objective.read_statistics(0, read);
  CHECK(testing::numbers(read) == testing::numbers(start));
  CHECK(objective.statistics().size() == 4);
}

TEST_CASE("a guest's model is saved under the script's names, what is aside included") {
  GuestObjective objective(layout_of({{"fc.weight", {2, 3}}, {"scale", {}}}),
                           layout_of({{"bn.running_mean", {4}}}), Buffer(7, DType::f32),
                           Buffer(4, DType::f32));
  const Buffer x = testing::random_buffer(7, DType::f32, 2);
  const Buffer aside = testing::random_buffer(4, DType::f32, 3);
  objective.set_average_statistics(aside);
  const test::Scratch scratch;
  const std::string folder = scratch.path();
  REQUIRE(objective.save_model(folder, x));
  const auto stored = read_tensors(folder + "/model.safetensors");
  REQUIRE(stored);
  REQUIRE(stored->size() == 3);
  CHECK((*stored)[0].name == "fc.weight");
  CHECK((*stored)[0].shape == std::vector<int64_t>{2, 3});
  CHECK((*stored)[1].shape.empty());
  CHECK((*stored)[2].name == "bn.running_mean");
  CHECK(std::memcmp((*stored)[0].bytes.data(), x.vec().data, 24) == 0);
  CHECK(std::memcmp((*stored)[2].bytes.data(), aside.vec().data, 16) == 0);
  CHECK(std::filesystem::exists(folder + "/model.pt"));
}
