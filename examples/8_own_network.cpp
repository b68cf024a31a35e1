// Your own network: any torch::nn::Module, here a small one for images, on eight ranks.
//
// The module is made once per computing thread; the ranks average its parameters. Two functions
// that fill tensors provide the data: here from a data set of the library; your own tensors, or a
// data set of torch::data, work as well. The loss is cross-entropy. The program also trains the
// built-in network on the same job. If LibTorch or the data set is missing, it says so and ends.
//
// To build and run: ninja -C build/release 8_own_network && build/release/bin/8_own_network
// It prints:
//
//   2000 gradients, at most one a rank more: yes
//   accuracy of the averaged model above 0.75: yes
//   as good as the zoo's network, within 0.03: yes
#include <torch/nn.h>
#include <grapevine/torch.hpp>

#include "examples/example.hpp"

using namespace grapevine;

struct Net : torch::nn::Module {
  torch::nn::Conv2d one{torch::nn::Conv2dOptions(1, 16, 3).padding(1)};
  torch::nn::Conv2d two{torch::nn::Conv2dOptions(16, 32, 3).padding(1)};
  torch::nn::Linear three{32 * 7 * 7, 64}, four{64, 10};

  Net() {
    register_module("one", one), register_module("two", two);
    register_module("three", three), register_module("four", four);
  }
  at::Tensor forward(at::Tensor x) {
    x = at::max_pool2d(one(x), 2).relu();
    x = at::max_pool2d(two(x), 2).relu();
    return four(three(x.flatten(1)).relu());
  }
};

double accuracy_of(const RunResult& result) {
  return result.objective->evaluate(0, -1, mean_parameters(result.outcome)).accuracy;
}

int main() {
  auto read = read_data_set("fashion-mnist", "");
  if (!read) return std::printf("skipped: %s\n", read.error().message.c_str()), 0;
  const auto set = std::make_shared<const DataSet>(std::move(*read));
  Settings settings;  // a2cid2 on a ring, batches of 16
  settings.ranks = 8;
  settings.gradients = 2000;
  const auto objective = example::or_exit(torch_objective(
      settings, [] { return std::make_shared<Net>(); }, TorchData::of(set, false),
      TorchData::of(set, true)));
  const RunResult own = example::or_exit(run(settings, objective));
  const double accuracy = accuracy_of(own);
  const double zoo = accuracy_of(example::or_exit(run(settings)));  // cnn-small: the same layers
  std::fprintf(stderr, "accuracy %.4f, the zoo's %.4f\n", accuracy, zoo);
  const bool all = own.outcome.gradients >= 2000 && own.outcome.gradients < 2000 + 8;
  std::printf("2000 gradients, at most one a rank more: %s\n", all ? "yes" : "no");
  std::printf("accuracy of the averaged model above 0.75: %s\n", accuracy > 0.75 ? "yes" : "no");
  std::printf("as good as the zoo's network, within 0.03: %s\n",
              accuracy > zoo - 0.03 ? "yes" : "no");
}
