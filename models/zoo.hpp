// The zoo: the tensors of each network, and their initial values. This file needs no LibTorch: the
// module in network/ computes with the tensors that this file lays out. So layouts, hashes, initial
// points and model files need no framework.
//
// Shapes adapt to the samples. c x h x w is an image, k the number of classes:
//
//   linear     fc: chw-k. Also takes rows of features.
//   mlp        fc1: chw-128, relu, fc2: 128-k. Also takes rows of features.
//   cnn-small  conv1: 3x3 c-16, pool, relu, conv2: 3x3 16-32, pool, relu,
//              fc1: 32(h/4)(w/4)-64, relu, fc2: 64-k
//   cnn-big    the same with 32, 64 and 128
//   lm-char    embedding: v-32, lstm: 32-256, decoder: 256-v. v is the size of the vocabulary.
//   lm-word    embedding: v-64, lstm: 64-64, decoder: the embedding transposed, and a bias v
//   gpt:LxHxW  a transformer of L layers, H heads and width W, without dropout and biases. Names,
//              sizes and initial values are nanoGPT's (github.com/karpathy/nanoGPT). wte: v-W,
//              wpe: one row of W per position of the window; wte transposed gives the scores.
//              A suffix ",ctx=N" sets the window
//   gpt-char   gpt:4x4x128,ctx=64: nanoGPT's model for a laptop
//   resnet18   CIFAR form (He et al., CVPR 2016; 3x3 first convolution of stride 1, no pool);
//              torchvision's names
// For 28x28 grey images and 10 classes, cnn-small has 105,866 parameters and cnn-big 421,642; for
// 32x32 colour images, resnet18 has 11,173,962; for 65 characters, gpt-char has 804,096. Weights
// and biases start with PyTorch's default, uniform in +-1/sqrt(fan-in); norms start at 1 and 0,
// embeddings in +-0.1; the weights of transformers are normal.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kernels/base/result.hpp"
#include "kernels/memory/layout.hpp"
#include "kernels/memory/vec.hpp"
#include "models/data/data_set.hpp"

namespace grapevine {

/// The running mean and variance of one batch norm. The mean begins at `offset` in a rank's
/// statistics; the variance follows it.
struct NormStatistics {
  std::string name;  // "bn1": in files bn1.running_mean, .running_var, .num_batches_tracked
  size_t channels = 0;
  size_t offset = 0;
};

inline constexpr const char* kCharacterModel = "lm-char";
inline constexpr const char* kWordModel = "lm-word";
inline constexpr const char* kTransformerModel = "gpt-char";

struct TransformerShape {
  int layers = 4, heads = 4, width = 128;
  int context = 0;  // the most tokens that it sees; 0: the window of the run
};

/// The shape of "gpt-char" or "gpt:..."; nullopt: another model. Errors (user): a gpt without a
/// valid shape.
Result<std::optional<TransformerShape>> transformer_of(const std::string& model);

struct NetworkPlan {
  std::string model;
  SampleShape input;  // for a language model: a window of tokens
  int classes = 0;    // for a language model: its vocabulary
  ParameterLayout layout;
  std::vector<size_t> fan_in;         // per entry; 0: a norm's weight (all 1) or bias (all 0)
  std::vector<double> deviation;      // per entry; above 0: normal, whatever fan_in is
  TransformerShape transformer;       // for a gpt
  std::vector<NormStatistics> norms;  // in the order in which the network uses them
  size_t statistics_size = 0;         // floats of all norms: 9,600 for resnet18
};

/// decay_norms_and_biases false: entries of one dimension do not decay. Errors (user): an unknown
/// model; a model that cannot take such samples (with those that can).
Result<NetworkPlan> plan_network(const std::string& model, const SampleShape& input, int classes,
                                 bool decay_norms_and_biases);

/// Whether plan_language_model() plans this model. REQUIRES: transformer_of() returns no error.
bool reads_text(const std::string& model);

/// REQUIRES: reads_text(model). If the transformer has a context, `window` is that context.
NetworkPlan plan_language_model(const std::string& model, int vocabulary, int window,
                                bool decay_norms_and_biases);

/// Writes the initial values, a function of the plan and the seed: each entry has its own random
/// stream.
void initial_weights(const NetworkPlan&, uint64_t seed, Vec x);

}  // namespace grapevine
