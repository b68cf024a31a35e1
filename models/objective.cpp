#include "models/objective.hpp"

#include <fmt/core.h>

#include <limits>

#include "kernels/base/printable.hpp"
#include "models/analytic.hpp"
#include "models/network_loader.hpp"
#include "models/walk.hpp"

namespace grapevine {

const ParameterLayout& Objective::statistics() const {
  static const ParameterLayout none;
  return none;
}

void Objective::read_statistics(int, Vec out) const { GV_CHECK(out.size == 0u); }

bool Objective::has_statistics(int) const { return true; }

void Objective::set_statistics(int, uint64_t, ConstVec now) { GV_CHECK(now.size == 0u); }

void Objective::set_average_statistics(ConstVec average) { GV_CHECK(average.size == 0u); }

Evaluation Objective::validate(int, int, ConstVec) {
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  return {kNone, kNone};
}

Status Objective::can_write_on(const std::string& text) const {
  return user_error(fmt::format(
      "sample is \"{}\", and {} is no language model, accepted: a sample with models lm-char, "
      "lm-word, gpt-char and gpt:LAYERSxHEADSxWIDTH",
      printable(text), description()));
}

std::string Objective::write_on(int, ConstVec, const std::string& text, size_t, uint64_t) {
  GV_CHECK(can_write_on(text));
  return text;
}

Status Objective::go_on_in_data(const std::vector<DataCut>&) { return Done{}; }

Status Objective::use_gpu(int) {
  return user_error(description() + ": its gradients are computed on the CPU alone");
}

void Objective::queue_gradient(int thread, void* stream, int rank, uint64_t index, ConstVec x,
                               Vec g, double* loss) {
  GV_CHECK((stream == nullptr));  // use_gpu() has refused
  *loss = gradient(thread, rank, index, x, g);
}

void Objective::gradient_came(int, int) {}

Result<std::unique_ptr<Objective>> make_objective(const ObjectiveSpec& spec) {
  if (spec.ranks < 1) {
    return user_error(fmt::format("ranks is {}, accepted: 1 or more", spec.ranks));
  }
  if (spec.threads < 1) {
    return user_error(fmt::format("threads is {}, accepted: 1 or more", spec.threads));
  }
  using Make = Result<std::unique_ptr<Objective>>(const ObjectiveSpec&);
  const std::pair<const char*, Make*> known[] = {
      {"network", make_network},   {"quadratic", make_quadratic}, {"consensus", make_consensus},
      {"diagonal", make_diagonal}, {"scalar", make_scalar},       {"matrix", make_matrix},
      {"mean", make_mean},
  };
  std::string names;
  for (const auto& [name, make] : known) {
    if (spec.objective == name) return make(spec);
    names += (names.empty() ? "" : ", ") + std::string(name);
  }
  return user_error(fmt::format("objective is \"{}\", accepted: {}", spec.objective, names));
}

}  // namespace grapevine
