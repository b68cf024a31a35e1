#include "tests/bench/bare_resnet.hpp"

#include <ATen/autocast_mode.h>
#include <c10/core/Event.h>
#include <torch/torch.h>

#include <array>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <utility>

#include "models/network/gpu.hpp"

namespace grapevine::bench {
namespace {

namespace nn = torch::nn;

constexpr int64_t kImages = 4096, kChannels = 3, kSide = 32;
constexpr int64_t kPixels = kChannels * kSide * kSide;

nn::Conv2d convolution(int64_t in, int64_t out, int64_t size, int64_t stride) {
  return nn::Conv2d(nn::Conv2dOptions(in, out, size).stride(stride).padding(size / 2).bias(false));
}

struct BlockImpl : nn::Module {
  nn::Conv2d first, second, across{nullptr};
  nn::BatchNorm2d first_norm, second_norm, across_norm{nullptr};
  BlockImpl(int64_t in, int64_t out, int64_t stride)
      : first(convolution(in, out, 3, stride)),
        second(convolution(out, out, 3, 1)),
        first_norm(out),
        second_norm(out) {
    register_module("first", first), register_module("first_norm", first_norm);
    register_module("second", second), register_module("second_norm", second_norm);
    if (stride == 1 && in == out) return;
    across = register_module("across", convolution(in, out, 1, stride));
    across_norm = register_module("across_norm", nn::BatchNorm2d(out));
  }
  at::Tensor forward(const at::Tensor& x) {
    at::Tensor y = first_norm(first(x)).relu_();
    y = second_norm(second(y));
    return (y + (across ? across_norm(across(x)) : x)).relu_();
  }
};
TORCH_MODULE(Block);

nn::Sequential resnet18() {
  nn::Sequential net(convolution(kChannels, 64, 3, 1), nn::BatchNorm2d(64), nn::ReLU());
  int64_t in = 64;
  for (const int64_t out : {64, 128, 256, 512}) {
    net->push_back(Block(in, out, out == 64 ? 1 : 2));
    net->push_back(Block(out, out, 1));
    in = out;
  }
  net->push_back(nn::AdaptiveAvgPool2d(nn::AdaptiveAvgPool2dOptions(1)));
  net->push_back(nn::Flatten());
  net->push_back(nn::Linear(512, 10));
  return net;
}

constexpr double kRate = 1e-3, kMomentum = 0.9, kWeightDecay = 5e-4;

/// The parts of a step, and a batch in pinned memory.
class Loop : public BareResnet {
 protected:
  Loop(int gpu, int batch, bool bf16)
      : device_(gpu < 0 ? at::Device(at::kCPU)
                        : at::Device(at::kCUDA, static_cast<at::DeviceIndex>(gpu))),
        batch_(batch),
        bf16_(bf16),
        net_(resnet18()),
        images_(torch::rand({kImages, kPixels})),
        labels_(torch::randint(10, {kImages}, torch::kLong)) {
    net_->to(device_);
  }

  struct Batch {
    at::Tensor input, target;
  };
  Batch make_batch() const {
    return {torch::empty({batch_, kPixels}, host(at::kFloat)),
            torch::empty({batch_}, host(at::kLong))};
  }
  void gather(const Batch& into) {
    for (int64_t k = 0; k < batch_; ++k, next_ = (next_ + 37) % kImages) {
      std::memcpy(into.input.data_ptr<float>() + k * kPixels,
                  images_.data_ptr<float>() + next_ * kPixels, kPixels * sizeof(float));
      into.target.data_ptr<int64_t>()[k] = labels_.data_ptr<int64_t>()[next_];
    }
  }
  at::Tensor backward(const Batch& batch) {
    const auto images = batch.input.as_strided({batch_, kChannels, kSide, kSide},
                                               {kPixels, 1, kSide * kChannels, kChannels});
    at::autocast::set_autocast_dtype(device_.type(), at::kBFloat16);
    at::autocast::set_autocast_enabled(device_.type(), bf16_);
    const at::Tensor loss = nn::functional::cross_entropy(net_->forward(images.to(device_, true)),
                                                          batch.target.to(device_, true));
    at::autocast::set_autocast_enabled(device_.type(), false);
    at::autocast::clear_cache();
    loss.backward();
    return loss;
  }
  at::TensorOptions host(at::ScalarType type) const {
    return at::TensorOptions(type).pinned_memory(device_.is_cuda());
  }

  const at::Device device_;
  const int64_t batch_;
  const bool bf16_;
  int64_t next_ = 0;
  nn::Sequential net_;
  at::Tensor images_, labels_;
};

class PlainLoop final : public Loop {
 public:
  PlainLoop(int gpu, int batch, bool bf16)
      : Loop(gpu, batch, bf16),
        batch_here_(make_batch()),
        optimizer_(net_->parameters(),
                   torch::optim::SGDOptions(kRate).momentum(kMomentum).weight_decay(kWeightDecay)) {
  }

  void step() override {
    finish();  // what waits in pinned memory has been read
    gather(batch_here_);
    optimizer_.zero_grad();
    loss_ = backward(batch_here_);
    optimizer_.step();
  }
  void finish() override {
    if (loss_.defined()) last_ = loss_.item<float>();
  }

 private:
  const Batch batch_here_;
  at::Tensor loss_;
  float last_ = 0;
  torch::optim::SGD optimizer_;
};

/// Two batches in turn, each filled while the GPU computes on the other; nothing waits for a loss,
/// and a step is one call.
class GoodLoop final : public Loop {
 public:
  GoodLoop(int gpu, int batch, bool bf16)
      : Loop(gpu, batch, bf16), parameters_(net_->parameters()) {
    for (Place& place : places_)
      place.batch = make_batch();
    for (const at::Tensor& parameter : parameters_)
      momenta_.push_back(torch::zeros_like(parameter));
  }

  void step() override {
    Place& place = places_[steps_++ % places_.size()];
    if (place.read) place.read->synchronize();
    gather(place.batch);
    loss_ = backward(place.batch);
    if (device_.is_cuda()) {
      place.read.emplace(device_.type());
      place.read->record(c10::impl::VirtualGuardImpl(device_.type()).getStream(device_));
    }
    const c10::NoGradGuard no_gradients;
    std::vector<at::Tensor> gradients;
    for (at::Tensor& parameter : parameters_)
      gradients.push_back(std::exchange(parameter.mutable_grad(), at::Tensor()));
    at::_fused_sgd_(parameters_, gradients, momenta_, kWeightDecay, kMomentum, kRate, 0, false,
                    false, false);
  }
  void finish() override {
    if (loss_.defined()) last_ = loss_.item<float>();
  }

 private:
  struct Place {
    Batch batch;
    std::optional<c10::Event> read;
  };
  std::array<Place, 2> places_;
  size_t steps_ = 0;
  std::vector<at::Tensor> parameters_, momenta_;
  at::Tensor loss_;
  float last_ = 0;
};

}  // namespace

std::unique_ptr<BareResnet> BareResnet::make(Kind kind, int gpu, int batch, bool bf16) {
  if (gpu >= 0)
    if (const Status found = find_gpu(gpu); !found) throw std::runtime_error(found.error().message);
  at::set_num_threads(1);
  if (kind == Kind::plain) return std::make_unique<PlainLoop>(gpu, batch, bf16);
  return std::make_unique<GoodLoop>(gpu, batch, bf16);
}

}  // namespace grapevine::bench
