// Connector: to whom a node has a link, and which addresses it dials when. For membership.hpp,
// which says who lives. No I/O.
//
// Every live member is to be linked, once: of two nodes the one with the lower name dials at once,
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
#include "kernels/random.hpp"

namespace grapevine {

class Connector {
 public:
  explicit Connector(const std::vector<std::string>& join);

  void start(double now);
  void born(double now, uint32_t member, const MemberTable&);  // a new incarnation was heard of
  void link_up(uint32_t member, const std::string& dialled);   // member 0: the node itself
  void link_down(double now, uint32_t member, const MemberTable&);

  bool linked(uint32_t member) const { return member < links_.size() && links_[member].up; }
  /// The live member whose port this is, if it was linked in this incarnation and is no more: its
  /// process is gone. (An address that never led to it proves nothing: it may be a wrong one.)
  std::optional<uint32_t> owner_of(const std::string& address, const MemberTable&) const;

  void run(double now, const MemberTable&, Random&, std::vector<std::string>& dials);
  double next() const { return due_; }

  /// Of `run`, a dead member that has a link: to be asked whether it is there instead of dialled.
  std::optional<uint32_t> revisit();

 private:
  struct Link {
    bool up = false, was_up = false;
    bool wanted = false;  // in wanted_
    double dial_at = 0, wait = 0;
  };
  struct Join {
    std::string address;
    std::optional<uint32_t> member;  // whom it led to
    double dial_at = 0, wait = 0;
  };

  Link& link(uint32_t member);
  void want(double at, uint32_t member);
  void redial_dead(const MemberTable&, Random&, std::vector<std::string>& dials);

  std::vector<Link> links_;       // by index of the table
  std::vector<uint32_t> wanted_;  // live members without a link
  std::vector<Join> joins_;
  std::optional<uint32_t> revisit_;
  double redial_at_ = 0;
  double due_ = std::numeric_limits<double>::infinity();  // something is to be done
};

}  // namespace grapevine
