#include "actors/algorithms/method_registry.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "actors/algorithms/a2cid2.hpp"
#include "actors/algorithms/ad_psgd.hpp"
#include "actors/algorithms/all_reduce.hpp"
#include "actors/algorithms/choco.hpp"
#include "actors/algorithms/d2.hpp"
#include "actors/algorithms/d_psgd.hpp"
#include "actors/algorithms/deepsqueeze.hpp"
#include "actors/algorithms/edge_factors.hpp"
#include "actors/algorithms/gasloc.hpp"
#include "actors/algorithms/gradient_tracking.hpp"
#include "actors/algorithms/mean_estimation.hpp"
#include "actors/algorithms/moniqua.hpp"
#include "actors/algorithms/noloco.hpp"
#include "actors/algorithms/powergossip.hpp"
#include "actors/algorithms/push_sum.hpp"
#include "actors/algorithms/quasi_global.hpp"
#include "actors/algorithms/random_gossip.hpp"
#include "actors/algorithms/random_part.hpp"
#include "actors/algorithms/relaysgd_async.hpp"
#include "actors/algorithms/relaysum_grad.hpp"
#include "actors/algorithms/requirements.hpp"
#include "kernels/base/registry.hpp"
#include "kernels/base/spec.hpp"
#include "topologies/schedule.hpp"

namespace grapevine {

namespace {

template <class R>
std::unique_ptr<Rule> make(const RuleContext& context) {
  return std::make_unique<R>(context);
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

Status check_random(const Method&, const std::string& spec) {
  const auto part = random_part(spec, ParameterLayout::flat(1, DType::f64), 0);
  if (!part) return part.error();
  return Done{};
}

Status check_pairs(const Method& method, const std::string& spec) {
  if (Spec(spec).name == "random") return check_random(method, spec);
  return check_power_gossip(method, spec);
}

std::unique_ptr<Rule> make_d_psgd(const RuleContext& context) {
  if (context.settings.compress.empty()) return std::make_unique<DPsgd>(context);
  return std::make_unique<RandomGossip>(context);
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

PeerSchedule push_sum_schedule(const RuleSettings& settings) {
  return settings.reference_schedule ? PeerSchedule::reference : PeerSchedule::paper;
}

OnePeer push_sum_partners(const RuleSettings& settings, int place, int ranks, uint64_t,
                          uint64_t phase) {
  return one_peer(place, ranks, static_cast<int64_t>(phase / PushSum::kPhases),
                  static_cast<int>(phase % PushSum::kPhases), PushSum::kPhases,
                  push_sum_schedule(settings));
}

int push_sum_most_behind(const RuleSettings& settings, int ranks) {
  return most_behind(ranks, push_sum_schedule(settings));
}

OnePeer matching_partners(const RuleSettings&, int place, int ranks, uint64_t seed,
                          uint64_t round) {
  const int other = matched(place, ranks, seed, round);
  return {other, other};
}

// A rank that waits delays twice as many others each round, so few ranks get farther ahead of it.
// Their messages are gone then, and the rank continues without them.
int matching_most_behind(const RuleSettings&, int ranks) { return 4 + exponential_rounds(ranks); }

constexpr char kGossipOfLocalSteps[] = "gossip with local steps, in which no rank waits";
constexpr char kTreeOfLocalSteps[] = "DiLoCo's mean over a tree, a few rounds later";

constexpr Method kMethods[] = {
    {.name = "a2cid2",
     .pattern = Pattern::pairwise,
     .make = make<A2cid2>,
     .accelerated = true,
     .check_compress = check_pairs,
     .sentence = "accelerated asynchronous gossip (NeurIPS 2023)",
     .paper = "Nabli, Belilovsky, Oyallon. NeurIPS 2023. arXiv:2306.08289",
     .equation = "dx = eta (x~ - x) dt, dx~ = eta (x - x~) dt; with a peer x -= alpha (x - x_j), "
                 "x~ -= alpha~ (x - x_j); both += u",
     .with_inner_steps = kGossipOfLocalSteps},
    {.name = "ad_psgd",
     .pattern = Pattern::pairwise,
     .make = make<AdPsgd>,
     .check_compress = check_pairs,
     .sentence = "asynchronous gossip (ICML 2018)",
     .paper = "Lian, Zhang, Zhang, Liu. ICML 2018. arXiv:1710.06952",
     .equation = "with a peer x -= 1/2 (x - x_j); x += u",
     .with_inner_steps = kGossipOfLocalSteps},
    {.name = "all_reduce",
     .pattern = Pattern::collective,
     .make = make<AllReduce>,
     .sentence = "synchronous SGD: all ranks wait for each other",
     .paper = "synchronous data-parallel SGD",
     .equation = "x += u, the step on (1/n) sum_i g_i",
     .with_inner_steps = "DiLoCo (arXiv:2311.08105); one rank: an outer optimizer for one machine"},
    {.name = "choco",
     .pattern = Pattern::rounds,
     .make = make<Choco>,
     .gossips = true,
     .check_compress = check_compressor,
     .sentence = "compressed gossip on copies of the neighbours (ICML 2019)",
     .paper = "Koloskova, Stich, Jaggi. ICML 2019. arXiv:1902.00340",
     .equation = "x^ += C(h - x^), x = h + gamma sum_j W_ij (x^_j - x^)"},
    {.name = "d2",
     .pattern = Pattern::rounds,
     .make = make<D2>,
     .gossips = true,
     .eigenvalues_above = -1.0 / 3,
     .losses = Losses::any,
     .sentence = "gossip corrected for different data, exact diffusion (ICML 2018)",
     .paper = "Tang, Lian, Yan, Zhang, Liu. ICML 2018. arXiv:1803.07068",
     .equation = "x'' = W (2 x' - x + u' - u)"},
    {.name = "d_psgd",
     .pattern = Pattern::rounds,
     .make = make_d_psgd,
     .gossips = true,
     .losses = Losses::any,
     .check_compress = check_random,
     .sentence = "gossip with the neighbours, round by round (NeurIPS 2017)",
     .paper = "Lian, Zhang, Zhang, Hsieh, Zhang, Liu. NeurIPS 2017. arXiv:1705.09056",
     .equation = "x = W (x + u)",
     .with_inner_steps =
         "local SGD with gossip; --outer-lr 1 --outer-momentum 0: Stich, ICLR 2019"},
    {.name = "deepsqueeze",
     .pattern = Pattern::rounds,
     .make = make<DeepSqueeze>,
     .gossips = true,
     .losses = Losses::own,
     .check_compress = check_compressor,
     .sentence = "compressed gossip with error feedback (arXiv 1907.07346)",
     .paper = "Tang, Lian, Qiu, Yuan, Zhang, Zhang, Liu. arXiv:1907.07346",
     .equation = "v = h + delta, q = C(v), delta = v - q, x = h + gamma sum_j W_ij (q_j - q)"},
    {.name = "gasloc",
     .pattern = Pattern::rounds,
     .make = make<Gasloc>,
     .partners = {matching_partners, matching_most_behind},
     .losses = Losses::own,
     .any_optimizer = false,
     .sentence = "gossip of outer steps in random pairs, for comparison (arXiv 2026)",
     .paper = "arXiv:2606.11081; gamma, the momentum, is ours",
     .equation = "y = x - lr g, x = (y + y_j) / 2 + gamma (y - y of the round before)",
     .with_inner_steps = "GASLoC"},
    {.name = "gradient_tracking",
     .pattern = Pattern::rounds,
     .make = make<GradientTracking>,
     .gossips = true,
     .losses = Losses::any,
     .sentence = "gossip of the models and of their steps (SIAM J. Optim. 2017)",
     .paper = "Nedic, Olshevsky, Shi. SIAM J. Optim. 2017. arXiv:1607.03218",
     .equation = "x' = W (x + u + c), c' = W (c + u) - u"},
    {.name = "mean_estimation",
     .pattern = Pattern::rounds,
     .make = make<MeanEstimation>,
     .relays = true,
     .losses = Losses::any,
     .any_optimizer = false,
     .sentence = "the mean of samples, relayed along a tree (NeurIPS 2021, appendix)",
     .paper = "Vogels et al. NeurIPS 2021. arXiv:2110.04175, appendix",
     .equation = "x = sum_t (s + sum_j m_ji) / sum_t (1 + sum_j c_ji)"},
    {.name = "moniqua",
     .pattern = Pattern::rounds,
     .make = make<Moniqua>,
     .gossips = true,
     .losses = Losses::own,
     .check_compress = check_modulo,
     .sentence = "gossip of 2 bits per parameter (ICML 2020)",
     .paper = "Lu, De Sa. ICML 2020. arXiv:2002.11787",
     .equation = "x = h + gamma sum_j W_ij (h_j - h), h_j known modulo 6 theta"},
    {.name = "noloco",
     .pattern = Pattern::rounds,
     .make = make<NoLoCo>,
     .partners = {matching_partners, matching_most_behind},
     .losses = Losses::own,
     .any_optimizer = false,
     .sentence = "outer steps of random pairs, for comparison (arXiv 2025)",
     .paper = "Kolehmainen et al. arXiv:2506.10911",
     .equation = "d = mu d + lr ((x' + x'_j) / 2 - x), x += d, x' = x - g",
     .with_inner_steps = "NoLoCo, with --outer-momentum 0.5"},
    {.name = "powergossip",
     .pattern = Pattern::rounds,
     .make = make<PowerGossip>,
     .gossips = true,
     .losses = Losses::own,
     .check_compress = check_power_gossip,
     .phases = power_gossip_phases,
     .sentence = "gossip of low-rank differences (NeurIPS 2020)",
     .paper = "Vogels, Karimireddy, Jaggi. NeurIPS 2020. arXiv:2008.01425",
     .equation = "x -= gamma W_ij P Q^T, a power iteration on x - x_j"},
    {.name = "qgm",
     .pattern = Pattern::rounds,
     .make = make<QuasiGlobal>,
     .gossips = true,
     .losses = Losses::any,
     .any_optimizer = false,
     .sentence = "gossip with quasi-global momentum (ICML 2021)",
     .paper = "Lin, Karimireddy, Stich, Jaggi. ICML 2021. arXiv:2102.04761",
     .equation = "x' = W (x - lr (g + mu m)), m' = mu m + (1 - mu) (x - x') / lr"},
    {.name = "relaysgd",
     .pattern = Pattern::rounds,
     .make = make<RelaySgd>,
     .relays = true,
     .losses = Losses::any,
     .sentence = "exact averages, relayed along a tree (NeurIPS 2021)",
     .paper = "Vogels et al. NeurIPS 2021. arXiv:2110.04175",
     .equation = "m_ij = y + sum of what the others relay, x = (y + sum_j m_ji) / (1 + sum_j "
                 "c_ji), y = x + u",
     .with_inner_steps = kTreeOfLocalSteps},
    {.name = "relaysgd_async",
     .pattern = Pattern::rounds,
     .make = make<RelaySgdAsync>,
     .waits = false,
     .relays = true,
     .sentence = "relaysgd in which no rank waits and lost messages do no harm",
     .paper = "after Vogels et al. NeurIPS 2021. arXiv:2110.04175",
     .equation = "as relaysgd, with the newest message of each edge"},
    {.name = "relaysum_grad",
     .pattern = Pattern::rounds,
     .make = make<RelaySumGrad>,
     .relays = true,
     .losses = Losses::any,
     .sentence = "relays steps instead of models (NeurIPS 2021)",
     .paper = "Vogels et al. NeurIPS 2021. arXiv:2110.04175",
     .equation = "x += (u + sum_j m_ji) / n, m relays u",
     .with_inner_steps = kTreeOfLocalSteps},
    {.name = "sgp",
     .pattern = Pattern::rounds,
     .make = make<PushSum>,
     .partners = {push_sum_partners, push_sum_most_behind, true},
     .sends_mass = true,
     .losses = Losses::own,
     .phases = [](const RuleSettings&) { return PushSum::kPhases; },
     .sentence = "stochastic gradient push, one peer at a time (ICML 2019)",
     .paper = "Assran, Loizou, Ballas, Rabbat. ICML 2019. arXiv:1811.10792",
     .equation = "(x, w) = 1/2 (x, w) + 1/2 (x_j, w_j), z = x / w"},
};

const Method* built_in(std::string_view name) {
  const auto at = std::ranges::find_if(kMethods, [&](const Method& m) { return name == m.name; });
  return at == std::end(kMethods) ? nullptr : at;
}

Registry<Method>& registered() {
  static Registry<Method> methods;
  return methods;
}

Status check_compress(const Method& method, const std::string& spec) {
  if (spec.empty()) return Done{};
  if (method.check_compress != nullptr) return method.check_compress(method, spec);
  std::string takers;
  for (const Method& m : all_methods())
    if (m.check_compress != nullptr) takers += (takers.empty() ? "" : ", ") + std::string(m.name);
  return user_error(
      fmt::format("compress is \"{}\" with method {}, accepted: no compress, or one of "
                  "the methods {}",
                  spec, method.name, takers));
}

}  // namespace

Status register_method(const Method& method) {
  if (method.name == nullptr || method.make == nullptr || method.phases == nullptr)
    return user_error("a method without a name, make or phases cannot be registered");
  return registered().add("method", method, built_in(method.name) != nullptr);
}

bool runs_on_devices(const Method& method) {
  return method.on_devices || built_in(method.name) != nullptr;
}

std::vector<Method> all_methods() {
  std::vector<Method> all(std::begin(kMethods), std::end(kMethods));
  registered().for_each([&all](const Method& method) { all.push_back(method); });
  std::ranges::sort(all, {}, [](const Method& m) { return std::string_view(m.name); });
  return all;
}

const Method* find_method(const std::string& name) {
  const Method* method = built_in(name);
  return method != nullptr ? method : registered().find(name);
}

const Method& method_named(const std::string& name) {
  const Method* method = find_method(name);
  GV_CHECK(method != nullptr);
  return *method;
}

std::string method_names() {
  std::string names;
  for (const Method& method : all_methods())
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
