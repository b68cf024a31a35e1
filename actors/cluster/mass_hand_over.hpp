// MassHandOver: what push-sum would lose with ranks that leave, their weight and weighted mean,
// goes to a rank of another node. A state machine without I/O, for both ends.
//
//   giver                                heir
//   MASS w, x     ------------------->   kept
//                 <-------------------
//                       RECEIPT
//   LEFT          ------------------->   the rank inherits, between two phases of the first epoch
//                                        without the giver
//
// The giver's last word, which membership spreads, is what hands over: it says that it has left
// with a receipt alone, and an heir inherits on that word alone. A hand-over has one heir, and the
// giver's incarnation for a number. Where the heir is silent or gone, and where others have taken
// the giver for dead, the giver goes on in its next incarnation and with another heir; what an
// heir has of an earlier one is void. So the mass is at one place at any time, whatever is lost,
// repeated or cut: at the giver until it has left. Who has no receipt at its deadline says that it
// is dead, nobody inherits, and how much is lost is known.
//
// An heir that leaves itself waits for the word of its givers, and hands their mass over with its
// own. `now` as in membership.hpp.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "kernels/memory/lease.hpp"
#include "messages/control.hpp"

namespace grapevine {

struct MassEffects {
  struct Give {
    std::string to;
    PushSumMass mass;
    Payload mean;
  };
  struct Receipt {
    std::string to;
    uint64_t hand_over = 0;
  };
  struct Inherit {
    std::string from;
    uint32_t rank = 0;
    double weight = 0;
    Payload mean;
  };
  std::vector<Give> gives;
  std::vector<Receipt> receipts;
  std::vector<Inherit> inherits;
  std::string link;      // not empty: a node with which a link is needed
  bool renews = false;   // this node is to begin its next incarnation
  bool arrived = false;  // what was given from here: this node may say that it has left
  double lost = 0;       // weight of what this node could not give: it is to say that it is dead
  double timer_at = 0;   // always set; replaces the earlier one
};

class MassHandOver {
 public:
  struct Shape {
    DType dtype = DType::f32;
    uint64_t count = 0;
  };
  /// Of another node that trains: its first rank would inherit.
  struct Heir {
    std::string node;
    uint32_t rank = 0;
    bool linked = false;
  };
  /// What is known of a node that gives; no ranks: it is no member.
  struct Giver {
    uint32_t ranks = 0, incarnation = 0;
  };
  explicit MassHandOver(Shape shape) : shape_(shape) {}

  // --- the giver: give(), then view() at once and whenever it changes
  void give(double now, double weight, Payload mean);
  /// `incarnation`: this node's. `heirs`: who comes first is asked first.
  void view(double now, uint32_t incarnation, std::vector<Heir> heirs, MassEffects&);
  void receipt(const std::string& from, uint64_t hand_over, MassEffects&);
  void timer(double now, MassEffects&);
  bool gives() const { return own_.has_value(); }
  double weight() const { return own_ ? own_->weight : 0; }
  const std::string& heir() const { return heir_; }
  uint64_t number() const { return number_; }  // the incarnation of which the receipt is

  // --- the heir
  /// `serves`: the rank is one of this node's, which has not ended.
  void came(const std::string& from, const PushSumMass&, Payload mean, bool serves, const Giver&,
            MassEffects&);
  /// What is known of a member, whenever that has changed.
  void seen(const std::string& node, uint32_t incarnation, MemberState, MassEffects&);

  const std::map<std::string, uint64_t>& refused() const { return refused_; }  // by reason
  size_t kept() const { return kept_.size(); }

 private:
  struct Own {
    double weight = 0;
    Payload mean;
    double until_s = 0;  // the deadline
  };
  struct Kept {
    MassEffects::Inherit hand_over;
    uint64_t number = 0;
    bool dead = false;  // it may have left, for all that others know
  };

  void go_on(double now, MassEffects&);
  void choose(double now, MassEffects&);
  const Heir* another() const;
  void add(const MassEffects::Inherit&);
  std::string complaint_about(const PushSumMass&, const Payload& mean, bool serves,
                              const Giver&) const;
  bool has_room(const std::string& from);
  void finish(MassEffects& out) const;

  Shape shape_;
  std::optional<Own> own_;
  std::vector<Heir> heirs_;
  std::set<std::string> tried_;
  std::string heir_;  // empty: none yet
  uint32_t heirs_rank_ = 0;
  uint32_t incarnation_ = 0;  // of this node
  uint64_t number_ = 0;       // of the incarnation in which the heir was chosen
  bool renewing_ = false, confirmed_ = false;
  double again_at_ = 0, heir_until_s_ = 0;
  std::map<std::string, Kept> kept_;       // by giver
  std::map<std::string, uint64_t> taken_;  // the number of each giver's last one
  std::map<std::string, uint64_t> refused_;
};

}  // namespace grapevine
