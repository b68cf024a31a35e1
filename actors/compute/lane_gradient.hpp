// LaneGradient: one gradient on its way through a lane of a device.
//
//   begin()   the owner: slots for the results, and the lane waits for x
//   queue()   the thread of the lane: the gradient's own work
//   end()     the owner: a fence after it
//   see()     the owner, once the fence has happened: the loss and g, or there was too little
//             memory
//
// The buffers that the lane reads are returned when they have been read, not when the work is
// queued. So a LaneGradient is kept until then.
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
  GradientJob give_back() { return std::move(job_); }  // of a gradient that has not begun
  /// `thread` as in Objective. REQUIRES: no other thread uses this lane.
  bool queue(DeviceShare&, std::shared_ptr<Objective>, int thread);
  bool end(DeviceShare&);
  const Fence& computed() const { return computed_; }
  Computed see();

  const GradientJob& job() const { return job_; }

 private:
  GradientJob job_;
  Stream lane_;
  std::shared_ptr<Objective> objective_;  // the one that was asked
  int thread_ = 0;
  Lease g_, loss_;
  Fence computed_;
  SilenceWatch::Expected expected_;
  std::shared_ptr<std::atomic<bool>> no_memory_ = std::make_shared<std::atomic<bool>>(false);
};

/// The gradient; zero if the objective has none: then rounds only gossip.
double gradient_or_zero(Objective&, int thread, int rank, uint64_t index, ConstVec x, Vec g);

}  // namespace grapevine
