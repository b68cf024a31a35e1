#include "actors/algorithms/choose.hpp"

#include "actors/algorithms/a2cid2.hpp"
#include "actors/algorithms/ad_psgd.hpp"
#include "actors/algorithms/all_reduce.hpp"

namespace grapevine {

namespace {

template <class R>
std::unique_ptr<Rule> make(const ParameterLayout& layout, const OptimizerSettings& optimizer,
                           Execution execution, ConstVec x) {
  return std::make_unique<R>(layout, optimizer, execution, x);
}

struct Method {
  const char* name;
  Pattern pattern;
  bool accelerated;
  decltype(&make<A2cid2>) make_rule;
};

constexpr Method kMethods[] = {
    {"a2cid2", Pattern::pairwise, true, make<A2cid2>},
    {"ad_psgd", Pattern::pairwise, false, make<AdPsgd>},
    {"all_reduce", Pattern::collective, false, make<AllReduce>},
};

const Method* find(const std::string& name) {
  for (const Method& method : kMethods)
    if (name == method.name) return &method;
  return nullptr;
}

const Method& get(const std::string& name) {
  const Method* method = find(name);
  GV_CHECK(method != nullptr);
  return *method;
}

}  // namespace

std::string rule_names() {
  std::string names;
  for (const Method& method : kMethods)
    names += (names.empty() ? "" : ", ") + std::string(method.name);
  return names;
}

Status check_rule_name(const std::string& method) {
  if (find(method) != nullptr) return Done{};
  return user_error("method is \"" + method + "\", accepted: " + rule_names());
}

Pattern pattern_of(const std::string& method) { return get(method).pattern; }

bool is_accelerated(const std::string& method) { return get(method).accelerated; }

std::unique_ptr<Rule> make_rule(const std::string& method, const ParameterLayout& layout,
                                const OptimizerSettings& optimizer, Execution execution,
                                ConstVec x) {
  return get(method).make_rule(layout, optimizer, execution, x);
}

}  // namespace grapevine
