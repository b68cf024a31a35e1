// A stranger's network: a module of torch's, trained to a line.
#include <grapevine/torch.hpp>
#include <torch/nn.h>

#include <cstdio>

using namespace grapevine;

int main() {
  const at::Tensor inputs = at::linspace(-1, 1, 200).view({200, 1}), targets = 3 * inputs + 1;
  Settings settings;
  settings.ranks = 4;
  settings.gradients = 2000;
  settings.objective.batch = 10;
  const auto objective = torch_objective(
      settings, [] { return std::make_shared<torch::nn::LinearImpl>(1, 1); },
      TorchData::of(inputs, targets), TorchData::of(inputs, targets), mean_square);
  if (!objective) return std::fprintf(stderr, "%s\n", objective.error().message.c_str()), 1;
  const auto result = run(settings, *objective);
  if (!result) return std::fprintf(stderr, "%s\n", result.error().message.c_str()), 1;
  const double loss = (*objective)->evaluate(0, -1, mean_parameters(result->outcome)).loss;
  std::printf("a module of torch's is %s the line\n", loss < 0.05 ? "near" : "far from");
}
