// DeviceCompute: gradients on the lanes of a device, under the wall clock.
//
// Each lane has a stream and a thread that queues on it, so the milliseconds that LibTorch takes to
// queue work delay no exchange. The owner of the device, the state actor, does all else (slots,
// waits, fences), in tasks that it receives. So only messages and fences order the work of lanes
// and rules. A lane computes one gradient at a time; a job waits until a lane is free.
//
// One more thread, numbered after the lanes, runs the tasks of the node. Another one copies within
// the host's memory for the owner of the device.
#pragma once
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "actors/clocks/run_clock.hpp"
#include "actors/compute/compute.hpp"
#include "actors/compute/lane_gradient.hpp"

namespace grapevine {

class DeviceCompute final : public Compute, public std::enable_shared_from_this<DeviceCompute> {
 public:
  /// REQUIRES: the objective is made for one thread more than the device has lanes.
  DeviceCompute(RunClock, std::shared_ptr<Objective>, std::shared_ptr<DeviceShare>);
  ~DeviceCompute() override;

  void serve(ToOwner to_owner) override { to_owner_ = std::move(to_owner); }
  void submit(GradientJob) override;
  void post(std::function<void(int thread)> task) override;
  void help(std::function<void()> task) override;
  /// If a lost device blocks a thread in a call, the thread is detached and keeps all that it may
  /// use.
  void stop() override;

 private:
  using Task = std::function<void()>;
  class Line;  // one thread's tasks

  // Called by the owner.
  void begin_waiting();
  void end(size_t lane, const std::shared_ptr<LaneGradient>&, double begun_s);
  void answer(size_t lane, LaneGradient&, double begun_s);

  const RunClock clock_;
  const std::shared_ptr<Objective> objective_;
  const std::shared_ptr<DeviceShare> device_;
  ToOwner to_owner_;
  // Used by the owner alone.
  std::deque<GradientJob> waiting_;
  std::vector<size_t> idle_;                  // lanes
  std::vector<std::unique_ptr<Line>> lines_;  // of the lanes, the node's, and the helper's
};

}  // namespace grapevine
