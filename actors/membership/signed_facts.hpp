// SignedFacts: signs this node's own facts, and checks the signatures of all others
// (messages/facts.hpp). For membership.hpp. No I/O.
//
// Each signature is checked once, when it is new: a fact that is already known, or that would
// change nothing, is accepted without a check.
#pragma once
#include <cstdint>
#include <span>

#include "actors/membership/member_table.hpp"
#include "messages/keys.hpp"

namespace grapevine {

class SignedFacts {
 public:
  /// `run`: the hash of the run's name and job. A fact of another run is invalid.
  SignedFacts(uint64_t run, Signing signing) : run_(run), signing_(std::move(signing)) {}

  const PublicKey& key() const { return signing_.key; }
  void sign(Member&) const;
  void sign(GraphSpec&) const;  // and names this node as its owner
  void sign(RateFact&) const;
  void sign(WorkFact&) const;

  /// Whether the signature is valid, or the table already knows better.
  bool holds(const Member&, const MemberTable&);
  bool holds(const GraphSpec&, const MemberTable&);
  bool holds(const RateFact&, const PublicKey& owner);
  bool holds(const WorkFact&, const PublicKey& owner);

 private:
  bool is_signed(const PublicKey&, std::span<const std::byte>, const Signature&) const;

  uint64_t run_;
  Signing signing_;
  GraphSpec checked_graph_;  // the last one with a valid signature: it may wait for its turn
};

}  // namespace grapevine
