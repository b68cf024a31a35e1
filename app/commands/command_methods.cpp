// grapevine methods: the methods, and what each requires of the graph.
#include <fmt/core.h>

#include <cstdio>

#include "actors/algorithms/method_registry.hpp"
#include "app/commands/commands.hpp"
#include "app/output/json_output.hpp"

namespace grapevine {
namespace {

const char* pattern_of(const Method& m) {
  switch (m.pattern) {
    case Pattern::pairwise: return "pairwise, no rank waits";
    case Pattern::collective: return "collective, all wait for all";
    case Pattern::rounds: break;
  }
  if (m.partners) return "rounds, with one peer at a time";
  return m.waits ? "rounds, waits for neighbours" : "rounds, no rank waits";
}

std::string graph_of(const Method& m) {
  if (m.relays) return "a tree, or double-binary-trees";
  if (!m.goes_by_graph()) return "any: its edges play no role";
  if (m.eigenvalues_above > -1)
    return fmt::format("connected; eigenvalues of the weights above {:.3g}", m.eigenvalues_above);
  return "any that is connected";
}

std::string takes_of(const Method& m) {
  std::string takes = m.any_optimizer ? "optimizer" : "optimizer sgd";
  if (m.check_compress != nullptr) takes += ", compress";
  if (m.pattern == Pattern::pairwise) takes += ", wire";
  if (m.gossips) takes += ", weights, gamma";
  if (m.relays) takes += ", normalisation";
  if (m.losses != Losses::none) takes += ", missing";
  if (m.partners.has_reference) takes += ", reference-schedule";
  return takes;
}

}  // namespace

Result<int> show_methods(Options options) {
  Json list = Json::array();
  for (const Method& m : all_methods()) {
    list.push_back({{"name", m.name},
                    {"what", m.sentence},
                    {"paper", m.paper},
                    {"equation", m.equation},
                    {"pattern", pattern_of(m)},
                    {"graph", graph_of(m)},
                    {"takes", takes_of(m)},
                    {"with_inner_steps", m.with_inner_steps}});
    if (options.json) continue;
    std::printf("%s: %s\n", m.name, m.sentence);
    for (const char* row : {"paper", "equation", "pattern", "graph", "takes"})
      std::printf("  %-9s %s\n", row, list.back()[row].get<std::string>().c_str());
    if (m.with_inner_steps[0] != 0) std::printf("  with --inner-steps: %s\n", m.with_inner_steps);
    std::printf("\n");
  }
  if (options.json) {
    print_json(list);
  } else {
    std::printf(
        "u: the optimizer's step on the local gradient g (plain SGD: -lr g); h = x + u; W: the "
        "gossip matrix; C: the compressor; _j: of neighbour j.\n");
  }
  return 0;
}

}  // namespace grapevine
