// Compute: runs a gradient somewhere and answers the worker by message. The worker cannot tell
// where.
//
// ThreadCompute: a pool of LibTorch threads, the wall clock. DeviceCompute (device_compute.hpp):
// the lanes of a device, the same clock. InlineCompute: in the caller, and the answer arrives when
// the modelled time is over, the virtual clock. A slow rank is an answer that comes later, never a
// thread that sleeps.
//
// Who runs the actors. A thread that has its core to itself runs those that its gradient makes
// ready: no other is woken. Where the cores are contended (CoreShare) that thread may lose its core
// in the middle of an actor, which all its neighbours then wait for. So there it hands the answer
// to the scheduler's helpers, and from then on computes at a lower priority than they and the
// links.
#pragma once
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "actors/clocks/run_clock.hpp"
#include "actors/clocks/wall_scheduler.hpp"
#include "actors/core_share.hpp"
#include "actors/device_share.hpp"
#include "actors/protocol.hpp"
#include "models/objective.hpp"

namespace grapevine {

struct GradientJob {
  int rank = 0;
  uint64_t index = 0;     // which of the rank's gradients
  Lease x;                // released when the gradient is there
  double slowness = 1;    // factor on its duration
  bool instant = false;   // an event of a Poisson process, on the virtual clock
  WorkerActor answer_to;  // gets Computed
};

/// At `at`, from a clock's timer.
void answer_at(caf::actor_system&, RunClock::Instant at, const WorkerActor&, Computed);

class Compute {
 public:
  virtual ~Compute() = default;
  virtual void submit(GradientJob) = 0;
  /// Runs a task of the node's own (a spectrum, a test of the model); `thread` as in Objective.
  virtual void post(std::function<void(int thread)> task) = 0;
  virtual void stop() = 0;  // what has not begun is dropped; returns when all threads have ended
  /// Before the first job, where there is a device: who owns it.
  virtual void serve(ToOwner) {}
};

class ThreadCompute final : public Compute {
 public:
  /// Throws std::system_error where the system has no such number of threads.
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
  std::mutex mutex_;  // guards what follows
  std::condition_variable ready_;
  std::deque<Task> tasks_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

struct ComputeModel {
  double gradient_s = 1;
  double spread = 0;  // sigma of the log-normal factor, whose mean is 1
  uint64_t seed = 1;
};

class InlineCompute final : public Compute {
 public:
  using Log = std::function<void(uint64_t word)>;  // into the event-log hash

  /// On a device if there is one, where the CPU twin of a gradient is a pass of a lane.
  InlineCompute(RunClock clock, caf::actor_system&, std::shared_ptr<Objective>, ComputeModel, Log,
                std::shared_ptr<DeviceShare> = nullptr);

  void submit(GradientJob) override;
  void post(std::function<void(int thread)> task) override { task(0); }
  void stop() override { device_.reset(); }
  void serve(ToOwner to_owner) override { to_owner_ = std::move(to_owner); }

 private:
  void submit_to_lane(GradientJob);
  void answer(const GradientJob&, double begun_s, double loss, Lease g);

  RunClock clock_;
  caf::actor_system& system_;
  std::shared_ptr<Objective> objective_;
  ComputeModel model_;
  Log log_;
  std::shared_ptr<DeviceShare> device_;
  ToOwner to_owner_;
  SnapshotPool gradients_;
};

}  // namespace grapevine
