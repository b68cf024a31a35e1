// A stranger's program: a whole run, through the public header alone.
#include <grapevine/grapevine.hpp>

#include <cstdio>

int main() {
  grapevine::Settings settings;
  settings.clock = grapevine::Clock::simulated;
  settings.gradients = 16000;
  settings.rule.optimizer = {};
  settings.objective.objective = "quadratic";
  settings.objective.mu = 0.5;
  auto result = grapevine::run(settings);
  if (!result) return std::fprintf(stderr, "%s\n", result.error().message.c_str()), 1;
  const auto mean = grapevine::mean_parameters(result->outcome);
  const double loss = result->objective->evaluate(0, -1, mean).loss;
  std::printf("%zu ranks took %lu gradients: the loss of their mean is %s 1e-3\n",
              result->outcome.parameters.size(), result->outcome.gradients,
              loss < 1e-3 ? "below" : "not below");
}
