#include "actors/algorithms/method_registry.hpp"

#include <fmt/core.h>

#include "actors/algorithms/a2cid2_reference.hpp"
#include "actors/algorithms/ad_psgd.hpp"
#include "actors/algorithms/all_reduce.hpp"
#include "actors/algorithms/choco.hpp"
#include "actors/algorithms/d2.hpp"
#include "actors/algorithms/d_psgd.hpp"
#include "actors/algorithms/deepsqueeze.hpp"
#include "actors/algorithms/edge_factors.hpp"
#include "actors/algorithms/gradient_tracking.hpp"
#include "actors/algorithms/mean_estimation.hpp"
#include "actors/algorithms/moniqua.hpp"
#include "actors/algorithms/powergossip.hpp"
#include "actors/algorithms/push_sum.hpp"
#include "actors/algorithms/quasi_global.hpp"
#include "actors/algorithms/relaysgd_async.hpp"
#include "actors/algorithms/relaysum_grad.hpp"
#include "actors/algorithms/requirements.hpp"

namespace grapevine {

namespace {

template <class R>
std::unique_ptr<Rule> make(const RuleContext& context) {
  return std::make_unique<R>(context);
}

std::unique_ptr<Rule> make_a2cid2(const RuleContext& context) {
  return context.settings.reference_order ? make<A2cid2Reference>(context) : make<A2cid2>(context);
}

int power_gossip_phases(const RuleSettings& settings) {
  return static_cast<int>(parse_power_gossip(settings.compress)->iterations);
}

Status check_power_gossip(const Method& method, const std::string& spec) {
  const Result<PowerGossipSpec> parsed = parse_power_gossip(spec);
  if (!parsed) return parsed.error();
  if (method.pattern == Pattern::pairwise && parsed->iterations != 1)
    return user_error(fmt::format(
        "compress is \"{}\": an exchange of {} is one iteration, accepted: iterations=1", spec,
        method.name));
  return Done{};
}

Status check_compressor(const Method&, const std::string& spec) {
  const auto compressor = Compressor::make(spec, ParameterLayout::flat(1, DType::f64));
  if (!compressor) return compressor.error();
  return Done{};
}

Status check_modulo(const Method&, const std::string& spec) {
  const Result<double> theta = Moniqua::theta_of(spec);
  if (!theta) return theta.error();
  return Done{};
}

constexpr Method kMethods[] = {
    {.name = "a2cid2",
     .pattern = Pattern::pairwise,
     .make = make_a2cid2,
     .accelerated = true,
     .check_compress = check_power_gossip,
     .sentence = "accelerated asynchronous gossip (NeurIPS 2023)"},
    {.name = "ad_psgd",
     .pattern = Pattern::pairwise,
     .make = make<AdPsgd>,
     .check_compress = check_power_gossip,
     .sentence = "asynchronous gossip (ICML 2018)"},
    {.name = "all_reduce",
     .pattern = Pattern::collective,
     .make = make<AllReduce>,
     .sentence = "synchronous SGD: everybody waits for everybody"},
    {.name = "choco",
     .pattern = Pattern::rounds,
     .make = make<Choco>,
     .gossips = true,
     .check_compress = check_compressor,
     .sentence = "compressed gossip on copies of the neighbours (ICML 2019)"},
    {.name = "d2",
     .pattern = Pattern::rounds,
     .make = make<D2>,
     .gossips = true,
     .eigenvalues_above = -1.0 / 3,
     .losses = Losses::any,
     .sentence = "gossip corrected for different data, exact diffusion (ICML 2018)"},
    {.name = "d_psgd",
     .pattern = Pattern::rounds,
     .make = make<DPsgd>,
     .gossips = true,
     .losses = Losses::any,
     .local_steps = true,
     .sentence = "gossip with the neighbours, round by round (NeurIPS 2017)"},
    {.name = "deepsqueeze",
     .pattern = Pattern::rounds,
     .make = make<DeepSqueeze>,
     .gossips = true,
     .losses = Losses::own,
     .check_compress = check_compressor,
     .sentence = "compressed gossip with error feedback (arXiv 1907.07346)"},
    {.name = "gradient_tracking",
     .pattern = Pattern::rounds,
     .make = make<GradientTracking>,
     .gossips = true,
     .losses = Losses::any,
     .sentence = "gossip of the models and of their steps (SIAM J. Optim. 2017)"},
    {.name = "mean_estimation",
     .pattern = Pattern::rounds,
     .make = make<MeanEstimation>,
     .relays = true,
     .losses = Losses::any,
     .any_optimizer = false,
     .sentence = "the mean of samples, relayed along a tree (NeurIPS 2021, appendix)"},
    {.name = "moniqua",
     .pattern = Pattern::rounds,
     .make = make<Moniqua>,
     .gossips = true,
     .losses = Losses::own,
     .check_compress = check_modulo,
     .sentence = "gossip of 2 bits per parameter (ICML 2020)"},
    {.name = "powergossip",
     .pattern = Pattern::rounds,
     .make = make<PowerGossip>,
     .gossips = true,
     .losses = Losses::own,
     .check_compress = check_power_gossip,
     .phases = power_gossip_phases,
     .sentence = "gossip of low-rank differences (NeurIPS 2020)"},
    {.name = "qgm",
     .pattern = Pattern::rounds,
     .make = make<QuasiGlobal>,
     .gossips = true,
     .losses = Losses::any,
     .any_optimizer = false,
     .sentence = "gossip with quasi-global momentum (ICML 2021)"},
    {.name = "relaysgd",
     .pattern = Pattern::rounds,
     .make = make<RelaySgd>,
     .relays = true,
     .losses = Losses::any,
     .sentence = "exact averages, relayed along a tree (NeurIPS 2021)"},
    {.name = "relaysgd_async",
     .pattern = Pattern::rounds,
     .make = make<RelaySgdAsync>,
     .waits = false,
     .relays = true,
     .sentence = "relaysgd that waits for nobody and forgives lost messages"},
    {.name = "relaysum_grad",
     .pattern = Pattern::rounds,
     .make = make<RelaySumGrad>,
     .relays = true,
     .losses = Losses::any,
     .sentence = "relays steps instead of models (NeurIPS 2021)"},
    {.name = "sgp",
     .pattern = Pattern::rounds,
     .make = make<PushSum>,
     .one_peer = true,
     .losses = Losses::own,
     .phases = [](const RuleSettings&) { return PushSum::kPhases; },
     .sentence = "stochastic gradient push, one peer at a time (ICML 2019)"},
};

Status check_compress(const Method& method, const std::string& spec) {
  if (spec.empty()) return Done{};
  if (method.check_compress != nullptr) return method.check_compress(method, spec);
  std::string takers;
  for (const Method& m : kMethods)
    if (m.check_compress != nullptr) takers += (takers.empty() ? "" : ", ") + std::string(m.name);
  return user_error(fmt::format("method {} takes no compress (\"{}\"), accepted by: {}",
                                method.name, spec, takers));
}

}  // namespace

const Method* find_method(const std::string& name) {
  for (const Method& method : kMethods)
    if (name == method.name) return &method;
  return nullptr;
}

const Method& method_named(const std::string& name) {
  const Method* method = find_method(name);
  GV_CHECK(method != nullptr);
  return *method;
}

std::string method_names() {
  std::string names;
  for (const Method& method : kMethods)
    names += (names.empty() ? "" : ", ") + std::string(method.name);
  return names;
}

Status check_method(const std::string& name, const RuleSettings& settings,
                    const std::string& weights, const Topology& graph) {
  const Method* method = find_method(name);
  if (method == nullptr)
    return user_error(fmt::format("method is \"{}\", accepted: {}", name, method_names()));
  if (Status fits = check_compress(*method, settings.compress); !fits) return fits;
  return check_requirements(*method, settings, weights, graph);
}

}  // namespace grapevine
