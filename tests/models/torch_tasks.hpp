// Networks of a user's own with all that is not plain: as modules, with data, and as scripts.
#pragma once
#include <torch/script.h>
#include <torch/torch.h>

#include <string>
#include <vector>

#include "models/network/torch_objective.hpp"

namespace grapevine::test {

/// A norm, a tied weight, a frozen one, an unused one, a mask.
struct Odd : torch::nn::Module {
  torch::nn::Linear in{4, 4}, out{4, 2};
  torch::nn::BatchNorm1d norm{4};
  at::Tensor again, frozen, unused, mask;
  Odd() {
    register_module("in", in), register_module("norm", norm), register_module("out", out);
    again = register_parameter("again", in->weight);
    frozen = register_parameter("frozen", torch::full({4}, 2.0f), false);
    unused = register_parameter("unused", torch::ones({3}));
    mask = register_buffer("mask", torch::ones({4}, torch::kBool));
  }
  at::Tensor forward(const at::Tensor& x) {
    return out(at::matmul(norm(in(x)), again) * frozen * mask);
  }
};

/// 40 samples of four features, and 12 to test with.
inline TorchTask odd_task() {
  at::manual_seed(3);
  TorchTask task;
  task.make = [] { return network_of(std::make_shared<Odd>()); };
  task.train = TorchData::of(torch::randn({40, 4}) + 3, torch::randint(2, {40}));
  task.test = TorchData::of(torch::randn({12, 4}) + 3, torch::randint(2, {12}));
  return task;
}

/// A script as Python's torch.jit.script writes it: one layer, and a norm's like.
inline void write_script(const std::string& path, int features, int outputs) {
  at::manual_seed(4);
  torch::jit::Module script("Script");
  script.register_attribute("training", c10::BoolType::get(), true);
  script.register_parameter(
      "weight", (torch::randn({outputs, features}) * 0.1).set_requires_grad(true), false);
  script.register_parameter("bias", torch::zeros({outputs}).set_requires_grad(true), false);
  script.register_buffer("seen", torch::zeros({1}));
  script.define(R"(
def forward(self, x):
    if self.training:
        self.seen.add_(1.0)
    return torch.linear(torch.flatten(x, 1), self.weight, self.bias)
)");
  script.save(path);
}

inline std::vector<float> statistics_of(const Objective& objective, int rank) {
  std::vector<float> out(objective.statistics().size());
  objective.read_statistics(rank, {out.data(), out.size(), DType::f32});
  return out;
}

}  // namespace grapevine::test
