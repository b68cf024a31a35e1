// NetworkObjective: the base of all networks as objectives. It computes gradients at any flat
// vector, on the CPU or queued on a GPU, with one instance of the network per thread. It keeps
// running statistics by rank and the order of the data.
//
// A kind of network defines the loss of a batch and its test (NetworkInstance and the objectives
// beside this file). On a GPU, batches are copied from pinned memory; the loss and the statistics
// are copied into pinned memory. Only tests wait for queued work. The same code runs without a GPU.
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

/// Prints each warning of LibTorch once: cuDNN has one at every call of an LSTM.
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

  /// `statistics` are the network's own tensors, one per entry of the layout, which must outlive
  /// this object. They become views of one flat vector, except those of another type.
  NetworkInstance(FlatParameters, std::vector<at::Tensor> statistics, const ParameterLayout&,
                  Batches);
  virtual ~NetworkInstance() = default;

  Batches& batches() { return batches_; }
  Vec statistics() {  // a rank's, being copied in or out
    return {here_.mutable_data_ptr(), statistics_layout_->size(), statistics_layout_->dtype()};
  }

  /// From now on it computes on that device.
  void move_to(at::Device);

  /// Computes gradient number `index` of `rank` at x into g, and updates statistics(). On a GPU the
  /// work is queued on the current stream, and *loss is in pinned memory. Uses clip and precision
  /// of the spec.
  void queue_gradient(const ObjectiveSpec&, int rank, uint64_t index, ConstVec x, Vec g,
                      double* loss);

  /// From now on tests use this x, in host memory, and statistics().
  void look_at(ConstVec x);

  at::Device device() const { return device_; }
  /// Host memory that is pinned if device() is a GPU: for batches and losses.
  at::Tensor host_memory(size_t size, at::ScalarType) const;

 protected:
  /// The mean loss on these samples, one element, on the network's device. May be called twice for
  /// one gradient.
  virtual at::Tensor batch_loss(int rank, uint64_t index, const std::vector<uint32_t>& rows) = 0;
  virtual void train(bool) {}  // from now on; false: test
  /// Moves all other tensors of the network to device().
  virtual void moved() {}

  const std::vector<at::Tensor>& parameters() const { return parameters_.tensors(); }
  /// A tensor in host_memory(), copied to the network's device.
  at::Tensor brought(const at::Tensor& host) const;

 private:
  void place_statistics();
  void copy_statistics(bool up);

  FlatParameters parameters_;
  Batches batches_;
  at::Device device_ = at::kCPU;
  const ParameterLayout* statistics_layout_;
  std::vector<at::Tensor> statistics_;  // the network's
  at::Tensor here_, there_;             // flat: in host memory, and on the network's device
  at::Tensor tested_;                   // the x of tests, on the network's device
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

  /// The thread's instance, as the type that was added, with x and the rank's statistics.
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
  // These throw if the present device cannot compute a test, or a gradient.
  virtual void try_out() {}
  void try_gradient();

  const ObjectiveSpec spec_;
  const ParameterLayout layout_, statistics_layout_;
  const Dealt dealt_;
  RunningStatistics statistics_;
  std::vector<std::unique_ptr<NetworkInstance>> instances_;  // per thread
  int gpu_ = -1;                                             // -1: none
  std::atomic<bool> is_lost_{false};                         // the GPU
};

/// The exception in one line. LibTorch adds a stack trace of many lines, which is removed.
std::string one_line_of(const std::exception&);

/// Rethrows an error of LibTorch in `work` as a std::runtime_error of one line.
template <class Work>
void in_words(Work&& work) {
  try {
    work();
  } catch (const c10::Error& error) {
    throw std::runtime_error(one_line_of(error));
  }
}

}  // namespace grapevine
