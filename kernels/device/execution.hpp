// Execution: where and how a pass runs. Every rule has one and gives it to each pass.
#pragma once
#include <cstdint>

namespace grapevine {

class Device;     // kernels/device/device.hpp
class ForkJoin;   // kernels/base/fork_join.hpp
class Workspace;  // kernels/passes/workspace.hpp

/// A queue of work that a device executes in order.
struct Stream {
  uint32_t id = 0;
  bool operator==(const Stream&) const = default;
};

/// Without a device, a pass runs at once on this thread; `pool` (may be null) splits passes over
/// more than 1 MiB per vector. With a device, all views are in its memory, and the pass is queued
/// on `stream`: it is not done when the call returns. No pass reports a failure: a device that
/// fails is lost, and its owner is told. Vectors are allocated in the workspace, which also returns
/// the numbers that passes compute.
struct Execution {
  ForkJoin* pool = nullptr;
  Device* device = nullptr;
  Stream stream = {};
  Workspace* workspace = nullptr;
};

}  // namespace grapevine
