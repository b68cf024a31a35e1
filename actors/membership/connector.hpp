// Connector: which nodes a node needs links to, and which addresses it dials when. For
// membership.hpp, which decides which members are alive. No I/O.
//
// Up to nine nodes are all linked. In larger runs a node needs links to the nodes that its ranks
// exchange with; to the next live node by name, so that every node has a link to a node that probes
// it; and to one that a hash of the two names selects. Such a ring and such a selection each reach
// all nodes in some log(n) steps. If the next node by name does not answer, the node links to more
// of those that follow, until more of them answer than not: each second it tries twice as many.
// Further links are needed for a while: for a probe, a transfer, or to find the members. A link
// that this node has needed and no longer needs is closed after ten seconds. A link that only the
// other end needs is closed by that end. If there are more than kLinksAtMost links, the oldest is
// closed.
//
// Of two nodes that need a link, the one with the lower name dials at once, the other half a second
// later. Then each tries again after 50 ms, doubling to 5 s, with jitter. The addresses to join are
// tried in the same way (finally every 30 s, if other nodes are linked) until each has led to a
// node, and again while no other node is linked. Every 3 s one random dead member is dialled, so
// the halves of a partition find each other again.
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

  /// The nodes that the ranks here exchange with, until the next call.
  void exchange_with(const std::vector<uint32_t>& members);
  /// The member needs a link at once, and for some seconds.
  void need(double now, uint32_t member);
  void changed() { chosen_ = false; }  // the state of some member

  bool linked(uint32_t member) const { return member < links_.size() && links_[member].up; }
  bool alone() const;                  // no link stands
  bool broke(uint32_t member) const {  // its last link, which nobody had closed
    return member < links_.size() && links_[member].broke;
  }
  bool needs(double now, uint32_t member) const;
  /// Not only for a while.
  bool keeps(uint32_t member) const { return member < links_.size() && links_[member].chosen; }
  /// The live member that listens at this port, if it was linked in this incarnation and is no
  /// longer: its process is gone. (An address that never led to it proves nothing: it may be
  /// wrong.)
  std::optional<uint32_t> owner_of(const std::string& address, const MemberTable&) const;

  void run(double now, const MemberTable&, Random&, std::vector<std::string>& dials,
           std::vector<std::string>& closes);
  double next() const { return due_; }

  /// A dead member of `run` that has a link: probe it instead of dialling it.
  std::optional<uint32_t> revisit();

 private:
  struct Link {
    bool up = false, was_up = false;
    bool wanted = false;                     // in wanted_
    bool chosen = false, exchanges = false;  // needed as long as that is so
    double needed_until = 0;                 // for a while
    double close_at = kNotOurs;              // if it is up and not needed until then
    bool broke = false;
    double up_since = 0, wanted_since = 0, goodbye_at = -kNotOurs;
    double dial_at = 0, wait = 0;
  };
  struct Join {
    std::string address;
    std::optional<uint32_t> member;  // whom it led to
    double dial_at = 0, wait = 0;
  };

  static bool has_led(const Join&, bool any_linked);
  Link& link(uint32_t member);
  void want(double at, uint32_t member);
  void choose(double now, const MemberTable&);
  bool is_well(double now, uint32_t member, const MemberTable&);
  void close(double now, const MemberTable&, std::vector<std::string>& closes);
  void redial_dead(const MemberTable&, Random&, std::vector<std::string>& dials);

  static constexpr double kNotOurs = std::numeric_limits<double>::infinity();

  std::vector<Link> links_;       // by index of the table
  std::vector<uint32_t> wanted_;  // live members that are needed, without a link
  std::vector<uint32_t> exchange_with_;
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
