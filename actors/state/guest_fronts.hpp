// GuestFronts: copies of the fronts of scripts, in the memory of the ranks (on the host or on the
// device). A front is copied there before a step and back after it. So a rule judges and takes the
// same numbers, whatever a script meanwhile writes into the shared memory.
//
// Owned and called by the state actor.
#pragma once
#include <functional>
#include <map>
#include <memory>

#include "actors/guests/guest_seat.hpp"
#include "actors/state/device_turns.hpp"
#include "kernels/passes/ops.hpp"

namespace grapevine {

class GuestFronts {
 public:
  using Seat = std::shared_ptr<GuestSeat>;
  /// As Rule::take() has them: `finite` is one double.
  struct Front {
    Vec front, base, finite;
  };

  /// `device` may be null; else it and `turns` outlive this.
  GuestFronts(DeviceShare* device, DeviceTurns& turns) : device_(device), turns_(turns) {}

  Front of(const Seat&);
  /// Copies the script's front to the memory of the rank, then calls then(). The rank is held until
  /// then() returns.
  void bring(int rank, const Seat&, std::function<void()> then);
  /// Copies the front as it is now to the script's memory, then calls then().
  void hand_over(const Seat&, std::function<void()> then);
  void clear() { copies_.clear(); }

 private:
  struct Copies {
    Buffer front, base, finite;
  };

  std::shared_ptr<Copies> copies_of(const Seat&);

  DeviceShare* device_;
  DeviceTurns& turns_;
  // A seat's next step starts from its base, whatever happens to the rank.
  std::map<std::weak_ptr<GuestSeat>, std::shared_ptr<Copies>, std::owner_less<>> copies_;
};

}  // namespace grapevine
