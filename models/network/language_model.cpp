// A language model on a text: embedding, one LSTM, decoder.
//
// A sample is a window of tokens; its labels are the tokens that follow each of them. Every window
// starts from a state of zeros: truncated back-propagation through time would carry the state from
// window to window, but then a gradient would not be a function of (seed, rank, index, x), and the
// ranks' walks through their shares are shuffled.
#include <c10/core/GradMode.h>

#include <algorithm>
#include <span>

#include "models/batches.hpp"
#include "models/data/file.hpp"
#include "models/model_file.hpp"
#include "models/network/flat_parameters.hpp"
#include "models/network/objectives.hpp"

namespace grapevine {
namespace {

constexpr size_t kMostValidation = 1 << 16;          // tokens: the beginning of the text
constexpr size_t kStreams = 32, kStreamWindow = 64;  // how they are read: side by side

class LanguageModel final : public Objective {
 public:
  LanguageModel(const ObjectiveSpec& spec, NetworkInputs&& inputs)
      : spec_(spec),
        plan_(std::move(inputs.plan)),
        text_(std::move(inputs.text)),
        dealt_(std::move(inputs.dealt)) {
    for (int thread = 0; thread < spec.threads + spec.has_tester; ++thread) {
      replicas_.push_back(
          {FlatParameters(plan_), Batches(dealt_.partition, spec.seed, spec.batch), {}, {}});
    }
  }

  const ParameterLayout& layout() const override { return plan_.layout; }
  void initial_point(int, Vec x) const override { initial_weights(plan_, spec_.seed, x); }

  double gradient(int thread, int rank, uint64_t index, ConstVec x, Vec g) override {
    Replica& replica = replica_of(thread);
    gather(replica, replica.batches.rows(rank, index));
    return checked([&] {
      replica.parameters.bind(x, g);
      State state = fresh_state(spec_.batch);
      const at::Tensor loss = at::cross_entropy_loss(
          logits(replica, spec_.batch, spec_.window, state), numbers(replica.next));
      loss.backward();
      replica.parameters.finish_gradient(g, spec_.clip);
      return loss.item<double>();
    });
  }

  // The validation text is read in streams side by side, whose states run on.
  Evaluation evaluate(int thread, int, ConstVec x) override {
    Replica& replica = replica_of(thread);
    const std::vector<uint16_t>& text = text_->validation;
    const size_t targets = std::min(text.size() - 1, kMostValidation);
    const size_t streams = std::min(kStreams, targets), length = targets / streams;
    double loss = 0, right = 0;
    checked([&] {
      const c10::NoGradGuard no_gradients;
      replica.parameters.bind(x);
      State state = fresh_state(static_cast<int64_t>(streams));
      for (size_t at = 0; at < length; at += kStreamWindow) {
        const size_t steps = std::min(kStreamWindow, length - at);
        replica.tokens.clear();
        replica.next.clear();
        for (size_t s = 0; s < streams; ++s) {
          const auto first = text.begin() + static_cast<std::ptrdiff_t>(s * length + at);
          const auto last = first + static_cast<std::ptrdiff_t>(steps);
          replica.tokens.insert(replica.tokens.end(), first, last);
          replica.next.insert(replica.next.end(), first + 1, last + 1);
        }
        const at::Tensor scores =
            logits(replica, static_cast<int64_t>(streams), static_cast<int64_t>(steps), state);
        const at::Tensor next = numbers(replica.next);
        loss += at::cross_entropy_loss(scores, next).item<double>() *
                static_cast<double>(replica.next.size());
        right += static_cast<double>(scores.argmax(1).eq(next).sum().item<int64_t>());
      }
    });
    const double seen = static_cast<double>(streams * length);
    return {loss / seen, right / seen};
  }

  // Windows out of the training text, each from a state of zeros.
  Evaluation validate(int thread, int, ConstVec x) override {
    Replica& replica = replica_of(thread);
    const std::vector<uint32_t>& aside = dealt_.aside;
    double loss = 0, right = 0;
    checked([&] {
      const c10::NoGradGuard no_gradients;
      replica.parameters.bind(x);
      for (size_t first = 0; first < aside.size(); first += kStreams) {
        const size_t n = std::min(kStreams, aside.size() - first);
        gather(replica, std::span(aside).subspan(first, n));
        State state = fresh_state(static_cast<int64_t>(n));
        const at::Tensor scores = logits(replica, static_cast<int64_t>(n), spec_.window, state);
        const at::Tensor next = numbers(replica.next);
        loss += at::cross_entropy_loss(scores, next).item<double>() *
                static_cast<double>(replica.next.size());
        right += static_cast<double>(scores.argmax(1).eq(next).sum().item<int64_t>());
      }
    });
    const double seen = static_cast<double>(aside.size()) * spec_.window;  // none: NaN
    return {loss / seen, right / seen};
  }

  uint64_t gradients_per_pass(int rank) const override {
    return dealt_.gradients_per_pass(rank, spec_.batch);
  }

  Status go_on_in_data(const std::vector<DataCut>& cuts) override {
    const auto batches_of = [](Replica& r) -> auto& { return r.batches; };
    return go_on_after(cuts, dealt_, spec_.ranks, spec_.seed, replicas_, batches_of);
  }

  std::string description() const override {
    return plan_.model + " (" + with_commas(plan_.layout.size()) + " parameters) on " +
           text_->description() + aside_text(dealt_.aside);
  }

  Status save_model(const std::string& directory, ConstVec x) override {
    const std::vector<ModelTensor> tensors = tensors_of(plan_.layout, x);
    if (Status ok = write_safetensors(directory + "/model.safetensors", tensors); !ok) return ok;
    return write_state_dict(directory + "/model.pt", tensors);
  }

 private:
  using State = std::vector<at::Tensor>;  // of the LSTM: hidden and cell, [1, n, hidden]

  struct Replica {
    FlatParameters parameters;
    Batches batches;
    std::vector<int64_t> tokens, next;  // of a batch, window after window
  };

  Replica& replica_of(int thread) {
    GV_CHECK(thread >= 0);
    GV_CHECK(static_cast<size_t>(thread) < replicas_.size());
    return replicas_[static_cast<size_t>(thread)];
  }

  /// Windows of the training text.
  void gather(Replica& replica, std::span<const uint32_t> rows) const {
    const size_t window = static_cast<size_t>(spec_.window);
    replica.tokens.clear();
    replica.next.clear();
    for (const uint32_t row : rows) {
      const auto first = text_->train.begin() + static_cast<std::ptrdiff_t>(row * window);
      replica.tokens.insert(replica.tokens.end(), first, first + spec_.window);
      replica.next.insert(replica.next.end(), first + 1, first + spec_.window + 1);
    }
  }

  static at::Tensor numbers(std::vector<int64_t>& values) {
    return at::from_blob(values.data(), {static_cast<int64_t>(values.size())},
                         at::TensorOptions(at::kLong));
  }

  State fresh_state(int64_t n) const {
    const int64_t hidden = plan_.layout.entries()[2].shape[1];  // lstm.weight_hh_l0
    return {at::zeros({1, n, hidden}), at::zeros({1, n, hidden})};
  }

  /// [n steps, vocabulary] for replica.tokens, n windows of `steps`; the state runs on.
  at::Tensor logits(Replica& replica, int64_t n, int64_t steps, State& state) const {
    const std::vector<at::Tensor>& p = replica.parameters.tensors();
    const at::Tensor in = at::embedding(p[0], numbers(replica.tokens).view({n, steps}));
    const auto [out, hidden, cell] =
        at::lstm(in, state, {p[1], p[2], p[3], p[4]}, true, 1, 0.0, false, false, true);
    state = {hidden, cell};
    const bool tied = plan_.model == kWordModel;
    return at::linear(out.reshape({n * steps, -1}), tied ? p[0] : p[5], tied ? p[5] : p[6]);
  }

  const ObjectiveSpec spec_;
  const NetworkPlan plan_;
  const std::shared_ptr<const TextSet> text_;
  const Dealt dealt_;
  std::vector<Replica> replicas_;  // per thread
};

}  // namespace

std::unique_ptr<Objective> make_language_model(const ObjectiveSpec& spec, NetworkInputs&& inputs) {
  return std::make_unique<LanguageModel>(spec, std::move(inputs));
}

}  // namespace grapevine
