// NetworkObjective: the common part of all networks as objectives: gradients at any flat vector,
// computed here or queued on a GPU, by one instance of the network for each thread; running
// statistics by rank; walks through the data.
//
// A kind of network defines the loss of a batch and how it is tested (NetworkInstance and the
// objectives beside this file). On a GPU a batch is copied from pinned memory, and the loss and the
// statistics are copied into pinned memory. Nothing waits for queued work, except tests. The same
// code runs without a GPU.
#pragma once
#include <ATen/ATen.h>
#include <c10/util/Exception.h>

#include <atomic>
#include <exception>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "models/batches.hpp"
#include "models/network/flat_parameters.hpp"
#include "models/network/running_statistics.hpp"
#include "models/objective.hpp"
#include "models/partition.hpp"

namespace grapevine {

/// Warnings of LibTorch's, each once: cuDNN has one at every call of an LSTM.
class SaidOnce final : public c10::WarningHandler {
 public:
  void process(const c10::Warning& warning) override {
    if (said_.insert(warning.msg()).second) c10::WarningHandler::process(warning);
  }

 private:
  std::set<std::string> said_;
};

/// One thread's instance of a network, used by one thread at a time.
class NetworkInstance {
 public:
  struct Outcome {  // of a test
    double loss_sum = 0, right = 0;

    void operator+=(const Outcome& other) { loss_sum += other.loss_sum, right += other.right; }
    Evaluation over(size_t samples) const {
      const double n = static_cast<double>(samples);
      return {loss_sum / n, right / n};
    }
  };

  /// `statistics` are the network's own tensors, one for each entry of the layout, which outlives
  /// it: they become views of one flat vector, but those that are not of its type.
  NetworkInstance(FlatParameters, std::vector<at::Tensor> statistics, const ParameterLayout&,
                  Batches);
  virtual ~NetworkInstance() = default;

  Batches& batches() { return batches_; }
  Vec statistics() {  // of a rank, on their way
    return {here_.mutable_data_ptr(), statistics_layout_->size(), statistics_layout_->dtype()};
  }

  /// Computes there from now on.
  void move_to(at::Device);

  /// Gradient number `index` of `rank` at x, into g, and what it does to statistics(): done, or
  /// queued on the current stream of a GPU, with *loss in pinned memory then. Of the spec: clip and
  /// precision.
  void queue_gradient(const ObjectiveSpec&, int rank, uint64_t index, ConstVec x, Vec g,
                      double* loss);

  /// From now on tests are at x, in the host's memory, with statistics().
  void look_at(ConstVec x);

 protected:
  /// The mean loss on the samples of these numbers, of one element, where the network is. May be
  /// called twice for one gradient.
  virtual at::Tensor batch_loss(int rank, uint64_t index, const std::vector<uint32_t>& rows) = 0;
  virtual void train(bool) {}  // from now on; a test is none
  /// All other tensors of the network must be on device().
  virtual void moved() {}

  const std::vector<at::Tensor>& parameters() const { return parameters_.tensors(); }
  at::Device device() const { return device_; }
  /// Memory of the host for batches.
  at::Tensor host_memory(size_t size, at::ScalarType) const;
  /// The tensors that are in host_memory(), wherever the network is.
  at::Tensor brought(const at::Tensor& host) const;

 private:
  void place_statistics();
  void copy_statistics(bool up);

  FlatParameters parameters_;
  Batches batches_;
  at::Device device_ = at::kCPU;
  const ParameterLayout* statistics_layout_;
  std::vector<at::Tensor> statistics_;  // of the network
  at::Tensor here_, there_;             // flat: in the host's memory, and where the network is
  at::Tensor tested_;                   // x of the tests, where the network is
  SaidOnce warnings_;
  bool trains_ = true;
};

class NetworkObjective : public Objective {
 public:
  ~NetworkObjective() override;

  const ParameterLayout& layout() const override { return layout_; }
  bool starts_alike() const final { return true; }

  double gradient(int thread, int rank, uint64_t index, ConstVec x, Vec g) final;
  Status use_gpu(int number) final;
  void use_host() final;
  void queue_gradient(int thread, void* stream, int rank, uint64_t index, ConstVec x, Vec g,
                      double* loss) final;
  void gradient_came(int thread, int rank) final;
  void lose_gpu() final { is_lost_ = true; }

  const ParameterLayout& statistics() const final { return statistics_layout_; }
  void read_statistics(int rank, Vec out) const final { statistics_.load(rank, out); }
  bool has_statistics(int rank) const final { return statistics_.has(rank); }
  void set_statistics(int rank, uint64_t gradients, ConstVec now) final {
    statistics_.set(rank, gradients, now);
  }
  void set_average_statistics(ConstVec average) final { statistics_.set_average(average); }

  uint64_t gradients_per_pass(int rank) const final {
    return dealt_.gradients_per_pass(rank, spec_.batch);
  }
  Status go_on_in_data(const std::vector<DataCut>&) final;
  uint64_t data_hash() const final { return spec_.data_hash; }

 protected:
  struct Parts {
    ParameterLayout layout, statistics_layout;
    Buffer statistics;  // of a rank at the start
    Dealt dealt;
  };
  NetworkObjective(const ObjectiveSpec&, Parts);

  void add(std::unique_ptr<NetworkInstance> instance) { instances_.push_back(std::move(instance)); }
  Batches batches() const { return {dealt_.partition, spec_.seed, spec_.batch}; }

  /// Of the type that was added, with x and the rank's statistics.
  template <class Instance>
  Instance& looking_at(ConstVec x, int thread, int rank) {
    return static_cast<Instance&>(look_at(x, thread, rank));
  }
  template <class Instance>
  Instance& instance_of(int thread) {
    return static_cast<Instance&>(instance(thread));
  }

  const Dealt& dealt() const { return dealt_; }
  const ObjectiveSpec& spec() const { return spec_; }
  const RunningStatistics& running() const { return statistics_; }

 private:
  NetworkInstance& instance(int thread) const;
  NetworkInstance& look_at(ConstVec x, int thread, int rank);
  template <class Work>
  void within_memory(Work&& work) const;
  virtual void try_out() {}  // tests; throws where that cannot be done where it now is

  const ObjectiveSpec spec_;
  const ParameterLayout layout_, statistics_layout_;
  const Dealt dealt_;
  RunningStatistics statistics_;
  std::vector<std::unique_ptr<NetworkInstance>> instances_;  // per thread
  int gpu_ = -1;                                             // none
  std::atomic<bool> is_lost_{false};                         // that GPU
};

/// The exception, in one line. LibTorch adds a stack trace, line after line, which is removed.
std::string one_line_of(const std::exception&);

/// What LibTorch throws in `work` is passed on as a std::runtime_error of one line.
template <class Work>
void in_words(Work&& work) {
  try {
    work();
  } catch (const c10::Error& error) {
    throw std::runtime_error(one_line_of(error));
  }
}

}  // namespace grapevine
