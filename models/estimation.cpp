// Scalar, whose numbers can be checked exactly, and mean estimation.
#include "models/analytic.hpp"

#include <fmt/core.h>

#include "kernels/base/spec.hpp"
#include "models/analytic_base.hpp"

namespace grapevine {
namespace {

class Scalar final : public Analytic {
 public:
  explicit Scalar(const ObjectiveSpec& spec)
      : Analytic(spec, ParameterLayout::flat(1, DType::f64)) {
    double weighted = 0, sum = 0;
    for (int i = 0; i < spec.ranks; ++i) {
      const double slope = curvature(i);
      weighted += slope * own_optimum(i);
      sum += slope;
    }
    optimum_ = weighted / sum;
  }

  double gradient(int, int rank, uint64_t index, ConstVec x, Vec g) override {
    const uint32_t r = checked(rank);
    GV_CHECK(x.size == 1u);
    GV_CHECK(g.size == 1u);
    const double away = *x.as<double>() - own_optimum(rank);
    double* out = g.as<double>();
    *out = curvature(rank) * away;
    add_noise(r, index, out);
    return 0.5 * curvature(rank) * away * away;
  }

  Evaluation evaluate(int, int, ConstVec x) override {
    GV_CHECK(x.size == 1u);
    return only_loss(std::abs(*x.as<double>() - optimum_));
  }

  std::string description() const override {
    return fmt::format("scalar quadratics of {} ranks, optimum {}", spec_.ranks, shown(optimum_));
  }

 private:
  double curvature(int i) const {
    return spec_.ranks == 1 ? 0.25 : 0.25 + 0.75 * i / (spec_.ranks - 1);
  }
  double own_optimum(int i) const {
    const int64_t n = spec_.ranks;
    return static_cast<double>(7 * int64_t{i} % n) - static_cast<double>(n - 1) / 2;
  }

  double optimum_ = 0;
};

class MeanEstimation final : public Analytic {
 public:
  explicit MeanEstimation(const ObjectiveSpec& spec)
      : Analytic(spec), mean_(drawn_optimum(spec.r0)) {
    if (spec.zeta2 > 0) offsets_ = centred_offsets();
  }

  double gradient(int, int rank, uint64_t index, ConstVec x, Vec g) override {
    const uint32_t r = checked(rank);
    GV_CHECK(x.size == dim());
    GV_CHECK(g.size == dim());
    const double* at = x.as<double>();
    double* out = g.as<double>();
    Random random(spec_.seed, r, Purpose::gradient_noise, index);
    double squares = 0;
    for (size_t k = 0; k < dim(); ++k) {
      const double own = mean_[k] + (offsets_.empty() ? 0 : offsets_[r * dim() + k]);
      out[k] = at[k] - (own + random.normal());
      squares += out[k] * out[k];
    }
    return 0.5 * squares;
  }

  Evaluation evaluate(int, int, ConstVec x) override {
    GV_CHECK(x.size == dim());
    const double* at = x.as<double>();
    double squares = 0;
    for (size_t k = 0; k < dim(); ++k)
      squares += (at[k] - mean_[k]) * (at[k] - mean_[k]);
    return only_loss(squares / static_cast<double>(dim()));
  }

  std::string description() const override {
    return fmt::format("mean estimation, {} coordinates, zeta2 {}, r0 {}", dim(),
                       shown(spec_.zeta2), shown(spec_.r0));
  }

 private:
  std::vector<double> mean_;
  std::vector<double> offsets_;  // ranks x dim; empty when zeta2 is 0
};

}  // namespace

Result<std::unique_ptr<Objective>> make_scalar(const ObjectiveSpec& spec) {
  ObjectiveSpec alone = spec;  // scalar has a disagreement and a size of its own
  alone.zeta2 = 0;
  alone.dim = 1;
  if (const Status ok = check_analytic(alone); !ok) return ok.error();
  return std::unique_ptr<Objective>(std::make_unique<Scalar>(alone));
}

Result<std::unique_ptr<Objective>> make_mean(const ObjectiveSpec& spec) {
  if (const Status ok = check_analytic(spec); !ok) return ok.error();
  return std::unique_ptr<Objective>(std::make_unique<MeanEstimation>(spec));
}

}  // namespace grapevine
