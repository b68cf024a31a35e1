#include "models/analytic.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>

#include "kernels/random.hpp"
#include "models/model_file.hpp"

namespace grapevine {
namespace {

std::string shown(double value) {
  std::ostringstream out;
  out << value;
  return out.str();
}

/// What the two have in common: one unnamed fp64 vector, no data, no accuracy.
class Analytic : public Objective {
 public:
  explicit Analytic(const ObjectiveSpec& spec)
      : spec_(spec),
        layout_(ParameterLayout::flat(static_cast<size_t>(spec.dim), DType::f64)) {}

  const ParameterLayout& layout() const override { return layout_; }
  uint64_t gradients_per_pass(int) const override { return 0; }

  Status save_model(const std::string& directory, ConstVec x) override {
    return write_safetensors(directory + "/model.safetensors", tensors_of(layout_, x));
  }

 protected:
  size_t dim() const { return layout_.size(); }
  uint32_t checked(int rank) const {
    GV_CHECK(rank >= 0);
    GV_CHECK(rank < spec_.ranks);
    return static_cast<uint32_t>(rank);
  }

  const ObjectiveSpec spec_;
  const ParameterLayout layout_;
};

class Consensus final : public Analytic {
 public:
  using Analytic::Analytic;

  bool has_gradients() const override { return false; }

  void initial_point(int rank, Vec x) const override {
    GV_CHECK(x.size == dim());
    Random random(spec_.seed, checked(rank), Purpose::initial_point);
    double* to = x.as<double>();
    for (size_t k = 0; k < dim(); ++k) to[k] = random.normal();
  }

  double gradient(int, int, uint64_t, ConstVec, Vec) override {
    GV_CHECK(has_gradients());
    return 0;
  }

  Evaluation evaluate(int, int, ConstVec) override {
    return {0, std::numeric_limits<double>::quiet_NaN()};
  }

  std::string description() const override {
    return "consensus of Gaussian points, " + std::to_string(dim()) + " coordinates";
  }
};

class Quadratic final : public Analytic {
 public:
  explicit Quadratic(const ObjectiveSpec& spec)
      : Analytic(spec), curvature_(dim()), optimum_(dim()) {
    for (size_t k = 0; k < dim(); ++k) {
      const double along = dim() == 1 ? 0 : static_cast<double>(k) / static_cast<double>(dim() - 1);
      curvature_[k] = spec.mu == 0 ? 0 : spec.mu + (1 - spec.mu) * along;
    }
    Random random(spec.seed, 0, Purpose::problem);
    for (double& coordinate : optimum_) coordinate = random.normal();
    if (spec.zeta2 > 0) draw_offsets();
  }

  void initial_point(int rank, Vec x) const override {
    checked(rank);
    GV_CHECK(x.size == dim());
    std::fill_n(x.as<double>(), dim(), 0.0);
  }

  double gradient(int, int rank, uint64_t index, ConstVec x, Vec g) override {
    const uint32_t r = checked(rank);
    GV_CHECK(x.size == dim());
    GV_CHECK(g.size == dim());
    const double* at = x.as<double>();
    double* out = g.as<double>();
    const double* offset = offsets_.empty() ? nullptr : offsets_.data() + r * dim();
    Random noise(spec_.seed, r, Purpose::gradient_noise, index);
    double loss = 0;
    for (size_t k = 0; k < dim(); ++k) {
      const double away = at[k] - optimum_[k] - (offset ? offset[k] : 0);
      loss += 0.5 * curvature_[k] * away * away;
      out[k] = curvature_[k] * away + (spec_.noise > 0 ? spec_.noise * noise.normal() : 0);
    }
    return loss;
  }

  Evaluation evaluate(int, int, ConstVec x) override {
    GV_CHECK(x.size == dim());
    const double* at = x.as<double>();
    double excess = 0;
    for (size_t k = 0; k < dim(); ++k) {
      const double away = at[k] - optimum_[k];
      excess += 0.5 * curvature_[k] * away * away;
    }
    return {excess, std::numeric_limits<double>::quiet_NaN()};
  }

  std::string description() const override {
    return "quadratics, " + std::to_string(dim()) + " coordinates, mu " + shown(spec_.mu) +
           ", noise " + shown(spec_.noise) + ", zeta2 " + shown(spec_.zeta2);
  }

 private:
  // Every node draws the offsets of all ranks: their sum has to vanish without a message.
  void draw_offsets() {
    const size_t ranks = static_cast<size_t>(spec_.ranks);
    offsets_.resize(ranks * dim());
    std::vector<double> mean(dim(), 0.0);
    for (size_t r = 0; r < ranks; ++r) {
      Random random(spec_.seed, static_cast<uint32_t>(r), Purpose::problem, 1);
      for (size_t k = 0; k < dim(); ++k) {
        offsets_[r * dim() + k] = random.normal();
        mean[k] += offsets_[r * dim() + k] / static_cast<double>(ranks);
      }
    }
    double squares = 0;
    for (size_t i = 0; i < offsets_.size(); ++i) {
      offsets_[i] -= mean[i % dim()];
      squares += offsets_[i] * offsets_[i];
    }
    const double factor = std::sqrt(spec_.zeta2 * static_cast<double>(ranks) / squares);
    for (double& offset : offsets_) offset *= factor;
  }

  std::vector<double> curvature_;
  std::vector<double> optimum_;
  std::vector<double> offsets_;  // ranks x dim; empty when zeta2 is 0
};

Status check_dim(const ObjectiveSpec& spec) {
  if (spec.dim >= 1) return Done{};
  return user_error("dim is " + std::to_string(spec.dim) + ", accepted: 1 or more");
}

}  // namespace

Result<std::unique_ptr<Objective>> make_consensus(const ObjectiveSpec& spec) {
  if (const Status ok = check_dim(spec); !ok) return ok.error();
  return std::unique_ptr<Objective>(std::make_unique<Consensus>(spec));
}

Result<std::unique_ptr<Objective>> make_quadratic(const ObjectiveSpec& spec) {
  if (const Status ok = check_dim(spec); !ok) return ok.error();
  if (!(spec.noise >= 0 && std::isfinite(spec.noise))) {
    return user_error("noise is " + shown(spec.noise) + ", accepted: 0 or more");
  }
  if (!(spec.zeta2 >= 0 && std::isfinite(spec.zeta2))) {
    return user_error("zeta2 is " + shown(spec.zeta2) + ", accepted: 0 or more");
  }
  if (!(spec.mu >= 0 && spec.mu <= 1)) {
    return user_error("mu is " + shown(spec.mu) + ", accepted: 0 to 1");
  }
  if (spec.zeta2 > 0 && spec.ranks < 2) {
    return user_error("zeta2 is " + shown(spec.zeta2) +
                      " with 1 rank, accepted: 0, or at least 2 ranks");
  }
  return std::unique_ptr<Objective>(std::make_unique<Quadratic>(spec));
}

}  // namespace grapevine
