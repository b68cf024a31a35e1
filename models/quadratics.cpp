// Random quadratics, whose ranks differ in curvature and optimum, and diagonal quadratics, whose
// ranks differ only in optimum.
#include <fmt/core.h>

#include <array>
#include <numeric>

#include "kernels/base/spec.hpp"
#include "models/analytic.hpp"
#include "models/analytic_base.hpp"
#include "models/dense.hpp"

namespace grapevine {
namespace {

constexpr size_t kMostMatrixDim = 1024;   // with matrices: 4/3 1024^3 operations per rank
constexpr double kMostNumbers = 1 << 27;  // in the matrices of all ranks: 1 GiB

double dot(const double* a, const double* b, size_t size) {
  return std::inner_product(a, a + size, b, 0.0);
}

/// Only H_i = A_i' A_i = V diag(s^2) V', with V uniform, is needed of A_i: f_i(x) is (x - x_i)' H_i
/// (x - x_i), and b_i = A_i x_i.
class Quadratic final : public Analytic {
 public:
  explicit Quadratic(const ObjectiveSpec& spec) : Analytic(spec), optimum_(drawn_optimum(spec.r0)) {
    if (spec.mu < 1) draw_curvatures();
    if (spec.zeta2 > 0) draw_own_optima();
  }

  double gradient(int, int rank, uint64_t index, ConstVec x, Vec g) override {
    const uint32_t r = checked(rank);
    GV_CHECK(x.size == dim());
    GV_CHECK(g.size == dim());
    const double* at = x.as<double>();
    const double* own = own_.empty() ? optimum_.data() : own_.data() + r * dim();
    double* out = g.as<double>();
    double loss = 0;
    if (curvature_.empty()) {
      for (size_t k = 0; k < dim(); ++k)
        out[k] = at[k] - own[k];
      loss = dot(out, out, dim());
    } else {
      std::array<double, kMostMatrixDim> away;
      for (size_t k = 0; k < dim(); ++k)
        away[k] = at[k] - own[k];
      multiply(curvature_of(r), away.data(), out, dim());
      loss = dot(away.data(), out, dim());
    }
    add_noise(r, index, out);
    return loss;
  }

  Evaluation evaluate(int, int, ConstVec x) override {
    GV_CHECK(x.size == dim());
    const double* at = x.as<double>();
    std::vector<double> away(dim());
    for (size_t k = 0; k < dim(); ++k)
      away[k] = at[k] - optimum_[k];
    return only_loss(form(away));
  }

  std::string description() const override {
    return fmt::format("random quadratics, {} coordinates, mu {}, noise {}, zeta2 {}, r0 {}", dim(),
                       shown(spec_.mu), shown(spec_.noise), shown(spec_.zeta2), shown(spec_.r0));
  }

 private:
  std::span<const double> curvature_of(size_t rank) const {
    return {curvature_.data() + rank * dim() * dim(), dim() * dim()};
  }

  /// away' H away.
  double form(const std::vector<double>& away) const {
    if (curvature_.empty()) return dot(away.data(), away.data(), dim());
    std::vector<double> out(dim());
    multiply(mean_curvature_, away.data(), out.data(), dim());
    return dot(away.data(), out.data(), dim());
  }

  void draw_curvatures() {
    std::vector<double> values(dim());
    for (size_t k = 0; k < dim(); ++k) {
      const double along = dim() == 1 ? 0 : static_cast<double>(k) / static_cast<double>(dim() - 1);
      const double singular = spec_.mu + (1 - spec_.mu) * along;
      values[k] = singular * singular;
    }
    mean_curvature_.assign(dim() * dim(), 0.0);
    curvature_.reserve(ranks() * dim() * dim());
    for (size_t r = 0; r < ranks(); ++r) {
      Random random(spec_.seed, static_cast<uint32_t>(r), Purpose::problem, 2);
      const std::vector<double> drawn = rotated_diagonal(values, random);
      curvature_.insert(curvature_.end(), drawn.begin(), drawn.end());
      for (size_t k = 0; k < drawn.size(); ++k) {
        mean_curvature_[k] += drawn[k] / static_cast<double>(ranks());
      }
    }
  }

  /// x_i = x* + scale (o_i - o), with o_i Gaussian and o the common optimum of the o_i: H o =
  /// mean_i H_i o_i. So the gradients at x*, scale H_i (o - o_i), have mean 0.
  void draw_own_optima() {
    own_ = drawn_offsets();
    std::vector<double> common(dim(), 0.0), pull(dim());
    for (size_t r = 0; r < ranks(); ++r) {
      pulled(r, pull);
      for (size_t k = 0; k < dim(); ++k)
        common[k] += pull[k] / static_cast<double>(ranks());
    }
    if (!curvature_.empty()) common = solve_positive(mean_curvature_, common);
    double squares = 0;
    for (size_t r = 0; r < ranks(); ++r) {
      for (size_t k = 0; k < dim(); ++k)
        own_[r * dim() + k] -= common[k];
      pulled(r, pull);
      squares += dot(pull.data(), pull.data(), dim());
    }
    const double scale = std::sqrt(spec_.zeta2 * static_cast<double>(ranks()) / squares);
    for (size_t i = 0; i < own_.size(); ++i)
      own_[i] = optimum_[i % dim()] + scale * own_[i];
  }

  /// pull = H_rank o_rank.
  void pulled(size_t rank, std::vector<double>& pull) const {
    const double* offset = own_.data() + rank * dim();
    if (curvature_.empty()) {
      std::copy_n(offset, dim(), pull.begin());
    } else {
      multiply(curvature_of(rank), offset, pull.data(), dim());
    }
  }

  std::vector<double> optimum_;         // x*
  std::vector<double> own_;             // the x_i, ranks x dim; empty: zeta2 is 0
  std::vector<double> curvature_;       // the H_i, ranks x dim x dim; empty: mu is 1, all are I
  std::vector<double> mean_curvature_;  // H
};

class Diagonal final : public Analytic {
 public:
  explicit Diagonal(const ObjectiveSpec& spec)
      : Analytic(spec), curvature_(dim()), optimum_(dim()) {
    for (size_t k = 0; k < dim(); ++k) {
      const double along = dim() == 1 ? 0 : static_cast<double>(k) / static_cast<double>(dim() - 1);
      curvature_[k] = spec.mu == 0 ? 0 : spec.mu + (1 - spec.mu) * along;
    }
    Random random(spec.seed, 0, Purpose::problem);
    for (double& coordinate : optimum_)
      coordinate = random.normal();
    if (spec.zeta2 > 0) offsets_ = centred_offsets();
  }

  double gradient(int, int rank, uint64_t index, ConstVec x, Vec g) override {
    const uint32_t r = checked(rank);
    GV_CHECK(x.size == dim());
    GV_CHECK(g.size == dim());
    const double* at = x.as<double>();
    double* out = g.as<double>();
    const double* offset = offsets_.empty() ? nullptr : offsets_.data() + r * dim();
    double loss = 0;
    for (size_t k = 0; k < dim(); ++k) {
      const double away = at[k] - optimum_[k] - (offset ? offset[k] : 0);
      loss += 0.5 * curvature_[k] * away * away;
      out[k] = curvature_[k] * away;
    }
    add_noise(r, index, out);
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
    return only_loss(excess);
  }

  std::string description() const override {
    if (spec_.mu == 0) {
      return fmt::format("white noise, {} coordinates, noise {}", dim(), shown(spec_.noise));
    }
    return fmt::format("diagonal quadratics, {} coordinates, mu {}, noise {}, zeta2 {}", dim(),
                       shown(spec_.mu), shown(spec_.noise), shown(spec_.zeta2));
  }

 private:
  std::vector<double> curvature_;
  std::vector<double> optimum_;
  std::vector<double> offsets_;  // ranks x dim; empty: zeta2 is 0
};

Status check_quadratic(const ObjectiveSpec& spec) {
  if (const Status ok = check_analytic(spec); !ok) return ok;
  if (!(spec.mu >= 0 && spec.mu <= 1)) {
    return user_error(fmt::format("mu is {}, accepted: 0 to 1", shown(spec.mu)));
  }
  if (spec.mu == 0 && spec.zeta2 > 0) {
    return user_error(fmt::format(
        "zeta2 is {} with mu 0, where a gradient is noise alone, accepted: 0", shown(spec.zeta2)));
  }
  return Done{};
}

}  // namespace

Result<std::unique_ptr<Objective>> make_quadratic(const ObjectiveSpec& spec) {
  if (const Status ok = check_quadratic(spec); !ok) return ok.error();
  if (spec.mu == 0) return make_diagonal(spec);
  const size_t most =
      std::min(kMostMatrixDim, static_cast<size_t>(std::sqrt(kMostNumbers / spec.ranks)));
  if (spec.mu < 1 && static_cast<size_t>(spec.dim) > most) {
    return user_error(fmt::format(
        "dim is {} with mu {} and {} ranks, each with a matrix, accepted: at most {}, "
        "or any with mu 0 or 1",
        with_commas(static_cast<size_t>(spec.dim)), shown(spec.mu), spec.ranks, with_commas(most)));
  }
  return std::unique_ptr<Objective>(std::make_unique<Quadratic>(spec));
}

Result<std::unique_ptr<Objective>> make_diagonal(const ObjectiveSpec& spec) {
  if (const Status ok = check_quadratic(spec); !ok) return ok.error();
  return std::unique_ptr<Objective>(std::make_unique<Diagonal>(spec));
}

}  // namespace grapevine
