// OwnRecord: the record that this node signs of itself: its state, ranks, requests, and when it
// starts its next incarnation. For membership.hpp. No I/O.
//
// Each change is a new refutation or a new incarnation, signed and told at once. A node that hears
// that it is suspect refutes it. A node that learns of its own death, or of an earlier life, or of
// an earlier owner of its ranks continues with its next incarnation (own_incarnation.hpp). If its
// ranks are claimed by another node, it may have to take other ranks (MemberTable::move_to).
#pragma once
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "actors/membership/believed_incarnations.hpp"
#include "actors/membership/dissemination.hpp"
#include "actors/membership/member_table.hpp"
#include "actors/membership/membership_effects.hpp"
#include "actors/membership/own_incarnation.hpp"
#include "actors/membership/signed_facts.hpp"

namespace grapevine {

class OwnRecord {
 public:
  /// All four outlive it.
  OwnRecord(MemberTable& table, const SignedFacts& facts, Dissemination& dissemination,
            BelievedIncarnations& incarnations)
      : table_(table), facts_(facts), dissemination_(dissemination), incarnations_(incarnations) {}
  OwnRecord(const OwnRecord&) = delete;
  OwnRecord& operator=(const OwnRecord&) = delete;

  // Changes that this node wants. Those that change nothing, or come after leave(), are ignored.
  // The functions that return bool are as in membership.hpp.
  void become(bool ready, bool finished, MembershipEffects&);
  void leave();
  void stop();
  void ask_for_mean();
  void tell_mean(const MeanTold&);
  bool unreachable(const std::string& node, bool is);
  bool rank_gone(uint32_t rank);
  bool rank_returned(uint32_t rank);

  /// `from` says this of this node's name. True: it was suspect, and this refutes it.
  bool hear(double now, const std::string& from, const Member&, MembershipEffects&);
  /// The process stood still for so long that its name may have been given away.
  void stood_still(double now) { own_incarnation_.stood_still(now); }

  /// Other nodes' ranks have changed: are those of this node still its own?
  void resolve_ranks_by(double at) { resolve_at_ = std::min(resolve_at_, at); }
  /// `met`: this node knows the others, or there are none.
  void run(double now, bool met, MembershipEffects&);
  double next() const;

 private:
  const Member& self() const { return table_.self(); }
  void renew(Member);    // as it is
  void restate(Member);  // with one refutation more
  bool change_ranks(std::vector<RankGone>);
  bool hear_own(double now, const std::string& from, const Member&);
  void hear_rival(double now, const std::string& from, const Member&, MembershipEffects&);
  void resolve_ranks(double now, bool met, MembershipEffects&);
  void begin_contested(double now, MembershipEffects&);
  void begin_incarnation(Member, uint32_t incarnation, const std::string& why, MembershipEffects&);

  MemberTable& table_;
  const SignedFacts& facts_;
  Dissemination& dissemination_;
  BelievedIncarnations& incarnations_;
  OwnIncarnation own_incarnation_;
  double resolve_at_ = std::numeric_limits<double>::infinity();
};

}  // namespace grapevine
