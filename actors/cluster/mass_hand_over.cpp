#include "actors/cluster/mass_hand_over.hpp"

#include <cmath>
#include <limits>

#include "kernels/ops.hpp"

namespace grapevine {

namespace {

constexpr double kAgain_s = 0.5;
constexpr size_t kGiversAtOnce = 16, kGiversKnown = 4096;
// Push-sum keeps the weights' sum: a rank begins with 1 and may hold a multiple of it for a while.
constexpr double kWeightPerRank = 1e3;

}  // namespace

void MassHandOver::finish(MassEffects& out) const {
  out.timer_at = giving_ ? again_at_ : std::numeric_limits<double>::infinity();
}

void MassHandOver::give(double now, const std::string& heir, uint32_t rank, double weight,
                        Payload mean, MassEffects& out) {
  given_ = {heir, {given_.mass.hand_over + 1, rank, weight}, std::move(mean)};
  giving_ = true;
  again_at_ = now;
  timer(now, out);
}

void MassHandOver::timer(double now, MassEffects& out) {
  if (giving_ && now >= again_at_) {
    out.gives.push_back(given_);
    again_at_ = now + kAgain_s;
  }
  finish(out);
}

void MassHandOver::receipt(const std::string& from, uint64_t hand_over, MassEffects& out) {
  if (giving_ && from == given_.to && hand_over == given_.mass.hand_over) {
    giving_ = false;
    given_.mean = {};
    out.arrived = true;
  }
  finish(out);
}

std::string MassHandOver::complaint_about(const PushSumMass& mass, const Payload& mean, bool serves,
                                          uint32_t ranks_of_giver) const {
  if (ranks_of_giver == 0) return "mass of a stranger";
  if (!serves) return "mass for a rank of another node";
  if (!(mass.weight > 0) || !(mass.weight <= kWeightPerRank * ranks_of_giver))
    return "mass of an impossible weight";
  if (!mean || mean.dtype != shape_.dtype || mean.count != shape_.count)
    return "mass of another type or size";
  if (!all_finite({}, mean.vec())) return "mass that is not finite";
  return "";
}

void MassHandOver::came(const std::string& from, const PushSumMass& mass, Payload mean, bool serves,
                        uint32_t ranks_of_giver, MassEffects& out) {
  const std::string why = complaint_about(mass, mean, serves, ranks_of_giver);
  const auto taken = taken_.find(from);
  const bool known = taken != taken_.end() && taken->second >= mass.hand_over;
  if (!why.empty()) {
    ++refused_[why];
  } else if (!known && (kept_.size() >= kGiversAtOnce || taken_.size() >= kGiversKnown ||
                        kept_.count(from) > 0)) {
    ++refused_["mass of too many"];
  } else {
    if (!known) {
      taken_[from] = mass.hand_over;
      kept_[from] = {from, mass.rank, mass.weight, std::move(mean)};
    }
    out.receipts.push_back({from, mass.hand_over});
  }
  finish(out);
}

void MassHandOver::gone(const std::string& node, MassEffects& out) {
  if (const auto found = kept_.find(node); found != kept_.end()) {
    out.inherits.push_back(std::move(found->second));
    kept_.erase(found);
  }
  taken_.erase(node);
  finish(out);
}

}  // namespace grapevine
