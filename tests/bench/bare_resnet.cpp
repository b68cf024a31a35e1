#include "tests/bench/bare_resnet.hpp"

#include <ATen/autocast_mode.h>
#include <torch/torch.h>

#include <cstring>

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

class Loop final : public BareResnet {
 public:
  Loop(int gpu, int batch, bool bf16)
      : device_(gpu < 0 ? at::Device(at::kCPU)
                        : at::Device(at::kCUDA, static_cast<at::DeviceIndex>(gpu))),
        batch_(batch),
        bf16_(bf16),
        net_(resnet18()),
        images_(torch::rand({kImages, kPixels})),
        labels_(torch::randint(10, {kImages}, torch::kLong)),
        input_(torch::empty({batch, kPixels}, host(at::kFloat))),
        target_(torch::empty({batch}, host(at::kLong))) {
    net_->to(device_);
    optimizer_ = std::make_unique<torch::optim::SGD>(
        net_->parameters(), torch::optim::SGDOptions(1e-3).momentum(0.9).weight_decay(5e-4));
  }

  void step() override {
    finish();  // what waits in pinned memory has been read
    for (int64_t k = 0; k < batch_; ++k, next_ = (next_ + 37) % kImages) {
      std::memcpy(input_.data_ptr<float>() + k * kPixels,
                  images_.data_ptr<float>() + next_ * kPixels, kPixels * sizeof(float));
      target_.data_ptr<int64_t>()[k] = labels_.data_ptr<int64_t>()[next_];
    }
    const auto images = input_.as_strided({batch_, kChannels, kSide, kSide},
                                          {kPixels, 1, kSide * kChannels, kChannels});
    optimizer_->zero_grad();
    at::autocast::set_autocast_dtype(device_.type(), at::kBFloat16);
    at::autocast::set_autocast_enabled(device_.type(), bf16_);
    loss_ = nn::functional::cross_entropy(net_->forward(images.to(device_, true)),
                                          target_.to(device_, true));
    at::autocast::set_autocast_enabled(device_.type(), false);
    at::autocast::clear_cache();
    loss_.backward();
    optimizer_->step();
  }

  void finish() override {
    if (loss_.defined()) last_ = loss_.item<float>();
  }

 private:
  at::TensorOptions host(at::ScalarType type) const {
    return at::TensorOptions(type).pinned_memory(device_.is_cuda());
  }

  const at::Device device_;
  const int64_t batch_;
  const bool bf16_;
  int64_t next_ = 0;
  nn::Sequential net_;
  at::Tensor images_, labels_, input_, target_, loss_;
  float last_ = 0;
  std::unique_ptr<torch::optim::SGD> optimizer_;
};

}  // namespace

std::unique_ptr<BareResnet> BareResnet::make(int gpu, int batch, bool bf16) {
  at::set_num_threads(1);
  return std::make_unique<Loop>(gpu, batch, bf16);
}

}  // namespace grapevine::bench
