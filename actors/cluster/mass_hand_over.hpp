// MassHandOver: what push-sum would lose with ranks that leave, their weight and weighted mean,
// goes to a rank of another node. A state machine without I/O, for both ends.
//
//   giver                                heir
//   MASS w, x     ------------------->   kept until the giver is known to have left: what is under
//                 <-------------------   way in the old epoch is dropped, then the rank inherits
//                       RECEIPT
//
// The giver sends again every half a second until the receipt is there; the heir knows what it has
// by the giver's number, and inherits once. `now` as in membership.hpp.
#pragma once
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "kernels/lease.hpp"
#include "messages/parcel.hpp"

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
  bool arrived = false;  // what was given from here
  double timer_at = 0;   // always set; replaces the earlier one
};

class MassHandOver {
 public:
  struct Shape {
    DType dtype = DType::f32;
    uint64_t count = 0;
  };
  explicit MassHandOver(Shape shape) : shape_(shape) {}

  void give(double now, const std::string& heir, uint32_t rank, double weight, Payload mean,
            MassEffects&);
  void receipt(const std::string& from, uint64_t hand_over, MassEffects&);
  void timer(double now, MassEffects&);
  bool waits() const { return giving_; }  // for the receipt
  const std::string& heir() const { return given_.to; }

  /// `serves`: the rank is one of this node's; `ranks_of_giver`: 0 where it is no member.
  void came(const std::string& from, const PushSumMass&, Payload mean, bool serves,
            uint32_t ranks_of_giver, MassEffects&);
  /// It is out of the graph.
  void gone(const std::string& node, MassEffects&);

  const std::map<std::string, uint64_t>& refused() const { return refused_; }  // by reason
  size_t kept() const { return kept_.size(); }

 private:
  std::string complaint_about(const PushSumMass&, const Payload& mean, bool serves,
                              uint32_t ranks_of_giver) const;
  void finish(MassEffects& out) const;

  Shape shape_;
  bool giving_ = false;
  MassEffects::Give given_;
  double again_at_ = 0;
  std::map<std::string, MassEffects::Inherit> kept_;  // by giver
  std::map<std::string, uint64_t> taken_;             // the number of each giver's last one
  std::map<std::string, uint64_t> refused_;
};

}  // namespace grapevine
