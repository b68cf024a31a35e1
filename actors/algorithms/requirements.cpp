#include "actors/algorithms/requirements.hpp"

#include <fmt/core.h>

#include <bit>
#include <cmath>

#include "kernels/base/spec.hpp"
#include "topologies/trees.hpp"
#include "topologies/weights.hpp"

namespace grapevine {

namespace {

const char* name_of(Missing missing) {
  switch (missing) {
    case Missing::resend: return "resend";
    case Missing::renormalise: return "renormalise";
    case Missing::own: return "own";
    case Missing::reuse: return "reuse";
    case Missing::shrink: return "shrink";
  }
  return "";
}

Status check_lost(const Method& method, Missing missing) {
  const bool fits = missing == Missing::resend || method.losses == Losses::any ||
                    (missing == Missing::own && method.losses == Losses::own);
  if (fits) return Done{};
  const std::string accepted = method.losses == Losses::own ? "resend, own" : "resend";
  return user_error(
      fmt::format("missing is {}, method {} accepts: {}", name_of(missing), method.name, accepted));
}

// A round applies W_gamma = 1 + gamma (W - 1).
Status check_weights(const Method& method, double gamma, const std::string& weights,
                     const Topology& graph) {
  if (!(gamma > 0) || !std::isfinite(gamma))
    return user_error(fmt::format("gamma is {}, accepted: above 0", shown(gamma)));
  const auto matrix = gossip_matrix(weights, graph);
  if (!matrix) return matrix.error();
  if (gamma <= 1 && method.eigenvalues_above <= -1) return Done{};  // holds for any graph
  const auto spectrum = matrix_spectrum(graph, *matrix);
  if (!spectrum) return spectrum.error();
  const double least = spectrum->least;
  const double of_round = 1 - gamma * (1 - least);
  constexpr double kRounding = 1e-9;
  if (of_round > method.eigenvalues_above + kRounding) return Done{};
  const double most = (1 - method.eigenvalues_above) / (1 - least);
  if (gamma > 1)
    return user_error(fmt::format("gamma is {}, method {} with weights {} on {} accepts: below {}",
                                  shown(gamma), method.name, weights, graph.name(), shown(most)));
  return user_error(
      fmt::format("method {} needs eigenvalues above {}, those of weights {} on {} begin at {}, "
                  "accepted: weights lazy, uniform:W with a smaller W, or gamma below {}",
                  method.name, shown(method.eigenvalues_above), weights, graph.name(),
                  shown(of_round), shown(most)));
}

Status check_no_weights(const Method& method, double gamma, const std::string& weights) {
  if (gamma != 1)
    return user_error(
        fmt::format("gamma is {} with method {}, which has no gossip matrix, accepted: no gamma",
                    shown(gamma), method.name));
  if (weights != "metropolis")
    return user_error(fmt::format(
        "weights is \"{}\" with method {}, which has no gossip matrix, accepted: no weights",
        weights, method.name));
  return Done{};
}

Status check_schedule(const Method& method, const Topology& graph) {
  if (!method.partners.has_reference)
    return user_error(fmt::format(
        "reference-schedule with method {}, which has no schedule of peers, accepted: method sgp",
        method.name));
  if (std::has_single_bit(static_cast<unsigned>(graph.ranks()))) return Done{};
  return user_error(
      fmt::format("ranks is {}, the reference schedule of method {} accepts: a power of two",
                  graph.ranks(), method.name));
}

}  // namespace

Status check_requirements(const Method& method, const RuleSettings& settings,
                          const std::string& weights, const Topology& graph) {
  if (Status fits = check_lost(method, settings.missing); !fits) return fits;
  if (settings.normalisation != Normalisation::counts && !method.relays)
    return user_error(fmt::format(
        "normalisation with method {}, which relays nothing, accepted: no normalisation",
        method.name));
  if (settings.optimizer.kind != OptimizerKind::sgd && !method.any_optimizer)
    return user_error(fmt::format("optimizer is {} with method {}, accepted: sgd",
                                  settings.optimizer.kind == OptimizerKind::adam ? "adam" : "adamw",
                                  method.name));
  if (settings.wire == Wire::bf16 && method.pattern != Pattern::pairwise)
    return user_error(fmt::format(
        "wire is bf16, method {} accepts: full; bf16 goes with methods of pairs (a2cid2, ad_psgd)",
        method.name));
  if (method.relays) {
    if (Status fits = check_trees(graph); !fits) return fits;
  }
  if (settings.reference_schedule) {
    if (Status fits = check_schedule(method, graph); !fits) return fits;
  }
  return method.gossips ? check_weights(method, settings.gamma, weights, graph)
                        : check_no_weights(method, settings.gamma, weights);
}

}  // namespace grapevine
