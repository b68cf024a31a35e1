// A guest's model as an objective: its layout, its start, and its names in the saved model.
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <map>

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

TEST_CASE("a rank has statistics of its own from its script's first step on") {
  GuestObjective objective(layout_of({{"scale", {}}}), layout_of({{"bn.running_mean", {2}}}),
                           Buffer(1, DType::f32), Buffer(2, DType::f32));
  CHECK_FALSE(objective.has_statistics(0));
  objective.set_statistics(0, 0, testing::random_buffer(2, DType::f32, 1));
  CHECK_FALSE(objective.has_statistics(0));
  objective.set_statistics(0, 1, testing::random_buffer(2, DType::f32, 1));
  CHECK(objective.has_statistics(0));
  CHECK_FALSE(objective.has_statistics(1));
}

TEST_CASE("a mask of infinities is in no mean, and is what it was in the saved model") {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const auto mask = [&](float other) {
    Buffer all(3, DType::f32);
    all.vec().as<float>()[0] = -kInfinity;
    all.vec().as<float>()[1] = std::nanf("");
    all.vec().as<float>()[2] = other;
    return all;
  };
  GuestObjective objective(layout_of({{"scale", {}}}), layout_of({{"mask", {3}}}),
                           Buffer(1, DType::f32), mask(1));
  objective.set_statistics(0, 1, mask(2));
  Buffer read(3, DType::f32);
  objective.read_for_mean(0, read);
  CHECK(testing::numbers(read) == std::vector<double>{0, 0, 2});
  objective.read_statistics(0, read);
  CHECK(read.vec().as<float>()[0] == -kInfinity);
  Buffer average(3, DType::f32);
  average.vec().as<float>()[2] = 7;
  objective.set_average_statistics(average);
  objective.read_statistics(-1, read);
  CHECK(read.vec().as<float>()[0] == -kInfinity);
  CHECK(std::isnan(read.vec().as<float>()[1]));
  CHECK(read.vec().as<float>()[2] == 7);
}

TEST_CASE("tied names and fp64 are in the saved model as the script has them") {
  ParameterLayout aside(DType::f64);
  aside.add("bn.running_mean", {2}, true);
  aside.add("count", {}, true);
  Buffer statistics(3, DType::f64);
  const double values[] = {0.5, 0.25, 16777217.0};
  std::memcpy(statistics.vec().data, values, sizeof values);
  GuestObjective objective(
      layout_of({{"w", {2, 3}}}), aside, Buffer(6, DType::f32), std::move(statistics), 1,
      {{"v", "w", {3, 2}, {1, 3}}, {"also", "w", {2, 3}, {3, 1}}, {"n", "count", {}, {}}});
  Buffer x(6, DType::f32);
  for (int k = 0; k < 6; ++k)
    x.vec().as<float>()[k] = static_cast<float>(k);
  const test::Scratch scratch;
  REQUIRE(objective.save_model(scratch.path(), x));
  const auto stored = read_tensors(scratch.path("model.safetensors"));
  REQUIRE(stored);
  REQUIRE(stored->size() == 6);
  std::map<std::string, const StoredTensor*> named;
  for (const StoredTensor& tensor : *stored)
    named[tensor.name] = &tensor;
  const auto floats = [&](const std::string& name) {
    std::vector<float> all(named.at(name)->bytes.size() / sizeof(float));
    std::memcpy(all.data(), named.at(name)->bytes.data(), named.at(name)->bytes.size());
    return all;
  };
  CHECK(named.at("v")->shape == std::vector<int64_t>{3, 2});
  CHECK(floats("v") == std::vector<float>{0, 3, 1, 4, 2, 5});
  CHECK(floats("also") == std::vector<float>{0, 1, 2, 3, 4, 5});
  CHECK(named.at("bn.running_mean")->type == TensorType::f32);
  CHECK(floats("bn.running_mean") == std::vector<float>{0.5, 0.25});
  for (const char* name : {"count", "n"}) {
    double count = 0;
    REQUIRE(named.at(name)->type == TensorType::f64);
    std::memcpy(&count, named.at(name)->bytes.data(), sizeof count);
    CHECK(count == 16777217.0);
  }
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
