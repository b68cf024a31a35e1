#include "actors/membership/signed_facts.hpp"

#include <utility>

#include "messages/facts.hpp"

namespace grapevine {

void SignedFacts::sign(Member& m) const { m.signature = signing_.sign(fact_bytes(run_, m)); }

void SignedFacts::sign(GraphSpec& graph) const {
  graph.key = key();
  graph.signature = signing_.sign(fact_bytes(run_, graph));
}

void SignedFacts::sign(RateFact& fact) const {
  fact.signature = signing_.sign(fact_bytes(run_, key(), fact));
}

void SignedFacts::sign(WorkFact& fact) const {
  fact.signature = signing_.sign(fact_bytes(run_, key(), fact));
}

bool SignedFacts::is_signed(const PublicKey& key, std::span<const std::byte> bytes,
                            const Signature& signature) const {
  return signing_.holds(key, bytes, signature);
}

bool SignedFacts::holds(const Member& m, const MemberTable& table) {
  if (const auto place = table.find(m.node)) {
    const Member& known = table.at(*place);
    if (same_word(known, m)) return true;
    const auto number = [](const Member& each) {
      return std::pair(each.incarnation, each.refutations);
    };
    if (m.key == known.key && newer(known, m) && number(known) != number(m)) return true;
  }
  return is_signed(m.key, fact_bytes(run_, m), m.signature);
}

bool SignedFacts::holds(const GraphSpec& graph, const MemberTable& table) {
  const bool is_told = graph.version > 0 && !graph.topology.empty();
  if (!is_told || graph == checked_graph_ || !wins(graph, table.spec())) return true;
  if (!is_signed(graph.key, fact_bytes(run_, graph), graph.signature)) return false;
  checked_graph_ = graph;
  return true;
}

bool SignedFacts::holds(const RateFact& fact, const PublicKey& owner) {
  return is_signed(owner, fact_bytes(run_, owner, fact), fact.signature);
}

bool SignedFacts::holds(const WorkFact& fact, const PublicKey& owner) {
  return is_signed(owner, fact_bytes(run_, owner, fact), fact.signature);
}

}  // namespace grapevine
