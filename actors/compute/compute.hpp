// Compute: computes a gradient and answers the worker by message. The worker does not know where it
// is computed.
//
// On the host: threads under the wall clock, the caller under the virtual clock (host_compute.hpp).
// On a device: its lanes (device_compute.hpp). For a slow rank the answer arrives later; no thread
// sleeps.
#pragma once
#include <cstdint>
#include <functional>

#include "actors/mail/protocol.hpp"

namespace grapevine {

struct GradientJob {
  int rank = 0;
  uint64_t index = 0;     // which one of the rank's gradients
  Lease x;                // released when the gradient is computed
  double slowness = 1;    // factor on its duration
  bool instant = false;   // an event of a Poisson process, on the virtual clock
  WorkerActor answer_to;  // gets Computed
};

class Compute {
 public:
  virtual ~Compute() = default;
  virtual void submit(GradientJob) = 0;
  /// Runs a task of the node (a spectrum, a test of the model); `thread` as in Objective.
  virtual void post(std::function<void(int thread)> task) = 0;
  /// Runs a short task on a separate thread, or drops it at the end. Without such a thread the task
  /// runs at once.
  virtual void help(std::function<void()> task) { task(); }
  virtual void stop() = 0;  // drops what has not begun; returns when all threads have ended
  /// Sets the owner of the device (fence.hpp: ToOwner), before the first job, if there is a device.
  virtual void serve(std::function<void(std::function<void()>)>) {}
};

}  // namespace grapevine
