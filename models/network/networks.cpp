#include "models/network/networks.hpp"

#include <ATen/Context.h>

namespace grapevine {
namespace {

constexpr double kNormMomentum = 0.1;
constexpr double kNormEpsilon = 1e-5;

/// Returns the tensors of a plan in order, so each layer is one call.
class Layers {
 public:
  explicit Layers(const ForwardState& state) : state_(state) {}

  at::Tensor convolution(const at::Tensor& x, int64_t stride, int64_t padding, bool bias) {
    const at::Tensor& weight = next();
    return at::conv2d(x, weight, bias ? next() : at::Tensor(), stride, padding);
  }

  at::Tensor linear(const at::Tensor& x) {
    const at::Tensor& weight = next();
    return at::linear(x, weight, next());
  }

  at::Tensor norm(const at::Tensor& x) {
    const at::Tensor& weight = next();
    const at::Tensor& bias = next();
    const at::Tensor& mean = state_.running.at(next_running_++);
    const at::Tensor& variance = state_.running.at(next_running_++);
    return at::batch_norm(x, weight, bias, mean, variance, state_.training, kNormMomentum,
                          kNormEpsilon, at::globalContext().userEnabledCuDNN());
  }

  void finish() const {
    GV_CHECK(next_ == state_.parameters.size());
    GV_CHECK(next_running_ == state_.running.size());
  }

 private:
  const at::Tensor& next() { return state_.parameters.at(next_++); }

  const ForwardState& state_;
  size_t next_ = 0;
  size_t next_running_ = 0;
};

at::Tensor pool_and_relu(const at::Tensor& x) { return at::max_pool2d(x, 2).relu(); }

at::Tensor cnn(Layers& layers, const at::Tensor& images) {
  at::Tensor x = pool_and_relu(layers.convolution(images, 1, 1, true));
  x = pool_and_relu(layers.convolution(x, 1, 1, true));
  x = layers.linear(x.flatten(1)).relu();
  return layers.linear(x);
}

at::Tensor basic_block(Layers& layers, const at::Tensor& x, int64_t stride, bool projects) {
  at::Tensor y = layers.norm(layers.convolution(x, stride, 1, false)).relu_();
  y = layers.norm(layers.convolution(y, 1, 1, false));
  return (y + (projects ? layers.norm(layers.convolution(x, stride, 0, false)) : x)).relu_();
}

at::Tensor resnet18(Layers& layers, const at::Tensor& images) {
  at::Tensor x = layers.norm(layers.convolution(images, 1, 1, false)).relu_();
  for (int stage = 1; stage <= 4; ++stage) {
    const bool halves = stage > 1;
    x = basic_block(layers, x, halves ? 2 : 1, halves);
    x = basic_block(layers, x, 1, false);
  }
  return layers.linear(at::adaptive_avg_pool2d(x, {1, 1}).flatten(1));
}

at::Tensor mlp(Layers& layers, const at::Tensor& x) {
  return layers.linear(layers.linear(x.flatten(1)).relu());
}

}  // namespace

at::Tensor forward(const NetworkPlan& plan, const ForwardState& state, const at::Tensor& batch) {
  Layers layers(state);
  at::Tensor logits;
  if (plan.model == "linear") {
    logits = layers.linear(batch.flatten(1));
  } else if (plan.model == "mlp") {
    logits = mlp(layers, batch);
  } else if (plan.model == "resnet18") {
    logits = resnet18(layers, batch);
  } else {
    logits = cnn(layers, batch);
  }
  layers.finish();
  return logits;
}

}  // namespace grapevine
