// The base of the analytic objectives: one fp64 tensor, no data, no accuracy, a start at 0.
#pragma once
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "kernels/base/random.hpp"
#include "models/files/file.hpp"
#include "models/files/model_file.hpp"
#include "models/objective.hpp"

namespace grapevine {

class Analytic : public Objective {
 public:
  Analytic(const ObjectiveSpec& spec, ParameterLayout layout)
      : spec_(spec), layout_(std::move(layout)) {}
  explicit Analytic(const ObjectiveSpec& spec)
      : Analytic(spec, ParameterLayout::flat(static_cast<size_t>(spec.dim), DType::f64)) {}

  const ParameterLayout& layout() const override { return layout_; }
  uint64_t gradients_per_pass(int) const override { return 0; }

  void initial_point(int rank, Vec x) const override {
    checked(rank);
    GV_CHECK(x.size == dim());
    std::fill_n(x.as<double>(), dim(), 0.0);
  }

  Status save_model(const std::string& directory, ConstVec x) override {
    return write_safetensors(directory + "/model.safetensors", tensors_of(layout_, x));
  }

 protected:
  size_t dim() const { return layout_.size(); }
  size_t ranks() const { return static_cast<size_t>(spec_.ranks); }
  uint32_t checked(int rank) const {
    GV_CHECK(rank >= 0);
    GV_CHECK(rank < spec_.ranks);
    return static_cast<uint32_t>(rank);
  }

  /// Adds the noise of gradient `index` to g.
  void add_noise(uint32_t rank, uint64_t index, double* g) const {
    if (spec_.noise == 0) return;
    Random noise(spec_.seed, rank, Purpose::gradient_noise, index);
    for (size_t k = 0; k < dim(); ++k)
      g[k] += spec_.noise * noise.normal();
  }

  /// An evaluation without an accuracy.
  static Evaluation only_loss(double loss) {
    return {loss, std::numeric_limits<double>::quiet_NaN()};
  }

  /// A Gaussian direction of the given length: the position of the common optimum.
  std::vector<double> drawn_optimum(double length) const {
    Random random(spec_.seed, 0, Purpose::problem);
    std::vector<double> x(dim());
    double squares = 0;
    for (double& c : x)
      c = random.normal();
    for (const double c : x)
      squares += c * c;
    for (double& c : x)
      c *= length / std::sqrt(squares);
    return x;
  }

  /// A Gaussian vector per rank, ranks x dim.
  std::vector<double> drawn_offsets() const {
    std::vector<double> offsets(ranks() * dim());
    for (size_t r = 0; r < ranks(); ++r) {
      Random random(spec_.seed, static_cast<uint32_t>(r), Purpose::problem, 1);
      for (size_t k = 0; k < dim(); ++k)
        offsets[r * dim() + k] = random.normal();
    }
    return offsets;
  }

  /// Gaussian vectors with sum 0 over the ranks and a mean square of zeta2.
  std::vector<double> centred_offsets() const;

  const ObjectiveSpec spec_;
  const ParameterLayout layout_;
};

/// Errors (user): dim, noise, zeta2 or r0 is out of range; zeta2 with one rank.
Status check_analytic(const ObjectiveSpec&);

}  // namespace grapevine
