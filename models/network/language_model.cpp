// A language model on a text: embedding, one LSTM, decoder; or a transformer (transformer.hpp).
//
// A sample is a window of tokens; the label of each token is the next token. Every window starts
// from a state of zeros. Truncated back-propagation through time would carry the state from window
// to window; but then a gradient would not be a function of (seed, rank, index, x), and each rank
// goes through its share in shuffled order. A transformer has no state.
#include <c10/core/GradMode.h>

#include <algorithm>
#include <span>

#include "kernels/base/printable.hpp"
#include "kernels/base/random.hpp"
#include "models/files/file.hpp"
#include "models/files/model_file.hpp"
#include "models/network/network_objective.hpp"
#include "models/network/objectives.hpp"
#include "models/network/transformer.hpp"

namespace grapevine {
namespace {

constexpr size_t kMostValidation = 1 << 16;          // tokens of the beginning of the text
constexpr size_t kStreams = 32, kStreamWindow = 64;  // the text is read in streams side by side

using State = std::vector<at::Tensor>;  // of the LSTM: hidden and cell, [1, n, hidden]

class LanguageInstance final : public NetworkInstance {
 public:
  LanguageInstance(const ObjectiveSpec& spec, const NetworkPlan& plan, const TextSet& text,
                   const ParameterLayout& statistics, Batches batches)
      : NetworkInstance(FlatParameters(plan.layout), {}, statistics, std::move(batches)),
        spec_(spec),
        plan_(plan),
        text_(text) {
    moved();
  }

  /// Tests streams of the validation text side by side: `steps` tokens of each, from `at` on. Each
  /// stream continues with its state.
  Outcome test_streams(size_t streams, size_t length, size_t at, size_t steps, State& state) {
    for (size_t s = 0; s < streams; ++s)
      show(s, text_.validation, s * length + at, steps);
    return judge(streams, steps, state);
  }

  /// Tests windows of the training text, each from a state of zeros.
  Outcome test_windows(std::span<const uint32_t> rows) {
    show_windows(rows);
    State state = fresh_state(rows.size());
    return judge(rows.size(), window(), state);
  }

  State fresh_state(size_t n) const {
    if (is_transformer()) return {};
    const int64_t hidden = plan_.layout.entries()[2].shape[1];  // lstm.weight_hh_l0
    const auto zeros = [&] {
      return at::zeros({1, static_cast<int64_t>(n), hidden}, at::TensorOptions(device()));
    };
    return {zeros(), zeros()};
  }

  /// Adds `count` tokens. The probability of each is what the network gives it after the tokens
  /// before it.
  void write_on(std::vector<uint16_t>& tokens, size_t count, Random& random) {
    const c10::NoGradGuard no_gradients;
    State state = fresh_state(1);
    for (size_t k = 0; k + 1 < tokens.size() && !is_transformer(); ++k)
      scores_behind(tokens, k, 1, state);
    for (; count > 0; --count) {
      const size_t seen = is_transformer() ? std::min(tokens.size(), window()) : 1;
      tokens.push_back(drawn(scores_behind(tokens, tokens.size() - seen, seen, state), random));
    }
  }

  /// Tokens of a stream that are read at once.
  size_t stream_window() const { return is_transformer() ? window() : kStreamWindow; }

 private:
  size_t window() const { return static_cast<size_t>(spec_.window); }
  bool is_transformer() const { return plan_.transformer.context > 0; }

  at::Tensor batch_loss(int, uint64_t, const std::vector<uint32_t>& rows) override {
    show_windows(rows);
    State state = fresh_state(rows.size());
    const at::Tensor scores = logits(rows.size(), window(), state);
    return at::cross_entropy_loss(scores, brought(first(next_, rows.size() * window())));
  }

  void moved() override {
    const size_t batch = std::max(kStreams, static_cast<size_t>(spec_.batch));
    const size_t largest = batch * std::max(kStreamWindow, window());
    tokens_ = host_memory(largest, at::kLong);
    next_ = host_memory(largest, at::kLong);
  }

  Outcome judge(size_t n, size_t steps, State& state) {
    const c10::NoGradGuard no_gradients;
    const at::Tensor scores = logits(n, steps, state);
    const at::Tensor next = brought(first(next_, n * steps));
    const double loss = at::cross_entropy_loss(scores, next).item<double>();
    const at::Tensor right = scores.argmax(1).eq(next).sum();
    return {loss * static_cast<double>(n * steps), static_cast<double>(right.item<int64_t>())};
  }

  void show_windows(std::span<const uint32_t> rows) {
    for (size_t k = 0; k < rows.size(); ++k)
      show(k, text_.train, rows[k] * window(), window());
  }

  /// The scores of the token after these tokens; advances the state.
  at::Tensor scores_behind(const std::vector<uint16_t>& tokens, size_t from, size_t count,
                           State& state) {
    std::copy_n(tokens.begin() + static_cast<std::ptrdiff_t>(from), count,
                tokens_.mutable_data_ptr<int64_t>());
    return logits(1, count, state)[static_cast<int64_t>(count) - 1];
  }

  static uint16_t drawn(const at::Tensor& scores, Random& random) {
    const at::Tensor chances = at::softmax(scores.to(at::kCPU, at::kDouble), 0).contiguous();
    const double* chance = chances.const_data_ptr<double>();
    const auto last = static_cast<uint16_t>(chances.numel() - 1);
    double left = random.uniform();
    uint16_t token = 0;
    while (token < last && (left -= chance[token]) >= 0)
      ++token;
    return token;
  }

  // Writes `steps` tokens and their next tokens as sample k of a batch.
  void show(size_t k, const std::vector<uint16_t>& text, size_t from, size_t steps) {
    const auto begin = text.begin() + static_cast<std::ptrdiff_t>(from);
    std::copy_n(begin, steps, tokens_.mutable_data_ptr<int64_t>() + k * steps);
    std::copy_n(begin + 1, steps, next_.mutable_data_ptr<int64_t>() + k * steps);
  }

  static at::Tensor first(const at::Tensor& all, size_t count) {
    return all.narrow(0, 0, static_cast<int64_t>(count));
  }

  /// [n steps, vocabulary] for the first n windows of `steps` tokens; advances the state.
  at::Tensor logits(size_t n, size_t steps, State& state) const {
    const std::vector<at::Tensor>& p = parameters();
    const int64_t rows = static_cast<int64_t>(n), columns = static_cast<int64_t>(steps);
    const at::Tensor tokens = brought(first(tokens_, n * steps)).view({rows, columns});
    if (is_transformer())
      return transformer(plan_.transformer, p, tokens).reshape({rows * columns, -1});
    const at::Tensor in = at::embedding(p[0], tokens);
    // cuDNN keeps what a backward pass needs only where `train` is true.
    const bool train = at::GradMode::is_enabled();
    const auto [out, hidden, cell] =
        at::lstm(in, state, {p[1], p[2], p[3], p[4]}, true, 1, 0.0, train, false, true);
    state = {hidden, cell};
    const bool tied = plan_.model == kWordModel;
    return at::linear(out.reshape({rows * columns, -1}), tied ? p[0] : p[5], tied ? p[5] : p[6]);
  }

  const ObjectiveSpec& spec_;
  const NetworkPlan& plan_;
  const TextSet& text_;
  at::Tensor tokens_, next_;  // of a batch, window after window
};

class LanguageModel final : public NetworkObjective {
 public:
  LanguageModel(const ObjectiveSpec& spec, NetworkInputs&& inputs)
      : NetworkObjective(
            spec, {inputs.plan.layout, ParameterLayout(DType::f32), {}, std::move(inputs.dealt)}),
        plan_(std::move(inputs.plan)),
        text_(std::move(inputs.text)) {
    for (int thread = 0; thread < spec.threads + spec.has_tester; ++thread)
      add(std::make_unique<LanguageInstance>(this->spec(), plan_, *text_, statistics(), batches()));
  }

  void initial_point(int, Vec x) const override { initial_weights(plan_, spec().seed, x); }

  // Reads the validation text in streams side by side; each stream continues with its state.
  Evaluation evaluate(int thread, int rank, ConstVec x) override {
    const size_t targets = std::min(text_->validation.size() - 1, kMostValidation);
    const size_t streams = std::min(kStreams, targets), length = targets / streams;
    LanguageInstance& instance = looking_at<LanguageInstance>(x, thread, rank);
    State state = instance.fresh_state(streams);
    NetworkInstance::Outcome sum;
    const size_t step = instance.stream_window();
    for (size_t at = 0; at < length; at += step)
      sum += instance.test_streams(streams, length, at, std::min(step, length - at), state);
    return sum.over(streams * length);
  }

  Evaluation validate(int thread, int rank, ConstVec x) override {
    const std::span<const uint32_t> aside(dealt().aside);
    LanguageInstance& instance = looking_at<LanguageInstance>(x, thread, rank);
    NetworkInstance::Outcome sum;
    for (size_t first = 0; first < aside.size(); first += kStreams)
      sum += instance.test_windows(aside.subspan(first, std::min(kStreams, aside.size() - first)));
    return sum.over(aside.size() * static_cast<size_t>(spec().window));  // NaN: there are none
  }

  Status can_write_on(const std::string& text) const override {
    const auto tokens = text_->numbers_of(text);
    if (!tokens)
      return user_error("sample is \"" + printable(text) + "\": " + tokens.error().message);
    return Done{};
  }

  std::string write_on(int thread, ConstVec x, const std::string& text, size_t count,
                       uint64_t seed) override {
    auto tokens = text_->numbers_of(text);
    GV_CHECK(tokens);
    Random random(seed, 0, Purpose::text);
    looking_at<LanguageInstance>(x, thread, -1).write_on(*tokens, count, random);
    return text_->text_of(*tokens);
  }

  std::string description() const override {
    return plan_.model + " (" + with_commas(plan_.layout.size()) + " parameters) on " +
           text_->description() + aside_text(dealt().aside);
  }

  Status save_model(const std::string& directory, ConstVec x) override {
    const std::vector<ModelTensor> tensors = tensors_of(plan_.layout, x);
    if (Status ok = write_safetensors(directory + "/model.safetensors", tensors); !ok) return ok;
    return write_state_dict(directory + "/model.pt", tensors);
  }

 private:
  const NetworkPlan plan_;
  const std::shared_ptr<const TextSet> text_;
};

}  // namespace

std::unique_ptr<Objective> make_language_model(const ObjectiveSpec& spec, NetworkInputs&& inputs) {
  return std::make_unique<LanguageModel>(spec, std::move(inputs));
}

}  // namespace grapevine
