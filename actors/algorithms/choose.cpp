#include "actors/algorithms/choose.hpp"

#include "actors/algorithms/a2cid2.hpp"
#include "actors/algorithms/ad_psgd.hpp"
#include "actors/algorithms/all_reduce.hpp"
#include "actors/algorithms/d_psgd.hpp"
#include "actors/algorithms/powergossip.hpp"

namespace grapevine {

namespace {

template <class R>
std::unique_ptr<Rule> make(const RuleContext& context) {
  return std::make_unique<R>(context);
}

int power_gossip_phases(const RuleSettings& settings) {
  return static_cast<int>(parse_power_gossip(settings.compress)->iterations);
}

constexpr Method kMethods[] = {
    {.name = "a2cid2",
     .pattern = Pattern::pairwise,
     .make = make<A2cid2>,
     .accelerated = true,
     .compresses = true,
     .sentence = "accelerated asynchronous gossip (NeurIPS 2023)"},
    {.name = "ad_psgd",
     .pattern = Pattern::pairwise,
     .make = make<AdPsgd>,
     .compresses = true,
     .sentence = "asynchronous gossip (ICML 2018)"},
    {.name = "all_reduce",
     .pattern = Pattern::collective,
     .make = make<AllReduce>,
     .sentence = "synchronous SGD: everybody waits for everybody"},
    {.name = "d_psgd",
     .pattern = Pattern::rounds,
     .make = make<DPsgd>,
     .sentence = "gossip with the neighbours, round by round (NeurIPS 2017)"},
    {.name = "powergossip",
     .pattern = Pattern::rounds,
     .make = make<PowerGossip>,
     .compresses = true,
     .phases = power_gossip_phases,
     .sentence = "gossip of low-rank differences (NeurIPS 2020)"},
};

Status check_compress(const Method& method, const RuleSettings& settings) {
  if (settings.compress.empty()) return Done{};
  if (!method.compresses) {
    std::string takers;
    for (const Method& m : kMethods)
      if (m.compresses) takers += (takers.empty() ? "" : ", ") + std::string(m.name);
    return user_error("method " + std::string(method.name) + " takes no compress (\"" +
                      settings.compress + "\"), accepted by: " + takers);
  }
  const Result<PowerGossipSpec> spec = parse_power_gossip(settings.compress);
  if (!spec) return spec.error();
  if (method.pattern == Pattern::pairwise && spec->iterations != 1)
    return user_error("compress is \"" + settings.compress + "\": an exchange of " + method.name +
                      " is one iteration, accepted: iterations=1");
  return Done{};
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

Status check_method(const std::string& name, const RuleSettings& settings, const std::string&,
                    const Topology&) {
  const Method* method = find_method(name);
  if (method == nullptr)
    return user_error("method is \"" + name + "\", accepted: " + method_names());
  return check_compress(*method, settings);
}

}  // namespace grapevine
