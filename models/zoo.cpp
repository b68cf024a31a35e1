#include "models/zoo.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "kernels/base/random.hpp"
#include "kernels/base/spec.hpp"

namespace grapevine {
namespace {

constexpr int kMlpHidden = 128;
constexpr int kCharacterWidth = 32, kCharacterHidden = 256;  // lm-char
constexpr int kWordWidth = 64;                               // lm-word: tied, so one width
// So that embeddings start within +-0.1.
constexpr int64_t kEmbeddingFanIn = 100;
constexpr double kTransformerDeviation = 0.02;
constexpr int kMostLayers = 128, kMostHeads = 128, kMostWidth = 4096, kMostContext = 1 << 16;

/// Adds tensors to a plan under the names that PyTorch's modules would give them.
class Planner {
 public:
  Planner(NetworkPlan& plan, bool decay_vectors) : plan_(plan), decay_vectors_(decay_vectors) {
    plan_.layout = ParameterLayout(DType::f32);
  }

  void convolution(const std::string& name, int64_t in, int64_t out, int64_t side, bool bias) {
    const int64_t fan_in = in * side * side;
    add(name + ".weight", {out, in, side, side}, fan_in);
    if (bias) add(name + ".bias", {out}, fan_in);
  }

  void linear(const std::string& name, int64_t in, int64_t out) {
    add(name + ".weight", {out, in}, in);
    add(name + ".bias", {out}, in);
  }

  void norm(const std::string& name, int64_t channels) {
    add(name + ".weight", {channels}, 0);
    add(name + ".bias", {channels}, 0);
    plan_.norms.push_back({name, static_cast<size_t>(channels), plan_.statistics_size});
    plan_.statistics_size += 2 * static_cast<size_t>(channels);
  }

  void embedding(int64_t vocabulary, int64_t width) {
    add("embedding.weight", {vocabulary, width}, kEmbeddingFanIn);
  }

  void lstm(int64_t in, int64_t hidden) {
    add("lstm.weight_ih_l0", {4 * hidden, in}, hidden);
    add("lstm.weight_hh_l0", {4 * hidden, hidden}, hidden);
    add("lstm.bias_ih_l0", {4 * hidden}, hidden);
    add("lstm.bias_hh_l0", {4 * hidden}, hidden);
  }

  void normal(const std::string& name, int64_t rows, int64_t columns, double deviation) {
    add(name + ".weight", {rows, columns}, columns);
    plan_.deviation.back() = deviation;
  }

  void scale_of_norm(const std::string& name, int64_t width) { add(name + ".weight", {width}, 0); }

  void bias(const std::string& name, int64_t out, int64_t fan_in) {
    add(name + ".bias", {out}, fan_in);
  }

 private:
  void add(std::string name, std::vector<int64_t> shape, int64_t fan_in) {
    const bool decays = decay_vectors_ || shape.size() > 1;
    plan_.layout.add(std::move(name), std::move(shape), decays);
    plan_.fan_in.push_back(static_cast<size_t>(fan_in));
    plan_.deviation.push_back(0);
  }

  NetworkPlan& plan_;
  bool decay_vectors_;
};

void plan_cnn(Planner& planner, const SampleShape& in, int width, int hidden, int classes) {
  planner.convolution("conv1", in.channels, width, 3, true);
  planner.convolution("conv2", width, 2 * width, 3, true);
  planner.linear("fc1", int64_t{2} * width * (in.height / 4) * (in.width / 4), hidden);
  planner.linear("fc2", hidden, classes);
}

void plan_resnet18(Planner& planner, const SampleShape& in, int classes) {
  planner.convolution("conv1", in.channels, 64, 3, false);
  planner.norm("bn1", 64);
  int from = 64;
  for (int stage = 1; stage <= 4; ++stage) {
    const int width = 64 << (stage - 1);
    for (int block = 0; block < 2; ++block) {
      const std::string name = fmt::format("layer{}.{}", stage, block);
      planner.convolution(name + ".conv1", from, width, 3, false);
      planner.norm(name + ".bn1", width);
      planner.convolution(name + ".conv2", width, width, 3, false);
      planner.norm(name + ".bn2", width);
      if (from != width) {
        planner.convolution(name + ".downsample.0", from, width, 1, false);
        planner.norm(name + ".downsample.1", width);
      }
      from = width;
    }
  }
  planner.linear("fc", from, classes);
}

// Weights whose output is added to the residual stream start smaller: by the square root of the
// number of such sums.
void plan_transformer(Planner& planner, const TransformerShape& shape, int vocabulary, int window) {
  const int64_t width = shape.width;
  const double usual = kTransformerDeviation;
  const double added = usual / std::sqrt(2.0 * shape.layers);
  planner.normal("transformer.wte", vocabulary, width, usual);
  planner.normal("transformer.wpe", window, width, usual);
  for (int layer = 0; layer < shape.layers; ++layer) {
    const std::string name = fmt::format("transformer.h.{}.", layer);
    planner.scale_of_norm(name + "ln_1", width);
    planner.normal(name + "attn.c_attn", 3 * width, width, usual);
    planner.normal(name + "attn.c_proj", width, width, added);
    planner.scale_of_norm(name + "ln_2", width);
    planner.normal(name + "mlp.c_fc", 4 * width, width, usual);
    planner.normal(name + "mlp.c_proj", width, 4 * width, added);
  }
  planner.scale_of_norm("transformer.ln_f", width);
}

std::optional<TransformerShape> shape_of(std::string_view text) {
  const std::vector<std::string_view> parts = split(text, ',');
  const std::vector<std::string_view> sizes = split(parts[0], 'x');
  TransformerShape shape;
  if (sizes.size() != 3 || parts.size() > 2) return std::nullopt;
  const auto within = [](std::string_view number, int most, int& value) {
    const auto read = number_of<int>(number);
    value = read.value_or(0);
    return value >= 1 && value <= most;
  };
  const bool has_sizes = within(sizes[0], kMostLayers, shape.layers) &&
                         within(sizes[1], kMostHeads, shape.heads) &&
                         within(sizes[2], kMostWidth, shape.width);
  if (!has_sizes || shape.width % shape.heads != 0) return std::nullopt;
  if (parts.size() == 1) return shape;
  const Spec context(parts[1], '=');
  const bool has_context =
      context.name == "ctx" && context.value && within(*context.value, kMostContext, shape.context);
  return has_context ? std::optional(shape) : std::nullopt;
}

}  // namespace

Result<std::optional<TransformerShape>> transformer_of(const std::string& model) {
  if (model == kTransformerModel) return std::optional(TransformerShape{4, 4, 128, 64});
  const Spec given(model);
  if (given.name != "gpt") return std::optional<TransformerShape>();
  const auto shape = shape_of(given.value.value_or(""));
  if (shape) return shape;
  return user_error(fmt::format(
      "model is \"{}\", accepted: gpt:LAYERSxHEADSxWIDTH or gpt:LAYERSxHEADSxWIDTH,ctx=N, up to "
      "{}, {}, {} and {}, and a WIDTH that is a multiple of HEADS",
      model, kMostLayers, kMostHeads, kMostWidth, kMostContext));
}

bool reads_text(const std::string& model) {
  return model == kCharacterModel || model == kWordModel || transformer_of(model)->has_value();
}

Result<NetworkPlan> plan_network(const std::string& model, const SampleShape& input, int classes,
                                 bool decay_norms_and_biases) {
  NetworkPlan plan;
  plan.model = model;
  plan.input = input;
  plan.classes = classes;
  Planner planner(plan, decay_norms_and_biases);
  const int64_t features = static_cast<int64_t>(input.size());
  if (model == "linear") {
    planner.linear("fc", features, classes);
    return plan;
  }
  if (model == "mlp") {
    planner.linear("fc1", features, kMlpHidden);
    planner.linear("fc2", kMlpHidden, classes);
    return plan;
  }
  const bool convolutional = model == "cnn-small" || model == "cnn-big" || model == "resnet18";
  if (!convolutional) {
    return user_error(
        fmt::format("model is \"{}\", accepted: linear, mlp, cnn-small, cnn-big, resnet18, "
                    "lm-char, lm-word, gpt-char, gpt:LAYERSxHEADSxWIDTH, or a TorchScript FILE.pt",
                    model));
  }
  if (!input.image || input.height < 4 || input.width < 4) {
    return user_error(fmt::format(
        "model {} takes images of at least 4 x 4 pixels, the samples are {}, accepted: linear, mlp",
        model, input.image ? "smaller" : "rows of features"));
  }
  if (model == "cnn-small") plan_cnn(planner, input, 16, 64, classes);
  if (model == "cnn-big") plan_cnn(planner, input, 32, 128, classes);
  if (model == "resnet18") plan_resnet18(planner, input, classes);
  return plan;
}

NetworkPlan plan_language_model(const std::string& model, int vocabulary, int window,
                                bool decay_norms_and_biases) {
  GV_CHECK(reads_text(model));
  const bool words = model == kWordModel;
  NetworkPlan plan;
  plan.model = model;
  plan.input = {window, 1, 1, false};
  plan.classes = vocabulary;
  Planner planner(plan, decay_norms_and_biases);
  if (const std::optional<TransformerShape> shape = *transformer_of(model)) {
    plan.transformer = *shape;
    plan.transformer.context = window;
    plan_transformer(planner, *shape, vocabulary, window);
    return plan;
  }
  const int width = words ? kWordWidth : kCharacterWidth;
  const int hidden = words ? kWordWidth : kCharacterHidden;
  planner.embedding(vocabulary, width);
  planner.lstm(width, hidden);
  if (words) {
    planner.bias("decoder", vocabulary, hidden);
  } else {
    planner.linear("decoder", hidden, vocabulary);
  }
  return plan;
}

void initial_weights(const NetworkPlan& plan, uint64_t seed, Vec x) {
  GV_CHECK(x.size == plan.layout.size());
  float* flat = x.as<float>();
  for (size_t k = 0; k < plan.layout.entries().size(); ++k) {
    const ParameterEntry& entry = plan.layout.entries()[k];
    float* first = flat + entry.offset;
    if (plan.fan_in[k] == 0) {
      std::fill_n(first, entry.size(), entry.name.ends_with(".weight") ? 1.0f : 0.0f);
      continue;
    }
    if (plan.deviation[k] > 0) {
      Random random(seed, 0, Purpose::initial_point, k);
      std::generate_n(first, entry.size(),
                      [&] { return static_cast<float>(plan.deviation[k] * random.normal()); });
      continue;
    }
    const double bound = 1 / std::sqrt(static_cast<double>(plan.fan_in[k]));
    Random random(seed, 0, Purpose::initial_point, k);
    std::generate_n(first, entry.size(),
                    [&] { return static_cast<float>(random.uniform(-bound, bound)); });
  }
}

}  // namespace grapevine
