// DeviceCompute: gradients on the lanes of a device, under the wall clock.
//
// Each lane has a stream, and a thread that queues on it: what LibTorch takes a millisecond to
// queue keeps nobody from exchanging. All else about the device (slots, waits, fences) is done by
// its owner, the state actor, in tasks that are sent to it: so order between lanes and rules is
// made by messages and fences alone. A lane carries one gradient at a time; a job that finds all
// lanes at work waits for the first that is free.
//
// One thread more, numbered after the lanes, runs the tasks of the node, and another one copies
// within the host's memory, so that the owner of the device need not.
#pragma once
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "actors/compute/compute.hpp"
#include "actors/compute/lane_gradient.hpp"

namespace grapevine {

class DeviceCompute final : public Compute, public std::enable_shared_from_this<DeviceCompute> {
 public:
  /// REQUIRES: the objective is made for a thread more than the device has lanes.
  DeviceCompute(RunClock, caf::actor_system&, std::shared_ptr<Objective>,
                std::shared_ptr<DeviceShare>);
  ~DeviceCompute() override;

  void serve(ToOwner to_owner) override { to_owner_ = std::move(to_owner); }
  void submit(GradientJob) override;
  void post(std::function<void(int thread)> task) override;
  void help(std::function<void()> task) override;
  /// A thread that a lost device keeps in a call is left behind, with all that it may touch.
  void stop() override;

 private:
  using Task = std::function<void()>;
  class Line;  // of one thread

  // In the owner's time.
  void begin_waiting();
  void end(size_t lane, const std::shared_ptr<LaneGradient>&, double begun_s);
  void answer(size_t lane, LaneGradient&, double begun_s);

  const RunClock clock_;
  caf::actor_system& system_;
  const std::shared_ptr<Objective> objective_;
  const std::shared_ptr<DeviceShare> device_;
  ToOwner to_owner_;
  // The owner's:
  std::deque<GradientJob> waiting_;
  std::vector<size_t> idle_;                  // lanes
  std::vector<std::unique_ptr<Line>> lines_;  // of the lanes, the node's, and the helper's
};

}  // namespace grapevine
