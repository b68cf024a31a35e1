#include "actors/cluster/mass_hand_over.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "kernels/memory/snapshot_pool.hpp"
#include "kernels/passes/ops.hpp"

namespace grapevine {

namespace {

constexpr double kAgain_s = 0.5;
constexpr double kHeir_s = 3;       // without a receipt, while another could be asked
constexpr double kDeadline_s = 10;  // as long as it takes at most until who is gone is known dead
constexpr size_t kGiversAtOnce = 16, kGiversKnown = 4096;
// Push-sum keeps the weights' sum: a rank begins with 1 and may hold a multiple of it for a while.
constexpr double kWeightPerRank = 1e3;

}  // namespace

void MassHandOver::finish(MassEffects& out) const {
  const bool waits = own_ && !confirmed_;
  out.timer_at =
      waits ? std::min(own_->until_s, again_at_) : std::numeric_limits<double>::infinity();
}

// --- the giver

void MassHandOver::give(double now, double weight, Payload mean) {
  own_ = Own{weight, std::move(mean), now + kDeadline_s};
  again_at_ = now;
}

void MassHandOver::view(double now, uint32_t incarnation, std::vector<Heir> heirs,
                        MassEffects& out) {
  heirs_ = std::move(heirs);
  if (incarnation > incarnation_) {  // nothing was handed over in this one
    incarnation_ = incarnation;
    heir_.clear();
    renewing_ = confirmed_ = false;
  }
  go_on(now, out);
}

void MassHandOver::timer(double now, MassEffects& out) { go_on(now, out); }

void MassHandOver::go_on(double now, MassEffects& out) {
  if (!own_ || confirmed_) return finish(out);
  const bool nobody = heirs_.empty() && heir_.empty();
  if (now >= own_->until_s || nobody) {
    out.lost = own_->weight;
    own_.reset();
    return finish(out);
  }
  const bool gone = !heir_.empty() && std::none_of(heirs_.begin(), heirs_.end(),
                                                   [&](const Heir& h) { return h.node == heir_; });
  const bool silent = !heir_.empty() && now >= heir_until_s_ && another() != nullptr;
  if ((gone || silent) && !renewing_) {
    tried_.insert(heir_);
    renewing_ = out.renews = true;
  }
  if (heir_.empty()) choose(now, out);
  if (now >= again_at_) {
    again_at_ = now + kAgain_s;
    if (!heir_.empty() && !renewing_)
      out.gives.push_back({heir_, {number_, heirs_rank_, own_->weight}, own_->mean});
  }
  finish(out);
}

/// Who is linked and was not asked before; nullptr: nobody but who is asked now.
const MassHandOver::Heir* MassHandOver::another() const {
  for (const bool again : {false, true})
    for (const Heir& h : heirs_)
      if (h.linked && h.node != heir_ && (again || tried_.count(h.node) == 0)) return &h;
  return nullptr;
}

// Not before it is known what becomes of the mass that this node was to inherit.
void MassHandOver::choose(double now, MassEffects& out) {
  const bool waits = !kept_.empty() && now < own_->until_s - kDeadline_s / 2;
  if (waits) return;
  const Heir* next = another();
  if (next == nullptr) {
    if (!heirs_.empty()) out.link = heirs_.front().node;
    return;
  }
  heir_ = next->node;
  heirs_rank_ = next->rank;
  if (tried_.count(heir_) > 0) tried_.clear();
  number_ = incarnation_;
  heir_until_s_ = now + kHeir_s;
  again_at_ = now;
}

void MassHandOver::receipt(const std::string& from, uint64_t hand_over, MassEffects& out) {
  if (own_ && !renewing_ && !confirmed_ && from == heir_ && hand_over == number_)
    confirmed_ = out.arrived = true;
  finish(out);
}

/// To what is handed over from here, before anybody has it.
void MassHandOver::add(const MassEffects::Inherit& hand_over) {
  Own& own = *own_;
  own.weight += hand_over.weight;
  const double share = hand_over.weight / own.weight;
  SnapshotPool pool(shape_.count, shape_.dtype, 1);
  Payload both{pool.take(), shape_.dtype, shape_.count, 0};
  const Vec mean = both.lease.writable();
  scale({}, 1 - share, own.mean.vec(), mean);
  axpy({}, share, hand_over.mean.vec(), mean);
  own.mean = std::move(both);
}

// --- the heir

std::string MassHandOver::complaint_about(const PushSumMass& mass, const Payload& mean, bool serves,
                                          const Giver& giver) const {
  if (giver.ranks == 0) return "mass of a stranger";
  if (!serves) return "mass for a rank of another node";
  if (!(mass.weight > 0) || !(mass.weight <= kWeightPerRank * giver.ranks))
    return "mass of an impossible weight";
  if (!mean || mean.dtype != shape_.dtype || mean.count != shape_.count)
    return "mass of another type or size";
  if (!all_finite({}, mean.vec())) return "mass that is not finite";
  return "";
}

bool MassHandOver::has_room(const std::string& from) {
  if (taken_.count(from) == 0 && taken_.size() >= kGiversKnown) return false;
  if (kept_.count(from) > 0 || kept_.size() < kGiversAtOnce) return true;
  const auto dead =
      std::find_if(kept_.begin(), kept_.end(), [](const auto& k) { return k.second.dead; });
  if (dead == kept_.end()) return false;
  kept_.erase(dead);
  return true;
}

void MassHandOver::came(const std::string& from, const PushSumMass& mass, Payload mean, bool serves,
                        const Giver& giver, MassEffects& out) {
  const auto taken = taken_.find(from);
  const uint64_t last = taken == taken_.end() ? 0 : taken->second;
  if (mass.hand_over == last && last > 0) {  // again
    out.receipts.push_back({from, mass.hand_over});
    return finish(out);
  }
  const std::string why = complaint_about(mass, mean, serves, giver);
  if (!why.empty()) {
    ++refused_[why];
  } else if (mass.hand_over < std::max<uint64_t>(last, giver.incarnation)) {
    ++refused_["mass of an earlier incarnation"];
  } else if (!has_room(from)) {
    ++refused_["mass of too many"];
  } else {
    taken_[from] = mass.hand_over;
    kept_[from] = {{from, mass.rank, mass.weight, std::move(mean)}, mass.hand_over, false};
    out.receipts.push_back({from, mass.hand_over});
  }
  finish(out);
}

void MassHandOver::seen(const std::string& node, uint32_t incarnation, MemberState state,
                        MassEffects& out) {
  const auto found = kept_.find(node);
  if (found == kept_.end() || incarnation < found->second.number) return finish(out);
  Kept& kept = found->second;
  kept.dead = state == MemberState::dead;
  const bool is_void = incarnation > kept.number;
  if (is_void || state == MemberState::left) {
    if (!is_void && own_ && heir_.empty()) {
      add(kept.hand_over);
    } else if (!is_void) {
      out.inherits.push_back(std::move(kept.hand_over));
    }
    kept_.erase(found);
  }
  finish(out);
}

}  // namespace grapevine
