#include "tests/bench/bare_loops.hpp"

#include <torch/torch.h>

#include <cstring>

#include "kernels/base/random.hpp"

namespace grapevine::bench {
namespace {

namespace nn = torch::nn;

constexpr int64_t kImages = 4096;
constexpr int64_t kPixels = 28 * 28;
constexpr double kLearningRate = 1e-3, kMomentum = 0.9, kDecay = 5e-4;

nn::Sequential network(int width, Order order) {
  const auto convolution = [](int in, int out) {
    return nn::Conv2d(nn::Conv2dOptions(in, out, 3).padding(1));
  };
  const int hidden = width == 16 ? 64 : 128;
  nn::Sequential net;
  for (const auto& [in, out] : {std::pair(1, width), {width, 2 * width}}) {
    net->push_back(convolution(in, out));
    if (order == Order::plain) net->push_back(nn::ReLU());
    net->push_back(nn::MaxPool2d(2));
    if (order == Order::channels_last) net->push_back(nn::ReLU());
  }
  net->push_back(nn::Flatten());
  net->push_back(nn::Linear(2 * width * 49, hidden));
  net->push_back(nn::ReLU());
  net->push_back(nn::Linear(hidden, 10));
  return net;
}

class Loop final : public BareLoop {
 public:
  Loop(int width, int batch, Update update, Order order)
      : order_(order),
        batch_(batch),
        net_(network(width, order)),
        images_(torch::empty({kImages, 1, 28, 28})),
        labels_(torch::empty({kImages}, torch::kLong)),
        input_(torch::empty({batch, 1, 28, 28})),
        target_(torch::empty({batch}, torch::kLong)) {
    Random random(1, 0, Purpose::test);
    float* pixels = images_.data_ptr<float>();
    for (int64_t k = 0; k < kImages * kPixels; ++k) pixels[k] = float(random.uniform(-1, 1));
    for (int64_t k = 0; k < kImages; ++k) labels_.data_ptr<int64_t>()[k] = random.below(10);
    if (update == Update::torch_sgd) {
      const auto options =
          torch::optim::SGDOptions(kLearningRate).momentum(kMomentum).weight_decay(kDecay);
      optimizer_ = std::make_unique<torch::optim::SGD>(net_->parameters(), options);
    } else {
      flatten();
    }
  }

  double step() override {
    for (int64_t k = 0; k < batch_; ++k, next_ = (next_ + 37) % kImages) {
      std::memcpy(input_.data_ptr<float>() + k * kPixels,
                  images_.data_ptr<float>() + next_ * kPixels, kPixels * sizeof(float));
      target_.data_ptr<int64_t>()[k] = labels_.data_ptr<int64_t>()[next_];
    }
    const auto shown = order_ == Order::plain
                           ? input_
                           : input_.as_strided(input_.sizes(), {kPixels, 1, 28, 1});
    if (optimizer_) {
      optimizer_->zero_grad();
    } else {
      g_.zero_();
    }
    const auto loss = nn::functional::cross_entropy(net_->forward(shown), target_);
    loss.backward();
    if (optimizer_) {
      optimizer_->step();
    } else {
      update_fused();
    }
    return loss.item<double>();
  }

 private:
  void flatten() {
    int64_t size = 0, at = 0;
    for (const auto& p : net_->parameters()) size += p.numel();
    x_ = torch::empty({size});
    g_ = torch::zeros({size});
    v_ = torch::zeros({size});
    const torch::NoGradGuard no_gradients;
    for (auto& p : net_->parameters()) {
      const auto mine = x_.narrow(0, at, p.numel()).view(p.sizes());
      mine.copy_(p);
      p.set_data(mine);
      p.mutable_grad() = g_.narrow(0, at, p.numel()).view(p.sizes());
      at += p.numel();
    }
  }

  void update_fused() {
    float* __restrict x = x_.data_ptr<float>();
    float* __restrict v = v_.data_ptr<float>();
    const float* __restrict g = g_.data_ptr<float>();
    const float momentum = kMomentum, decay = kDecay, lr = kLearningRate;
    for (int64_t k = 0; k < x_.numel(); ++k) {
      v[k] = momentum * v[k] + g[k] + decay * x[k];
      x[k] -= lr * v[k];
    }
  }

  Order order_;
  int64_t batch_;
  int64_t next_ = 0;
  nn::Sequential net_;
  torch::Tensor images_, labels_, input_, target_;
  torch::Tensor x_, g_, v_;  // flat, for the fused update
  std::unique_ptr<torch::optim::SGD> optimizer_;
};

}  // namespace

std::unique_ptr<BareLoop> make_bare_loop(int width, int batch, Update update, Order order) {
  at::set_num_threads(1);
  return std::make_unique<Loop>(width, batch, update, order);
}

}  // namespace grapevine::bench
