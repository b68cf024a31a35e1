// Connector: with whom a node needs a link, and which addresses it dials when. For membership.hpp,
// which says who lives. No I/O.
//
// Up to nine nodes link with each other. Beyond that a node needs links with those whom its ranks
// talk to, with the next live one by name, so that nobody is without a link who probes it, and with
// one more that a hash of the two names draws: a ring and a drawn link each reach everybody in some
// log(n) steps. Of those next by name it takes as many as it takes for more to be well than not:
// where a hundred in a row are gone, twice as many are looked at with every second. Others are
// needed for a while: by a probe, a transfer, or to find the members at all. A link that this node
// has needed and does not need any more is closed ten seconds later; one that only the other end
// needs is for that end to close, but for the oldest where there are more than kLinksAtMost.
//
// Whoever is needed is dialled: of two nodes the one with the lower name dials at once,
// the other half a second later; then each tries again after 50 ms, doubling to 5 s, with jitter.
// The addresses to join are tried in the same way (every 30 s in the end, where others are linked)
// until each has led to somebody. One of the dead
// is dialled every 3 s, chosen at random, so a healed partition finds itself.
#pragma once
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actors/membership/member_table.hpp"
#include "kernels/base/random.hpp"

namespace grapevine {

constexpr size_t kLinksAtMost = 128;
constexpr size_t kAllLinked = 8;  // others, at most, that are all linked

class Connector {
 public:
  explicit Connector(const std::vector<std::string>& join);

  void start(double now);
  void born(double now, uint32_t member, const MemberTable&);  // a new incarnation was heard of
  /// Member 0: the node itself.
  void link_up(double now, uint32_t member, const std::string& dialled, const MemberTable&);
  void link_down(double now, uint32_t member, const MemberTable&, bool goodbye);

  /// Whom the ranks here talk to, until the next call.
  void talks_with(const std::vector<uint32_t>& members);
  /// For a while from now on, and at once.
  void need(double now, uint32_t member);
  void changed() { chosen_ = false; }  // somebody's state

  bool linked(uint32_t member) const { return member < links_.size() && links_[member].up; }
  bool alone() const;                  // no link stands
  bool broke(uint32_t member) const {  // its last link, which nobody had closed
    return member < links_.size() && links_[member].broke;
  }
  bool needs(double now, uint32_t member) const;
  /// Not only for a while.
  bool keeps(uint32_t member) const { return member < links_.size() && links_[member].chosen; }
  /// The live member whose port this is, if it was linked in this incarnation and is no more: its
  /// process is gone. (An address that never led to it proves nothing: it may be a wrong one.)
  std::optional<uint32_t> owner_of(const std::string& address, const MemberTable&) const;

  void run(double now, const MemberTable&, Random&, std::vector<std::string>& dials,
           std::vector<std::string>& closes);
  double next() const { return due_; }

  /// Of `run`, a dead member that has a link: to be asked whether it is there instead of dialled.
  std::optional<uint32_t> revisit();

 private:
  struct Link {
    bool up = false, was_up = false;
    bool wanted = false;                // in wanted_
    bool chosen = false, talk = false;  // needed as long as that is so
    double needed_until = 0;            // for a while
    double close_at = kNotOurs;         // if it is up and not needed until then
    bool broke = false;
    double up_since = 0, wanted_since = 0, goodbye_at = -kNotOurs;
    double dial_at = 0, wait = 0;
  };
  struct Join {
    std::string address;
    std::optional<uint32_t> member;  // whom it led to
    double dial_at = 0, wait = 0;
  };

  Link& link(uint32_t member);
  void want(double at, uint32_t member);
  void choose(double now, const MemberTable&);
  bool is_well(double now, uint32_t member, const MemberTable&);
  void close(double now, const MemberTable&, std::vector<std::string>& closes);
  void redial_dead(const MemberTable&, Random&, std::vector<std::string>& dials);

  static constexpr double kNotOurs = std::numeric_limits<double>::infinity();

  std::vector<Link> links_;       // by index of the table
  std::vector<uint32_t> wanted_;  // live members that are needed, without a link
  std::vector<uint32_t> talks_;
  std::vector<uint64_t> name_hashes_;  // by member
  bool chosen_ = false;                // choose() holds for those who live
  size_t needed_ = 0;
  double close_at_ = kNotOurs, look_again_at_ = kNotOurs;
  std::vector<Join> joins_;
  std::optional<uint32_t> revisit_;
  double redial_at_ = 0;
  double due_ = std::numeric_limits<double>::infinity();  // something is to be done
};

}  // namespace grapevine
