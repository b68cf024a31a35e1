// Compute on the host. ThreadCompute: a pool of LibTorch threads, under the wall clock.
// InlineCompute: in the caller, under the virtual clock; the answer arrives when the modelled time
// is over.
//
// Which thread runs the actors. A thread with a core to itself runs the actors that its gradient
// makes ready, and wakes no other thread. If the cores are contended (CoreShare), that thread may
// lose its core in the middle of an actor, and all neighbours would wait for this actor. Then it
// gives its answers to the scheduler's threads, and computes at a lower priority than these and the
// links.
#pragma once
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "actors/clocks/run_clock.hpp"
#include "actors/clocks/wall_scheduler.hpp"
#include "actors/compute/compute.hpp"
#include "actors/compute/core_share.hpp"
#include "actors/device/device_share.hpp"
#include "kernels/base/mutex.hpp"
#include "kernels/memory/snapshot_pool.hpp"
#include "models/objective.hpp"

namespace grapevine {

class ThreadCompute final : public Compute {
 public:
  /// Throws std::system_error if the system cannot start that many threads.
  ThreadCompute(RunClock clock, caf::actor_system&, std::shared_ptr<Objective>, int threads);
  ~ThreadCompute() override { stop(); }

  void submit(GradientJob) override;
  void post(std::function<void(int thread)> task) override;
  void stop() override;

 private:
  struct Lane {  // a thread that computes
    int number;
    WallScheduler::Visitor visitor;
    CoreShare cores;
    bool yields = false;  // its priority has been lowered
  };
  using Task = std::function<void(Lane&)>;

  void put(Task);
  void work(int number);
  void run(Lane&, GradientJob&);

  RunClock clock_;
  caf::actor_system& system_;
  std::shared_ptr<Objective> objective_;
  SnapshotPool gradients_;
  Mutex mutex_;
  std::condition_variable ready_;
  std::deque<Task> tasks_ GV_GUARDED_BY(mutex_);
  bool stopping_ GV_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

struct ComputeModel {
  double gradient_s = 1;
  double spread = 0;  // sigma of the log-normal factor, whose mean is 1
  uint64_t seed = 1;
};

class InlineCompute final : public Compute, public std::enable_shared_from_this<InlineCompute> {
 public:
  using Log = std::function<void(uint64_t word)>;  // into the event-log hash

  /// Computes on a device if there is one; there a pass of a lane runs the CPU code of a gradient.
  InlineCompute(RunClock clock, std::shared_ptr<Objective>, ComputeModel, Log,
                std::shared_ptr<DeviceShare> = nullptr);

  void submit(GradientJob) override;
  void post(std::function<void(int thread)> task) override { task(0); }
  void stop() override { device_.reset(); }
  void serve(ToOwner to_owner) override { to_owner_ = std::move(to_owner); }

 private:
  void submit_to_lane(GradientJob);
  void answer(const GradientJob&, double begun_s, double loss, Lease g);

  RunClock clock_;
  std::shared_ptr<Objective> objective_;
  ComputeModel model_;
  Log log_;
  std::shared_ptr<DeviceShare> device_;
  ToOwner to_owner_;
  SnapshotPool gradients_;
};

}  // namespace grapevine
