// LaneGradient: one gradient on its way through a lane of a device.
//
//   begin()   the owner: slots to write into, and the lane waits for x
//   queue()   the thread that serves the lane: the gradient's own work
//   end()     the owner: a fence behind it
//   see()     the owner, once the fence has come: the loss and g may be read, or there was no
//             memory for it
//
// What the lane reads goes back when it is known that it has been read, not when that is queued: so
// a LaneGradient lives until then.
#pragma once
#include <atomic>
#include <memory>

#include "actors/compute/compute.hpp"
#include "actors/device/device_share.hpp"
#include "models/objective.hpp"

namespace grapevine {

class LaneGradient {
 public:
  LaneGradient(GradientJob job, Stream lane) : job_(std::move(job)), lane_(lane) {}

  /// False: the device is lost, or no slot is free.
  bool begin(DeviceShare&);
  GradientJob give_back() { return std::move(job_); }  // that has not begun
  /// `thread` as in Objective. REQUIRES: nobody else calls anything of this lane.
  bool queue(DeviceShare&, std::shared_ptr<Objective>, int thread);
  bool end(DeviceShare&);
  const Fence& computed() const { return computed_; }
  Computed see();

  const GradientJob& job() const { return job_; }

 private:
  GradientJob job_;
  Stream lane_;
  std::shared_ptr<Objective> objective_;  // that has been asked, as this thread
  int thread_ = 0;
  Lease g_, loss_;
  Fence computed_;
  SilenceWatch::Expected expected_;
  std::shared_ptr<std::atomic<bool>> no_memory_ = std::make_shared<std::atomic<bool>>(false);
};

/// If the objective has no gradients, a step is zero: rounds of gossip alone.
double gradient_or_zero(Objective&, int thread, int rank, uint64_t index, ConstVec x, Vec g);

}  // namespace grapevine
