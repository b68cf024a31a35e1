// Consensus and matrix: gossip without gradients.
#include <fmt/core.h>

#include <string>

#include "kernels/base/spec.hpp"
#include "models/analytic.hpp"
#include "models/analytic_base.hpp"
#include "models/dense.hpp"

namespace grapevine {
namespace {

constexpr double kMostElements = 1 << 27;  // 1 GiB in one rank's vector

class Consensus : public Analytic {
 public:
  using Analytic::Analytic;

  bool has_gradients() const override { return false; }

  void initial_point(int rank, Vec x) const override {
    GV_CHECK(x.size == dim());
    Random random(spec_.seed, checked(rank), Purpose::initial_point);
    double* to = x.as<double>();
    for (size_t k = 0; k < dim(); ++k)
      to[k] = random.normal();
  }

  double gradient(int, int, uint64_t, ConstVec, Vec) override {
    GV_CHECK(has_gradients());
    return 0;
  }

  Evaluation evaluate(int, int, ConstVec) override { return only_loss(0); }

  std::string description() const override {
    return fmt::format("consensus of Gaussian points, {} coordinates", dim());
  }
};

ParameterLayout one_matrix(const ObjectiveSpec& spec) {
  ParameterLayout layout(DType::f64);
  layout.add("x", {spec.rows, spec.columns}, true);
  return layout;
}

class MatrixConsensus final : public Consensus {
 public:
  explicit MatrixConsensus(const ObjectiveSpec& spec) : Consensus(spec, one_matrix(spec)) {}

  void initial_point(int rank, Vec x) const override {
    GV_CHECK(x.size == dim());
    if (spec_.entries == "sines") {
      sines(static_cast<double>(checked(rank)), x.as<double>());
    } else if (spec_.spectrum_decay > 0) {
      decaying(checked(rank), x.as<double>());
    } else {
      Consensus::initial_point(rank, x);
    }
  }

  std::string description() const override {
    std::string what = spec_.entries == "sines" ? "of sines" : "Gaussian";
    if (spec_.spectrum_decay > 0) what += ", singular values as k^-" + shown(spec_.spectrum_decay);
    return fmt::format("consensus of matrices, {} x {}, {}", spec_.rows, spec_.columns, what);
  }

 private:
  void sines(double i, double* to) const {
    for (int a = 0; a < spec_.rows; ++a) {
      for (int b = 0; b < spec_.columns; ++b) {
        *to++ = std::sin(1 + 1.7 * a + 2.3 * b + 0.9 * i * (a + 1) + 0.37 * i * b * b);
      }
    }
  }

  void decaying(uint32_t rank, double* to) const {
    std::vector<double> values(static_cast<size_t>(std::min(spec_.rows, spec_.columns)));
    double squares = 0;
    for (size_t k = 0; k < values.size(); ++k) {
      values[k] = std::pow(static_cast<double>(k + 1), -spec_.spectrum_decay);
      squares += values[k] * values[k];
    }
    for (double& value : values)
      value *= std::sqrt(static_cast<double>(dim()) / squares);
    Random random(spec_.seed, rank, Purpose::initial_point);
    const auto matrix = matrix_with_spectrum(static_cast<size_t>(spec_.rows),
                                             static_cast<size_t>(spec_.columns), values, random);
    std::copy(matrix.begin(), matrix.end(), to);
  }
};

}  // namespace

Result<std::unique_ptr<Objective>> make_consensus(const ObjectiveSpec& spec) {
  if (const Status ok = check_analytic(spec); !ok) return ok.error();
  return std::unique_ptr<Objective>(std::make_unique<Consensus>(spec));
}

Result<std::unique_ptr<Objective>> make_matrix(const ObjectiveSpec& spec) {
  for (const auto& [name, value] : {std::pair("rows", spec.rows), {"columns", spec.columns}}) {
    if (value >= 1) continue;
    return user_error(fmt::format("{} is {}, accepted: 1 or more", name, value));
  }
  if (static_cast<double>(spec.rows) * spec.columns > kMostElements) {
    return user_error(fmt::format("rows x columns is {} x {}, accepted: at most 1 GiB of numbers",
                                  spec.rows, spec.columns));
  }
  if (spec.entries != "gaussian" && spec.entries != "sines") {
    return user_error(fmt::format("entries is \"{}\", accepted: gaussian, sines", spec.entries));
  }
  if (!(spec.spectrum_decay >= 0 && std::isfinite(spec.spectrum_decay))) {
    return user_error(
        fmt::format("spectrum_decay is {}, accepted: 0 or more", shown(spec.spectrum_decay)));
  }
  if (spec.entries == "sines" && spec.spectrum_decay > 0) {
    return user_error(
        fmt::format("spectrum_decay is {} with entries sines, accepted: 0, or entries gaussian",
                    shown(spec.spectrum_decay)));
  }
  return std::unique_ptr<Objective>(std::make_unique<MatrixConsensus>(spec));
}

}  // namespace grapevine
