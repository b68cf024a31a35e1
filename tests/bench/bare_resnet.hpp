// Bare loops of LibTorch's C++ API, as a person would write them without Grapevine: ResNet-18 on
// images of 32x32, gathered row by row into pinned memory, SGD with momentum and weight decay.
// Timing only: the images are noise.
#pragma once
#include <memory>

namespace grapevine::bench {

class BareResnet {
 public:
  enum class Kind {
    plain,  // as in a tutorial: torch::optim's steps, and each loss is read
    good    // two batches in turn, fused steps, nothing waits for a loss
  };
  /// gpu -1: on the CPU.
  static std::unique_ptr<BareResnet> make(Kind, int gpu, int batch, bool bf16);
  virtual ~BareResnet() = default;
  virtual void step() = 0;    // queued
  virtual void finish() = 0;  // all of it has happened
};

}  // namespace grapevine::bench
