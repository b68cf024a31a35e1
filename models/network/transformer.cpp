#include "models/network/transformer.hpp"

namespace grapevine {
namespace {

constexpr double kLayerNormEpsilon = 1e-5;

at::Tensor normed(const at::Tensor& x, const at::Tensor& weight) {
  return at::layer_norm(x, weight.sizes(), weight, {}, kLayerNormEpsilon);
}

/// On [n, t, width]: each token sees itself and the tokens before it.
at::Tensor attention(const at::Tensor& x, int64_t heads, const at::Tensor& to_heads,
                     const at::Tensor& from_heads) {
  const int64_t n = x.size(0), t = x.size(1), width = x.size(2);
  const auto by_head = [&](const at::Tensor& part) {
    return part.view({n, t, heads, width / heads}).transpose(1, 2);
  };
  const std::vector<at::Tensor> parts = at::linear(x, to_heads).split(width, 2);
  const at::Tensor seen = at::scaled_dot_product_attention(by_head(parts[0]), by_head(parts[1]),
                                                           by_head(parts[2]), {}, 0.0, true);
  return at::linear(seen.transpose(1, 2).reshape({n, t, width}), from_heads);
}

}  // namespace

at::Tensor transformer(const TransformerShape& shape, const std::vector<at::Tensor>& parameters,
                       const at::Tensor& tokens) {
  auto next = parameters.begin();
  const at::Tensor& words = *next++;
  const at::Tensor& places = *next++;
  at::Tensor x = at::embedding(words, tokens) + places.narrow(0, 0, tokens.size(1));
  for (int layer = 0; layer < shape.layers; ++layer) {
    const at::Tensor &norm1 = *next++, &to_heads = *next++, &from_heads = *next++;
    x = x + attention(normed(x, norm1), shape.heads, to_heads, from_heads);
    const at::Tensor &norm2 = *next++, &up = *next++, &down = *next++;
    x = x + at::linear(at::gelu(at::linear(normed(x, norm2), up)), down);
  }
  x = normed(x, *next++);
  GV_CHECK(next == parameters.end());
  return at::linear(x, words);
}

}  // namespace grapevine
