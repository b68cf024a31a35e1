// The network module against independent arithmetic: torch::nn modules, finite differences, and
// itself in other orders.
#include <ATen/record_function.h>
#include <torch/torch.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>
#include <numeric>
#include <thread>

#include "models/batches.hpp"
#include "models/files/tensor_file.hpp"
#include "models/network/flat_parameters.hpp"
#include "models/objective.hpp"
#include "models/zoo.hpp"
#include "tests/catch.hpp"
#include "tests/models/objective_tools.hpp"
#include "tests/models/tools.hpp"

namespace grapevine {

using namespace test;

namespace {

ObjectiveSpec spec_of(const std::string& folder, const std::string& model) {
  ObjectiveSpec spec;
  spec.model = model;
  spec.dataset = "optdigits";
  spec.data_dir = folder;
  spec.batch = 8;
  spec.ranks = 4;
  spec.threads = 2;
  return spec;
}

/// The same batch as the objective's, gathered by hand from the data set.
struct HandMade {
  torch::Tensor images, labels;
};

HandMade batch_by_hand(const DataSet& data, const ObjectiveSpec& spec, int rank, uint64_t index) {
  const auto made_partition =
      make_partition("iid", static_cast<uint32_t>(data.train.count()), {}, spec.ranks, spec.seed);
  REQUIRE(made_partition);
  const auto partition = std::make_shared<Partition>(*made_partition);
  Batches batches(partition, spec.seed, spec.batch);
  HandMade made{torch::empty({spec.batch, 1, 8, 8}), torch::empty({spec.batch}, torch::kLong)};
  const Gatherer gatherer(data);
  int k = 0;
  for (const uint32_t row : batches.rows(rank, index)) {
    gatherer.gather(data.train, row, {}, made.images.data_ptr<float>() + 64 * k);
    made.labels[k++] = data.train.labels[row];
  }
  // One channel: the same bytes under the strides of channels-last.
  made.images = made.images.as_strided({spec.batch, 1, 8, 8}, {64, 1, 8, 1});
  return made;
}

/// torch::nn's own layers in the order of the plan, their parameters copied from x.
Flat gradient_by_torch(const std::string& model, const HandMade& batch, const Flat& x) {
  namespace nn = torch::nn;
  nn::Sequential net;
  const auto convolution = [](int in, int out) {
    return nn::Conv2d(nn::Conv2dOptions(in, out, 3).padding(1));
  };
  if (model == "linear") net = nn::Sequential(nn::Flatten(), nn::Linear(64, 10));
  if (model == "mlp") {
    net = nn::Sequential(nn::Flatten(), nn::Linear(64, 128), nn::ReLU(), nn::Linear(128, 10));
  }
  if (model == "cnn-small") {
    net = nn::Sequential(convolution(1, 16), nn::MaxPool2d(2), nn::ReLU(), convolution(16, 32),
                         nn::MaxPool2d(2), nn::ReLU(), nn::Flatten(), nn::Linear(128, 64),
                         nn::ReLU(), nn::Linear(64, 10));
  }
  size_t at = 0;
  for (auto& parameter : net->parameters()) {
    const torch::NoGradGuard no_gradients;
    std::copy_n(x.data() + at, parameter.numel(), parameter.data_ptr<float>());
    at += static_cast<size_t>(parameter.numel());
  }
  torch::nn::functional::cross_entropy(net->forward(batch.images), batch.labels).backward();
  Flat g;
  for (const auto& parameter : net->parameters()) {
    const float* from = parameter.grad().data_ptr<float>();
    g.insert(g.end(), from, from + parameter.numel());
  }
  return g;
}

}  // namespace

TEST_CASE("A gradient has the very bits of torch::nn's on the same batch and parameters") {
  const test::Scratch scratch;
  test::write_optdigits(scratch, 100, 20);
  const auto data = read_data_set("optdigits", scratch.path());
  REQUIRE(data);
  for (const std::string model : {"linear", "mlp", "cnn-small"}) {
    INFO(model);
    const ObjectiveSpec spec = spec_of(scratch.path(), model);
    const auto objective = made(spec);
    const Flat x = start(*objective);
    for (const uint64_t index : {0, 7}) {
      const HandMade batch = batch_by_hand(*data, spec, 2, index);
      CHECK(gradient(*objective, 1, 2, index, x) == gradient_by_torch(model, batch, x));
    }
  }
}

TEST_CASE("Every network's gradient is the slope of the loss it returns") {
  const test::Scratch scratch;
  test::write_optdigits(scratch, 64, 20);
  for (const std::string model : {"linear", "mlp", "cnn-small", "cnn-big", "resnet18"}) {
    INFO(model);
    const auto objective = made(spec_of(scratch.path(), model));
    const Flat x = start(*objective);
    Flat g = gradient(*objective, 0, 1, 3, x), unused(x.size());
    double squares = 0;
    for (const float v : g)
      squares += static_cast<double>(v) * v;
    REQUIRE(std::isfinite(squares));
    // Along the gradient itself the slope is its length.
    const double length = std::sqrt(squares), step = 1e-2 / std::max(1.0, length);
    Flat up = x, down = x;
    for (size_t k = 0; k < x.size(); ++k) {
      up[k] += static_cast<float>(step * g[k] / length);
      down[k] -= static_cast<float>(step * g[k] / length);
    }
    const double slope = (objective->gradient(0, 1, 3, view(up), view(unused)) -
                          objective->gradient(0, 1, 3, view(down), view(unused))) /
                         (2 * step);
    CHECK(slope == Approx(length).epsilon(0.02));
  }
}

TEST_CASE("Gradients land in whatever vector is passed, and leave the parameters as they are") {
  const test::Scratch scratch;
  test::write_optdigits(scratch, 64, 20);
  const auto objective = made(spec_of(scratch.path(), "cnn-small"));
  const Flat x = start(*objective);
  const Flat expected = gradient(*objective, 0, 0, 0, x);
  std::vector<Flat> others(5, Flat(x.size() + 3));
  for (int round = 0; round < 3; ++round) {
    for (Flat& other : others) {
      Flat mine = x;
      const Vec misaligned(other.data() + 3, x.size(), DType::f32);
      objective->gradient(0, 0, 0, view(mine), misaligned);
      CHECK(std::equal(expected.begin(), expected.end(), other.begin() + 3));
      CHECK(mine == x);
    }
  }
}

TEST_CASE("A gradient is brought into its vector without a pass of backward for each tensor") {
  const test::Scratch scratch;
  test::write_optdigits(scratch, 64, 20);
  const auto objective = made(spec_of(scratch.path(), "resnet18"));
  REQUIRE(objective->layout().entries().size() == 62);
  const Flat x = start(*objective);
  static std::map<std::string, int> called;
  called.clear();
  const auto count = [](const at::RecordFunction& f) -> std::unique_ptr<at::ObserverContext> {
    ++called[f.name()];
    return nullptr;
  };
  const auto handle = at::addThreadLocalCallback(at::RecordFunctionCallback(count));
  gradient(*objective, 0, 0, 0, x);
  at::removeCallback(handle);
  CHECK(called["aten::convolution"] == 20);  // of which it hears
  CHECK(called["torch::autograd::AccumulateGrad"] == 0);
  CHECK(called["aten::_foreach_copy_"] == 1);
}

TEST_CASE("Tensors that must begin at a boundary do so at every x, and have its numbers") {
  ParameterLayout layout(DType::f32);
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{3}, {5, 5}, {8}, {2, 2}})
    layout.add("t" + std::to_string(layout.size()), shape, true);
  FlatParameters parameters(layout);
  parameters.align(16);
  Buffer x(layout.size(), DType::f32), g(layout.size(), DType::f32);
  float* const first = x.vec().as<float>();
  for (const float base : {1.0f, 100.0f}) {
    std::iota(first, first + x.size(), base);
    parameters.bind(x);
    at::Tensor loss = at::zeros({});
    for (size_t k = 0; k < layout.entries().size(); ++k) {
      const ParameterEntry& entry = layout.entries()[k];
      const at::Tensor& tensor = parameters.tensors()[k];
      CHECK(reinterpret_cast<uintptr_t>(tensor.const_data_ptr()) % 16 == 0);
      CHECK(std::equal(first + entry.offset, first + entry.offset + entry.size(),
                       tensor.const_data_ptr<float>()));
      loss = loss + tensor.square().sum();
    }
    parameters.gradient(loss, g, 0);
    for (size_t i = 0; i < g.size(); ++i)
      CHECK(g.vec().as<float>()[i] == 2 * first[i]);
  }
}

TEST_CASE("Two threads at once give the bits that one thread gives") {
  const test::Scratch scratch;
  test::write_optdigits(scratch, 200, 20);
  const auto train = [&](int rank, int thread, Objective& objective) {
    Flat x = start(objective), g(x.size());
    for (uint64_t index = 0; index < 30; ++index) {
      objective.gradient(thread, rank, index, view(x), view(g));
      for (size_t k = 0; k < x.size(); ++k)
        x[k] -= 0.05f * g[k];
    }
    return x;
  };
  const auto alone = made(spec_of(scratch.path(), "cnn-small"));
  const Flat first = train(0, 0, *alone), second = train(1, 0, *alone);
  CHECK(first != second);
  const auto together = made(spec_of(scratch.path(), "cnn-small"));
  Flat also_second;
  std::thread other([&] { also_second = train(1, 1, *together); });
  const Flat also_first = train(0, 0, *together);
  other.join();
  CHECK(also_first == first);
  CHECK(also_second == second);
}

TEST_CASE("A few hundred steps learn an easy task, and the saved model is the one evaluated") {
  const test::Scratch scratch;
  test::write_optdigits(scratch, 400, 300);
  const auto objective = made(spec_of(scratch.path(), "mlp"));
  Flat x = start(*objective), g(x.size());
  const Evaluation before = objective->evaluate(0, -1, view(x));
  for (uint64_t step = 0; step < 300; ++step) {
    objective->gradient(0, static_cast<int>(step % 4), step / 4, view(x), view(g));
    for (size_t k = 0; k < x.size(); ++k)
      x[k] -= 0.05f * g[k];
  }
  const Evaluation after = objective->evaluate(0, -1, view(x));
  CHECK(before.accuracy < 0.4);
  CHECK(after.accuracy > 0.9);
  CHECK(after.loss < before.loss / 3);
  REQUIRE(objective->save_model(scratch.path(), view(x)));
  Flat back(x.size());
  REQUIRE(load_parameters(scratch.path("model.safetensors"), objective->layout(), view(back)));
  CHECK(objective->evaluate(1, 0, view(back)).accuracy == after.accuracy);
  CHECK(std::filesystem::exists(scratch.path("model.pt")));
  CHECK_FALSE(objective->save_model(scratch.path("none"), view(x)));
}

TEST_CASE("Running statistics belong to a rank, are averaged for the mean model, and are saved") {
  const test::Scratch scratch;
  test::write_optdigits(scratch, 64, 20);
  ObjectiveSpec spec = spec_of(scratch.path(), "resnet18");
  spec.ranks = 3;
  const auto objective = made(spec);
  Flat x = start(*objective);
  const double fresh = objective->evaluate(0, 0, view(x)).loss;
  CHECK(objective->evaluate(0, -1, view(x)).loss == fresh);
  gradient(*objective, 0, 1, 0, x);
  const double own = objective->evaluate(0, 1, view(x)).loss;
  CHECK(own != fresh);
  CHECK(objective->evaluate(1, 0, view(x)).loss == fresh);  // rank 0 has seen nothing
  CHECK(objective->evaluate(0, -1, view(x)).loss == own);   // only rank 1 has anything to average
  gradient(*objective, 1, 2, 0, x);
  gradient(*objective, 1, 2, 1, x);
  CHECK(objective->evaluate(0, -1, view(x)).loss != own);

  const ParameterLayout& statistics = objective->statistics();
  REQUIRE(statistics.entries().size() == 2 * 20);
  CHECK(statistics.entries()[0].name == "bn1.running_mean");
  CHECK(statistics.entries()[1].name == "bn1.running_var");
  Flat average(statistics.size());
  objective->read_statistics(1, view(average));
  objective->set_average_statistics(view(average));  // as other nodes have told it
  CHECK(objective->evaluate(0, -1, view(x)).loss == own);
  REQUIRE(objective->save_model(scratch.path(), view(x)));
  const auto stored = read_tensors(scratch.path("model.safetensors"));
  REQUIRE(stored);
  CHECK(stored->size() == 62 + 3 * 20);
  for (const StoredTensor& tensor : *stored) {
    if (tensor.name == "bn1.running_mean")
      CHECK(std::memcmp(tensor.bytes.data(), average.data(), tensor.bytes.size()) == 0);
    if (tensor.name != "bn1.num_batches_tracked") continue;
    int64_t counted = 0;
    std::memcpy(&counted, tensor.bytes.data(), sizeof counted);
    CHECK(counted == 2);  // the most of any rank: counters are not averaged
  }
}

TEST_CASE("A network objective refuses more ranks than samples, and says what it is") {
  const test::Scratch scratch;
  test::write_optdigits(scratch, 50, 20);
  ObjectiveSpec spec = spec_of(scratch.path(), "linear");
  const auto objective = made(spec);
  CHECK(objective->description() ==
        "linear (650 parameters) on optdigits: 50 + 20 images 8x8x1, 10 classes");
  CHECK(objective->gradients_per_pass(0) == 2);  // 12 samples in batches of 8
  spec.ranks = 51;
  const auto refused = make_objective(spec);
  REQUIRE(!refused);
  CHECK(refused.error().message ==
        "ranks is 51, accepted: at most 50, the number of training samples");
}

TEST_CASE("A loss that is not finite is returned as it is") {
  const test::Scratch scratch;
  test::write_optdigits(scratch, 50, 20);
  const auto objective = made(spec_of(scratch.path(), "linear"));
  Flat x(objective->layout().size(), NAN), g(x.size());
  CHECK(std::isnan(objective->gradient(0, 0, 0, view(x), view(g))));
}

}  // namespace grapevine
