// The local step alone, against the papers' loops in plain doubles.
#include <cmath>
#include <utility>
#include <vector>

#include "actors/algorithms/optimizer.hpp"
#include "tests/catch.hpp"

using namespace grapevine;

namespace {

constexpr size_t kSize = 3;
using Numbers = std::vector<double>;

double gradient(int step, size_t k) { return std::sin(1.3 * step + 2.1 * static_cast<double>(k)); }

/// x after so many steps on gradient(), from (1, 2, 3).
Numbers after(int steps, const OptimizerSettings& settings, double lr) {
  const auto layout = ParameterLayout::flat(kSize, DType::f64);
  Optimizer optimizer({}, layout, settings);
  Numbers x{1, 2, 3}, g(kSize);
  for (int t = 1; t <= steps; ++t) {
    for (size_t k = 0; k < kSize; ++k)
      g[k] = gradient(t, k);
    optimizer.step({}, 0, lr, ConstVec(g.data(), kSize, DType::f64),
                   Vec(x.data(), kSize, DType::f64), {}, {});
  }
  return x;
}

}  // namespace

TEST_CASE("Adam's first step has the size of the learning rate, however large the gradient is") {
  for (const OptimizerKind kind : {OptimizerKind::adam, OptimizerKind::adamw}) {
    const auto layout = ParameterLayout::flat(4, DType::f64);
    Optimizer optimizer({}, layout, {.kind = kind});
    const double g[] = {1e-3, -7, 250, -1e6};
    double x[4] = {};
    optimizer.step({}, 0, 0.01, ConstVec(g, 4, DType::f64), Vec(x, 4, DType::f64), {}, {});
    for (size_t k = 0; k < 4; ++k)
      CHECK(x[k] == Approx(g[k] > 0 ? -0.01 : 0.01).epsilon(2e-5));
  }
}

TEST_CASE(
    "Adam and AdamW take the steps of algorithm 1 of Kingma, Ba and 2 of Loshchilov, Hutter") {
  const double lr = 0.05, decay = 0.1;
  for (const auto& [decoupled, beta2] :
       {std::pair{false, 0.999}, std::pair{true, 0.999}, std::pair{true, 0.95}}) {
    Numbers x{1, 2, 3}, m(kSize), v(kSize);
    for (int t = 1; t <= 30; ++t) {
      for (size_t k = 0; k < kSize; ++k) {
        const double g = gradient(t, k) + (decoupled ? 0 : decay * x[k]);
        m[k] = 0.9 * m[k] + 0.1 * g;
        v[k] = beta2 * v[k] + (1 - beta2) * g * g;
        const double mean = m[k] / (1 - std::pow(0.9, t));
        const double square = v[k] / (1 - std::pow(beta2, t));
        x[k] -= lr * (mean / (std::sqrt(square) + 1e-8) + (decoupled ? decay * x[k] : 0));
      }
    }
    const auto kind = decoupled ? OptimizerKind::adamw : OptimizerKind::adam;
    const Numbers ours = after(30, {.weight_decay = decay, .kind = kind, .beta2 = beta2}, lr);
    for (size_t k = 0; k < kSize; ++k)
      CHECK(ours[k] == Approx(x[k]).epsilon(1e-12));
  }
}

TEST_CASE("momentum and Nesterov's are those of Sutskever et al. with decay in the gradient") {
  const double lr = 0.05, decay = 0.1, momentum = 0.8;
  for (const bool nesterov : {false, true}) {
    Numbers x{1, 2, 3}, v(kSize);
    for (int t = 1; t <= 30; ++t) {
      for (size_t k = 0; k < kSize; ++k) {
        const double g = gradient(t, k) + decay * x[k];
        v[k] = momentum * v[k] + g;
        x[k] -= lr * (nesterov ? g + momentum * v[k] : v[k]);
      }
    }
    const Numbers ours =
        after(30, {.momentum = momentum, .weight_decay = decay, .nesterov = nesterov}, lr);
    for (size_t k = 0; k < kSize; ++k)
      CHECK(ours[k] == Approx(x[k]).epsilon(1e-12));
  }
}
