// Images: a small convolutional network on Fashion-MNIST, 8 ranks on a ring, the wall clock.
//
// A small version of the main job: 2,000 gradients instead of 40,000. A pool of threads computes
// them with LibTorch, the ranks exchange as often as they compute, and the average of their models
// is tested. If LibTorch or the data set is missing, the program says so and ends.
//
// To build and run: ninja -C build/release 4_images && build/release/bin/4_images
// It prints:
//
//   2000 gradients, at most one a rank more: yes
//   ranks exchanged while they computed: yes
//   accuracy of the averaged model above 0.75: yes
#include "examples/example.hpp"

using namespace grapevine;

int main() {
  Settings settings;  // a2cid2 on a ring, cnn-small, Fashion-MNIST, batches of 16
  settings.ranks = 8;
  settings.gradients = 2000;
  auto made = make_objective(settings);
  if (!made) {
    std::printf("skipped: %s\n", made.error().message.c_str());
    return 0;
  }
  const std::shared_ptr<Objective> objective = std::move(*made);
  const Outcome outcome = example::or_exit(run(settings, objective)).outcome;

  const double accuracy = objective->evaluate(0, -1, mean_parameters(outcome)).accuracy;
  const double per_gradient =
      2 * static_cast<double>(outcome.exchanges) / static_cast<double>(outcome.gradients);
  std::fprintf(stderr, "exchanges per rank and gradient %.2f, accuracy %.4f\n", per_gradient,
               accuracy);
  const bool all = outcome.gradients >= 2000 && outcome.gradients < 2000 + 8;
  std::printf("2000 gradients, at most one a rank more: %s\n", all ? "yes" : "no");
  std::printf("ranks exchanged while they computed: %s\n", per_gradient > 0.5 ? "yes" : "no");
  std::printf("accuracy of the averaged model above 0.75: %s\n", accuracy > 0.75 ? "yes" : "no");
}
