// Networks of the user's own against the zoo's, and against torch::nn by hand.
#include "models/network/torch_objective.hpp"

#include <dlfcn.h>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <map>
#include <sstream>
#include <stdexcept>

#include "models/batches.hpp"
#include "models/data/own_data.hpp"
#include "models/files/tensor_file.hpp"
#include "tests/catch.hpp"
#include "tests/models/objective_tools.hpp"
#include "tests/models/tools.hpp"
#include "tests/models/torch_tasks.hpp"
#include "tests/skipped.hpp"

namespace grapevine {

using namespace test;
using Catch::Contains;

namespace {

struct Mlp : torch::nn::Module {
  torch::nn::Linear fc1{64, 128}, fc2{128, 10};
  Mlp() { register_module("fc1", fc1), register_module("fc2", fc2); }
  at::Tensor forward(const at::Tensor& x) { return fc2(fc1(x.flatten(1)).relu()); }
};

ObjectiveSpec spec_for(int ranks, int batch) {
  ObjectiveSpec spec;
  spec.ranks = ranks;
  spec.threads = 2;
  spec.batch = batch;
  return spec;
}

std::unique_ptr<Objective> made_of(const ObjectiveSpec& spec, TorchTask task) {
  auto objective = make_torch_objective(spec, std::move(task));
  if (!objective) FAIL(objective.error().message);
  return std::move(*objective);
}

std::string refused(const ObjectiveSpec& spec, TorchTask task) {
  const auto objective = make_torch_objective(spec, std::move(task));
  REQUIRE_FALSE(objective);
  CHECK(objective.error().exit_status() == 2);
  CHECK(objective.error().message.find('\n') == std::string::npos);
  return objective.error().message;
}

using Floats = std::vector<float>;

Vec vec(Floats& v) { return {v.data(), v.size(), DType::f32}; }

Floats beginning(const Objective& objective) {
  Floats x(objective.layout().size());
  objective.initial_point(0, vec(x));
  return x;
}

Floats gradient_at(Objective& objective, int thread, int rank, uint64_t index, Floats x) {
  Floats g(x.size());
  objective.gradient(thread, rank, index, vec(x), vec(g));
  return g;
}

}  // namespace

TEST_CASE("Samples that are set aside judge, and no rank's gradients have them, whoever made it") {
  const Scratch scratch;
  write_optdigits(scratch, 100, 20);
  auto read = read_data_set("optdigits", scratch.path());
  REQUIRE(read);
  const auto set = std::make_shared<const DataSet>(std::move(*read));
  ObjectiveSpec spec = spec_for(4, 8);
  spec.model = "mlp";
  spec.dataset = "optdigits";
  spec.data_dir = scratch.path();
  spec.validation_split = 0.3;
  spec.has_tester = true;
  const auto zoo = made(spec);
  TorchTask task;
  task.make = [] { return network_of(std::make_shared<Mlp>()); };
  task.train = TorchData::of(set, false);
  const auto seen = std::make_shared<std::vector<int>>(100);
  task.train.batch = [seen, batch = task.train.batch](std::span<const uint32_t> rows) {
    for (const uint32_t row : rows)
      ++(*seen)[row];
    return batch(rows);
  };
  const auto own = made_of(spec, std::move(task));
  CHECK_THAT(own->description(), Contains("30 training samples set aside"));
  CHECK(own->gradients_per_pass(0) == 3);  // 17 or 18 samples
  Floats x = beginning(*zoo);
  seen->assign(100, 0);
  for (int rank = 0; rank < 4; ++rank)
    for (uint64_t index = 0; index < 9; ++index)
      gradient_at(*own, 1, rank, index, x);
  const std::vector<int> trained = *seen;
  seen->assign(100, 0);
  const Evaluation mine = own->validate(2, -1, vec(x)), theirs = zoo->validate(2, -1, vec(x));
  for (size_t row = 0; row < 100; ++row)
    CHECK(((trained[row] > 0) != ((*seen)[row] == 1)));
  CHECK(mine.loss == Approx(theirs.loss).epsilon(1e-5));
  CHECK(mine.accuracy == theirs.accuracy);
  spec.validation_split = 0;
  CHECK(std::isnan(made(spec)->validate(0, -1, vec(x)).loss));
}

TEST_CASE("The walk through the data goes on where ranks of another number have left it") {
  const Scratch scratch;
  write_optdigits(scratch, 100, 20);
  ObjectiveSpec spec = spec_for(4, 5);
  const auto seen = std::make_shared<std::vector<int>>(100);
  const auto counting = [&](int ranks) {
    TorchTask task = odd_task();
    task.train = TorchData::of(torch::randn({100, 4}), torch::randint(2, {100}));
    task.train.batch = [seen, batch = task.train.batch](std::span<const uint32_t> rows) {
      for (const uint32_t row : rows)
        ++(*seen)[row];
      return batch(rows);
    };
    spec.ranks = ranks;
    auto made = made_of(spec, std::move(task));
    seen->assign(100, 0);
    return made;
  };
  const auto four = counting(4);
  Floats x = beginning(*four);
  for (int rank = 0; rank < 4; ++rank)
    for (uint64_t index = 0; index < 2; ++index)
      gradient_at(*four, 0, rank, index, x);
  const std::vector<int> before = *seen;
  const auto two = counting(2);
  CHECK_FALSE(two->go_on_in_data({{{10, 10, 10, 10}, {4, 4, 4}}}));
  REQUIRE(two->go_on_in_data({{{10, 10, 10, 10}, {4, 4}}}));
  for (int rank = 0; rank < 2; ++rank)  // has 30 of its 50 samples left
    for (uint64_t index = 4; index < 10; ++index)
      gradient_at(*two, 1, rank, index, x);
  for (size_t row = 0; row < 100; ++row)
    CHECK(before[row] + (*seen)[row] == 1);
}

TEST_CASE("A network of one's own has the very gradients of the zoo's with the same layers") {
  const Scratch scratch;
  write_optdigits(scratch, 100, 20);
  auto read = read_data_set("optdigits", scratch.path());
  REQUIRE(read);
  const auto set = std::make_shared<const DataSet>(std::move(*read));
  ObjectiveSpec spec = spec_for(4, 8);
  spec.model = "mlp";
  spec.dataset = "optdigits";
  spec.data_dir = scratch.path();
  const auto zoo = made(spec);
  TorchTask task;
  task.make = [] { return network_of(std::make_shared<Mlp>()); };
  task.train = TorchData::of(set, false);
  task.test = TorchData::of(set, true);
  const auto own = made_of(spec, std::move(task));
  CHECK(own->layout().hash() == zoo->layout().hash());
  const Floats x = beginning(*zoo);
  for (const uint64_t index : {0, 9})
    CHECK(gradient_at(*own, 1, 2, index, x) == gradient_at(*zoo, 0, 2, index, x));
  Floats at = x;
  CHECK(own->evaluate(0, -1, vec(at)).loss == Approx(zoo->evaluate(0, -1, vec(at)).loss));
  CHECK(own->evaluate(0, -1, vec(at)).accuracy == zoo->evaluate(0, -1, vec(at)).accuracy);
  CHECK(own->gradients_per_pass(0) == zoo->gradients_per_pass(0));
}

TEST_CASE("Tied parameters count once, frozen ones stay, unused ones have no gradient") {
  const auto objective = made_of(spec_for(4, 5), odd_task());
  std::vector<std::string> names;
  for (const ParameterEntry& entry : objective->layout().entries())
    names.push_back(entry.name);
  CHECK(names == std::vector<std::string>{"again", "unused", "in.bias", "norm.weight", "norm.bias",
                                          "out.weight", "out.bias"});
  const Floats x = beginning(*objective), g = gradient_at(*objective, 0, 1, 0, x);
  CHECK(beginning(*made_of(spec_for(4, 5), odd_task())) == x);
  for (const ParameterEntry& entry : objective->layout().entries()) {
    double squares = 0;
    for (size_t k = 0; k < entry.size(); ++k)
      squares += g[entry.offset + k] * g[entry.offset + k];
    INFO(entry.name);
    CHECK((squares == 0) == (entry.name == "unused"));
  }
}

TEST_CASE("Running statistics of a network of one's own are each rank's, averaged and saved") {
  const Scratch scratch;
  const auto objective = made_of(spec_for(4, 5), odd_task());
  const Floats x = beginning(*objective);
  const Floats fresh = statistics_of(*objective, 0);
  REQUIRE(fresh.size() == 8u);  // a mean and a variance of four
  gradient_at(*objective, 0, 1, 0, x);
  CHECK(statistics_of(*objective, 0) == fresh);
  const Floats of_1 = statistics_of(*objective, 1);
  CHECK(of_1 != fresh);
  gradient_at(*objective, 1, 2, 0, x);  // on the other thread
  gradient_at(*objective, 0, 1, 1, x);
  const Floats later = statistics_of(*objective, 1), of_2 = statistics_of(*objective, 2);
  CHECK(later != of_1);
  Floats at = x;
  CHECK(objective->evaluate(0, 1, vec(at)).loss != objective->evaluate(0, 2, vec(at)).loss);
  CHECK(objective->evaluate(0, 1, vec(at)).loss == objective->evaluate(1, 1, vec(at)).loss);
  CHECK(statistics_of(*objective, 1) == later);  // a test changes nothing

  REQUIRE(objective->save_model(scratch.path(), vec(at)));
  const auto stored = read_tensors(scratch.path("model.safetensors"));
  REQUIRE(stored);
  int found = 0;
  for (const StoredTensor& t : *stored) {
    if (t.name == "norm.running_mean") {
      ++found;
      for (size_t k = 0; k < 4; ++k) {
        float mean;
        std::memcpy(&mean, t.bytes.data() + 4 * k, 4);
        CHECK(mean == Approx((later[k] + of_2[k]) / 2));
      }
    }
    if (t.name == "norm.num_batches_tracked") {
      ++found;
      CHECK(t.bytes[0] == 2);
    }
    found += t.name == "frozen" || t.name == "mask";
  }
  CHECK(found == 4);
}

namespace {

/// Buffers of every type, one that changes in fp64, a parameter that is empty, and a weight of two
/// names.
struct Buffers : torch::nn::Module {
  torch::nn::Linear in{4, 4}, out{4, 2};
  at::Tensor again, none, third, count;
  Buffers() {
    register_module("in", in), register_module("out", out);
    again = register_parameter("again", in->weight);
    none = register_parameter("none", torch::zeros({0, 4}));
    third = register_buffer("third", torch::full({2}, 1.0 / 3, at::kDouble));
    register_buffer("half", torch::full({2}, 0.5, at::kHalf));
    register_buffer("infinite", torch::full({2}, -INFINITY));
    count = register_buffer("count", torch::zeros({1}, at::kInt));
    register_buffer("flags", torch::ones({3}, at::kBool));
    register_buffer("bytes", torch::full({2}, 200, at::kByte));
  }
  at::Tensor forward(const at::Tensor& x) {
    if (is_training()) third.div_(3);
    return out(at::matmul(in(x), again));
  }
};

}  // namespace

TEST_CASE("Files have every tensor under each of its names, in its own type and not rounded") {
  const Scratch scratch;
  TorchTask task = odd_task();
  task.make = [] { return network_of(std::make_shared<Buffers>()); };
  const auto objective = made_of(spec_for(2, 5), std::move(task));
  CHECK(objective->statistics().dtype() == DType::f64);
  Floats x = beginning(*objective);
  for (uint64_t index = 0; index < 2; ++index)
    for (int rank = 0; rank < 2; ++rank)
      gradient_at(*objective, rank, rank, index, x);
  REQUIRE(objective->save_model(scratch.path(), vec(x)));
  for (const char* name : {"model.safetensors", "model.pt"}) {
    const auto stored = read_tensors(scratch.path(name));
    if (!stored) FAIL(stored.error().message);
    std::map<std::string, const StoredTensor*> named;
    for (const StoredTensor& t : *stored)
      named[t.name] = &t;
    REQUIRE(named.size() == 12);
    CHECK(named.at("again")->bytes == named.at("in.weight")->bytes);
    CHECK(named.at("none")->shape == std::vector<int64_t>{0, 4});
    const std::pair<const char*, TensorType> types[] = {
        {"third", TensorType::f64}, {"half", TensorType::f16},      {"infinite", TensorType::f32},
        {"count", TensorType::i32}, {"flags", TensorType::boolean}, {"bytes", TensorType::u8}};
    for (const auto& [buffer, type] : types) {
      INFO(buffer);
      CHECK(named.at(buffer)->type == type);
    }
    double third = 0;
    std::memcpy(&third, named.at("third")->bytes.data(), sizeof third);
    CHECK(third == 1.0 / 3 / 3 / 3);  // to the bit
  }
}

TEST_CASE("What a network of one's own cannot be is refused in a sentence") {
  const auto complaint = [](auto change, ObjectiveSpec spec = spec_for(4, 5)) {
    TorchTask task = odd_task();
    change(task, spec);
    return refused(spec, std::move(task));
  };
  using Task = TorchTask;
  using Spec = ObjectiveSpec;
  CHECK_THAT(complaint([](Task& t, Spec&) { t.make = {}; }), Contains("needs make"));
  CHECK_THAT(complaint([](Task& t, Spec&) { t.train = {}; }), Contains("training samples"));
  CHECK_THAT(complaint([](Task&, Spec& s) { s.batch = 41; }), Contains("batch is 41"));
  CHECK_THAT(complaint([](Task&, Spec& s) { s.ranks = 41; }), Contains("ranks"));
  CHECK_THAT(complaint([](Task& t, Spec&) {
               t.make = [] { return network_of(std::make_shared<torch::nn::ReLUImpl>()); };
             }),
             Contains("no parameters"));
  CHECK_THAT(complaint([](Task& t, Spec&) {
               t.make = [] {
                 auto net = std::make_shared<torch::nn::LinearImpl>(4, 2);
                 net->to(torch::kDouble);
                 return network_of(net);
               };
             }),
             Contains("parameter weight is Double on cpu, accepted: fp32"));
  CHECK_THAT(complaint([](Task& t, Spec&) {
               t.make = [] { return network_of(std::make_shared<torch::nn::LinearImpl>(5, 2)); };
             }),
             Contains("mat1 and mat2 shapes cannot be multiplied"));
  CHECK_THAT(complaint([](Task& t, Spec&) {
               t.make = []() -> TorchNetwork { throw std::runtime_error("no layers left"); };
             }),
             Contains("no layers left"));
  CHECK_THAT(complaint([](Task& t, Spec&) {
               t.make = [n = std::make_shared<int>(0)] {
                 auto net = std::make_shared<torch::nn::LinearImpl>(4, 2);
                 const torch::NoGradGuard no_gradients;
                 net->bias.fill_((*n)++);
                 return network_of(net);
               };
             }),
             Contains("networks that differ"));
  CHECK_THAT(complaint([](Task& t, Spec&) {
               t.loss = [](const at::Tensor& out, const at::Tensor&) { return out; };
             }),
             Contains("the loss has 4 numbers"));
}

TEST_CASE("A set of torch::data and a callable that fills tensors give the same samples") {
  struct Ramp : torch::data::datasets::Dataset<Ramp> {
    torch::data::Example<> get(size_t k) override {
      return {torch::full({4}, static_cast<float>(k)), torch::tensor(static_cast<int64_t>(k % 2))};
    }
    torch::optional<size_t> size() const override { return 40; }
  };
  TorchTask set = odd_task(), filled = odd_task();
  set.train = TorchData::from(Ramp());
  filled.train.size = 40;
  filled.train.batch = [](std::span<const uint32_t> rows) {
    const auto n = static_cast<int64_t>(rows.size());
    TorchBatch batch{torch::empty({n, 4}), torch::empty({n}, torch::kLong)};
    for (int64_t k = 0; k < n; ++k) {
      batch.inputs[k].fill_(static_cast<float>(rows[static_cast<size_t>(k)]));
      batch.targets[k] = static_cast<int64_t>(rows[static_cast<size_t>(k)] % 2);
    }
    return batch;
  };
  const auto one = made_of(spec_for(4, 5), set), two = made_of(spec_for(4, 5), filled);
  CHECK(gradient_at(*one, 0, 3, 2, beginning(*one)) == gradient_at(*two, 0, 3, 2, beginning(*two)));
}

TEST_CASE("What a network of one's own throws in a gradient is one line") {
  struct Tired : torch::nn::Module {
    torch::nn::Linear fc{4, 2};
    Tired() { register_module("fc", fc); }
    at::Tensor forward(const at::Tensor& x) {
      return x.size(0) == 5 ? fc(x.flatten()) : fc(x);  // only a batch of five is too much
    }
  };
  TorchTask task = odd_task();
  task.make = [] { return network_of(std::make_shared<Tired>()); };
  const auto objective = made_of(spec_for(4, 5), task);
  try {
    gradient_at(*objective, 0, 0, 0, beginning(*objective));
    FAIL("it did not throw");
  } catch (const std::exception& e) {
    CHECK_THAT(e.what(), Contains("shapes cannot be multiplied"));
    CHECK(std::string(e.what()).find('\n') == std::string::npos);
  }
}

TEST_CASE("A TorchScript file trains on a set of the registry and on samples from a file") {
  const Scratch scratch;
  write_optdigits(scratch, 200, 40);
  const std::string script = scratch.path("net.pt");
  write_script(script, 64, 10);
  ObjectiveSpec spec = spec_for(2, 8);
  spec.model = script;
  spec.dataset = "optdigits";
  spec.data_dir = scratch.path();
  const auto objective = made(spec);
  Floats x = beginning(*objective), g(x.size());
  const double before = objective->evaluate(0, -1, vec(x)).accuracy;
  for (uint64_t step = 0; step < 200; ++step) {
    objective->gradient(0, 0, step, vec(x), vec(g));
    for (size_t k = 0; k < x.size(); ++k)
      x[k] -= 0.05f * g[k];
  }
  CHECK(objective->evaluate(0, -1, vec(x)).accuracy > std::max(0.85, before));
  CHECK(statistics_of(*objective, 0) == Floats{200});
  CHECK(statistics_of(*objective, 1) == Floats{0});

  std::vector<float> inputs(30 * 3), targets(30);
  for (size_t k = 0; k < inputs.size(); ++k)
    inputs[k] = static_cast<float>(k % 7) - 3;
  for (size_t k = 0; k < targets.size(); ++k)
    targets[k] = 2 * inputs[3 * k] - inputs[3 * k + 1] + 0.5f;
  const std::string own = scratch.path("own.safetensors");
  REQUIRE(write_safetensors(own, {{"inputs", {30, 3}, TensorType::f32, inputs.data()},
                                  {"targets", {30}, TensorType::f32, targets.data()}}));
  write_script(script, 3, 1);
  spec.dataset = own;
  for (const std::string& model : {script, std::string("linear")}) {
    spec.model = model;
    const auto regression = made(spec);
    Floats w = beginning(*regression), slope(w.size());
    for (uint64_t step = 0; step < 400; ++step) {
      regression->gradient(0, static_cast<int>(step % 2), step / 2, vec(w), vec(slope));
      for (size_t k = 0; k < w.size(); ++k)
        w[k] -= 0.05f * slope[k];
    }
    const Evaluation end = regression->evaluate(1, -1, vec(w));
    INFO(model << ", loss " << end.loss);
    CHECK(end.loss < 1e-4);
    CHECK(std::isnan(end.accuracy));
  }
  spec.loss = "cross_entropy";
  CHECK_THAT(refusal(spec), Contains("accepted: one whole number a sample"));
  spec.loss = "hinge";
  CHECK_THAT(refusal(spec), Contains("accepted: auto, cross_entropy, mse"));
}

TEST_CASE("A TorchScript file that is none, cut or of other samples is refused in one line") {
  const Scratch scratch;
  write_optdigits(scratch, 100, 20);
  const std::string script = scratch.path("net.pt");
  ObjectiveSpec spec = spec_for(2, 8);
  spec.dataset = "optdigits";
  spec.data_dir = scratch.path();
  spec.model = script;
  const auto complaint = [&] {
    const std::string said = refusal(spec);
    CHECK(said.find('\n') == std::string::npos);
    return said;
  };
  CHECK_THAT(complaint(), Contains("net.pt"));
  scratch.file("net.pt", std::string("no script at all"));
  CHECK_THAT(complaint(), Contains("the network cannot be made"));
  const float one = 1;
  REQUIRE(write_state_dict(script, {{"weight", {1}, TensorType::f32, &one}}));
  CHECK_THAT(complaint(), Contains("has tensors and no network, accepted"));
  write_script(script, 64, 10);
  const Bytes good = read_raw(script);
  for (size_t part = 0; part < 40; ++part) {
    scratch.file(
        "net.pt",
        Bytes(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(good.size() * part / 40)));
    complaint();
  }
  write_script(script, 63, 10);
  CHECK_THAT(complaint(), Contains("shapes cannot be multiplied"));
}

TEST_CASE("A gradient for which there is no memory is tried twice, and the next one is whole") {
  const auto failures = std::make_shared<int>(0);
  TorchTask task = odd_task();
  task.loss = [failures](const at::Tensor& scores, const at::Tensor& classes) {
    const at::Tensor loss = cross_entropy(scores, classes);
    if (*failures == 0) return loss;
    --*failures;
    loss.backward();  // what is queued already stays
    throw c10::OutOfMemoryError({__func__, __FILE__, __LINE__}, "out of memory");
  };
  const auto failing = made_of(spec_for(4, 5), std::move(task));
  const auto whole = made_of(spec_for(4, 5), odd_task());
  Floats x = beginning(*whole), g(x.size()), expected(x.size());
  const auto same_as_whole = [&](uint64_t index) {
    double loss = 0;
    failing->queue_gradient(1, nullptr, 2, index, vec(x), vec(g), &loss);
    failing->gradient_came(1, 2);
    CHECK(loss == whole->gradient(0, 2, index, vec(x), vec(expected)));
    CHECK(g == expected);
    CHECK(statistics_of(*failing, 2) == statistics_of(*whole, 2));
  };
  same_as_whole(0);
  *failures = 1;
  same_as_whole(1);
  *failures = 2;
  double loss = 0;
  CHECK_THROWS_AS(failing->queue_gradient(1, nullptr, 2, 2, vec(x), vec(g), &loss), NoMemoryLeft);
  CHECK(*failures == 0);
  same_as_whole(2);
}

TEST_CASE("What a network has on a GPU is left alone when that is lost, and freed when not") {
  for (const bool is_lost : {false, true}) {
    std::weak_ptr<int> there;
    TorchTask task = odd_task();
    task.make = [&there] {
      TorchNetwork network = network_of(std::make_shared<Odd>());
      const auto kept = std::make_shared<int>(0);
      there = kept;
      network.forward = [kept, forward = network.forward](const at::Tensor& inputs) {
        return forward(inputs);
      };
      return network;
    };
    auto objective = made_of(spec_for(4, 5), std::move(task));
    if (is_lost) objective->lose_gpu();
    REQUIRE_FALSE(there.expired());
    objective.reset();
    CHECK(there.expired() == !is_lost);
  }
}

namespace {

std::string said_with_libraries(const std::string& folders) {
  const std::string program = std::filesystem::read_symlink("/proc/self/exe");
  const std::string command = "LD_LIBRARY_PATH=" + folders + " " + program + " 'no such case' 2>&1";
  FILE* const output = popen(command.c_str(), "r");
  REQUIRE(output != nullptr);
  std::string said;
  for (int c = std::fgetc(output); c != EOF; c = std::fgetc(output))
    said += static_cast<char>(c);
  pclose(output);
  return said;
}

}  // namespace

TEST_CASE("LibTorch's half for GPUs is opened as the program starts, where there is a driver") {
  if (!GRAPEVINE_TORCH_CUDA) return test::skipped("this build is without LibTorch's half for GPUs");
  const std::string folder = GRAPEVINE_BINARY_DIR "/tests/cuda_half/";
  const std::string both = said_with_libraries(folder + "driver:" + folder + "torch");
  const size_t driver = both.find("a driver is opened\n");
  const size_t half = both.find("LibTorch's half for GPUs is opened\n");
  REQUIRE(half != std::string::npos);
  CHECK(driver < half);
  if (dlopen("libcuda.so.1", RTLD_LAZY) != nullptr) return;  // a real one
  CHECK(said_with_libraries(folder + "torch").find("is opened") == std::string::npos);
}

TEST_CASE("What LibTorch warns of at every gradient is said once") {
  TorchTask task = odd_task();
  task.loss = [](const at::Tensor& scores, const at::Tensor& classes) {
    TORCH_WARN("these weights are in pieces");
    return cross_entropy(scores, classes);
  };
  const auto objective = made_of(spec_for(4, 5), std::move(task));
  const Floats x = beginning(*objective);
  std::ostringstream said;
  std::streambuf* const before = std::cerr.rdbuf(said.rdbuf());
  for (uint64_t index = 0; index < 5; ++index)
    gradient_at(*objective, 0, 1, index, x);
  std::cerr.rdbuf(before);
  const std::string text = said.str();
  const size_t first = text.find("these weights are in pieces");
  REQUIRE(first != std::string::npos);
  CHECK(text.find("these weights", first + 1) == std::string::npos);
}

TEST_CASE("In bf16 layers round, and parameters, gradients and what is aside do not") {
  const Scratch scratch;
  write_optdigits(scratch, 100, 20);
  ObjectiveSpec spec = spec_for(2, 8);
  spec.model = "mlp";
  spec.dataset = "optdigits";
  spec.data_dir = scratch.path();
  const auto whole = made(spec);
  spec.precision = kBf16;
  const auto rounded = made(spec);
  const Floats x = beginning(*whole);
  const Floats g = gradient_at(*whole, 0, 1, 3, x), near = gradient_at(*rounded, 0, 1, 3, x);
  double off = 0, squares = 0;
  for (size_t k = 0; k < g.size(); ++k) {
    off += (near[k] - g[k]) * (near[k] - g[k]);
    squares += g[k] * g[k];
  }
  CHECK(off > 0);
  CHECK(off < 1e-2 * squares);  // a number is off by up to 0.004 of it
  CHECK(gradient_at(*rounded, 1, 1, 3, x) == near);
  CHECK(gradient_at(*whole, 0, 1, 3, x) == g);  // nothing of it stays with the thread
  Floats at = x;
  CHECK(rounded->evaluate(0, -1, vec(at)).loss == whole->evaluate(0, -1, vec(at)).loss);

  spec.precision = "fp8";
  CHECK_THAT(refusal(spec), Contains("fp8") && Contains("fp32, bf16"));
  CHECK_THAT(refused(spec, odd_task()), Contains("precision"));
}

}  // namespace grapevine
