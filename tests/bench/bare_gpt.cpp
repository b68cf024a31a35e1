// nanoGPT's laptop model (github.com/karpathy/nanoGPT) in LibTorch's C++ API, as a person would
// write it: torch::nn modules, torch::optim::AdamW, clipped gradients.
#include <torch/torch.h>

#include "kernels/base/random.hpp"
#include "tests/bench/bare_loops.hpp"

namespace grapevine::bench {
namespace {

namespace nn = torch::nn;
using torch::Tensor;

constexpr int64_t kLayers = 4, kHeads = 4, kWidth = 128, kContext = 64, kVocabulary = 65;
constexpr int64_t kTokens = 1 << 20;

nn::Linear linear(int64_t in, int64_t out) {
  return nn::Linear(nn::LinearOptions(in, out).bias(false));
}

/// LayerNorm without a bias; torch::nn::LayerNorm always has one.
struct NormImpl : nn::Module {
  NormImpl() : weight(register_parameter("weight", torch::ones({kWidth}))) {}
  Tensor forward(const Tensor& x) { return torch::layer_norm(x, {kWidth}, weight, {}, 1e-5); }
  Tensor weight;
};
TORCH_MODULE(Norm);

struct BlockImpl : nn::Module {
  BlockImpl() {
    register_module("norm1", norm1);
    register_module("to_heads", to_heads);
    register_module("from_heads", from_heads);
    register_module("norm2", norm2);
    register_module("up", up);
    register_module("down", down);
  }

  Tensor forward(const Tensor& before) {
    const Tensor x = before + attention(norm1(before));
    return x + down(nn::functional::gelu(up(norm2(x))));
  }

  Tensor attention(const Tensor& x) {
    const int64_t n = x.size(0), t = x.size(1);
    const auto by_head = [&](const Tensor& part) {
      return part.view({n, t, kHeads, kWidth / kHeads}).transpose(1, 2);
    };
    const std::vector<Tensor> parts = to_heads(x).split(kWidth, 2);
    const Tensor seen = torch::scaled_dot_product_attention(by_head(parts[0]), by_head(parts[1]),
                                                            by_head(parts[2]), {}, 0.0, true);
    return from_heads(seen.transpose(1, 2).reshape({n, t, kWidth}));
  }

  Norm norm1, norm2;
  nn::Linear to_heads = linear(kWidth, 3 * kWidth), from_heads = linear(kWidth, kWidth);
  nn::Linear up = linear(kWidth, 4 * kWidth), down = linear(4 * kWidth, kWidth);
};
TORCH_MODULE(Block);

struct GptImpl : nn::Module {
  GptImpl() {
    register_module("words", words);
    register_module("places", places);
    for (int64_t k = 0; k < kLayers; ++k)
      blocks->push_back(Block());
    register_module("blocks", blocks);
    register_module("norm", norm);
  }

  Tensor forward(const Tensor& tokens) {
    Tensor x = words(tokens) + places(torch::arange(tokens.size(1)));
    return torch::linear(norm(blocks->forward(x)), words->weight);
  }

  nn::Embedding words = nn::Embedding(kVocabulary, kWidth), places{kContext, kWidth};
  nn::Sequential blocks;
  Norm norm;
};
TORCH_MODULE(Gpt);

class Loop final : public BareLoop {
 public:
  explicit Loop(int batch)
      : batch_(batch), random_(1, 0, Purpose::test), text_(torch::empty({kTokens}, torch::kLong)) {
    for (int64_t k = 0; k < kTokens; ++k)
      text_.data_ptr<int64_t>()[k] = random_.below(kVocabulary);
    std::vector<Tensor> matrices, norms;
    for (const Tensor& p : net_->parameters())
      (p.dim() > 1 ? matrices : norms).push_back(p);
    const auto options = [](double decay) {
      return std::make_unique<torch::optim::AdamWOptions>(
          torch::optim::AdamWOptions(1e-3).betas({0.9, 0.99}).weight_decay(decay));
    };
    optimizer_ =
        std::make_unique<torch::optim::AdamW>(std::vector<torch::optim::OptimizerParamGroup>{
            {matrices, options(0.1)}, {norms, options(0)}});
  }

  double step() override {
    std::vector<Tensor> shown, next;
    for (int64_t k = 0; k < batch_; ++k) {
      const int64_t at = random_.below(kTokens - kContext - 1);
      shown.push_back(text_.narrow(0, at, kContext));
      next.push_back(text_.narrow(0, at + 1, kContext));
    }
    optimizer_->zero_grad();
    const Tensor scores = net_->forward(torch::stack(shown)).view({-1, kVocabulary});
    const Tensor loss = nn::functional::cross_entropy(scores, torch::stack(next).view(-1));
    loss.backward();
    nn::utils::clip_grad_norm_(net_->parameters(), 1.0);
    optimizer_->step();
    return loss.item<double>();
  }

 private:
  int64_t batch_;
  Random random_;
  Tensor text_;
  Gpt net_;
  std::unique_ptr<torch::optim::AdamW> optimizer_;
};

}  // namespace

std::unique_ptr<BareLoop> make_bare_gpt(int batch) {
  at::set_num_threads(1);
  return std::make_unique<Loop>(batch);
}

}  // namespace grapevine::bench
