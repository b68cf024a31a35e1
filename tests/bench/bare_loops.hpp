// Bare training loops in C++: what a person would write without Grapevine, to measure against.
//
// One replica of cnn-small or cnn-big on made-up 28x28 images, normalised once to fp32 and gathered
// row by row into one batch; or of gpt-char on a made-up text. torch::nn layers. Timing only: the
// images and the text are noise.
#pragma once
#include <memory>

namespace grapevine::bench {

enum class Update {
  torch_sgd,  // torch::optim::SGD, momentum 0.9, weight decay 5e-4
  fused,      // one pass over flat vectors
};

enum class Order {
  channels_last,  // one-channel strides, pool before relu: as Grapevine's networks
  plain,          // contiguous images, relu before pool: the usual loop
};

class BareLoop {
 public:
  virtual ~BareLoop() = default;
  virtual double step() = 0;  // forward, backward, update; returns the loss
};

/// width 16: cnn-small, 32: cnn-big. One object per thread.
std::unique_ptr<BareLoop> make_bare_loop(int width, int batch, Update, Order);
/// gpt-char of 65 characters, torch::optim::AdamW, gradients of norm 1 at most. One object per
/// thread.
std::unique_ptr<BareLoop> make_bare_gpt(int batch);

}  // namespace grapevine::bench
