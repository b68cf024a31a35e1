// GuestFronts: where the fronts of scripts are while a rule takes their steps: in copies, where the
// ranks live, in the host's memory or on the device. They are brought there before a step and go
// back after it. So a rule judges and takes the same numbers, whatever a script writes meanwhile
// into the memory that it shares.
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
  /// Then(), when the script's front is where the rank lives, which is held until it is done.
  void bring(int rank, const Seat&, std::function<void()> then);
  /// Then(), when the front as it is now is where the script has it.
  void hand_over(const Seat&, std::function<void()> then);
  void clear() { copies_.clear(); }

 private:
  struct Copies {
    Buffer front, base, finite;
  };

  std::shared_ptr<Copies> copies_of(const Seat&);

  DeviceShare* device_;
  DeviceTurns& turns_;
  // Whatever becomes of the rank, a seat's next step is from its base.
  std::map<std::weak_ptr<GuestSeat>, std::shared_ptr<Copies>, std::owner_less<>> copies_;
};

}  // namespace grapevine
