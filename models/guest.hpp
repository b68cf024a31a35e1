// GuestObjective: the objective of a guest. A script computes a rank's steps in its own process.
// This object has the script's layout and starting point; only the script has the loss, the data
// and the gradients.
#pragma once
#include <map>
#include <vector>

#include "kernels/base/mutex.hpp"
#include "models/objective.hpp"

namespace grapevine {

/// Its name in settings. make_objective does not make it; a script brings it.
inline constexpr char kGuestObjective[] = "guest";

/// Another name of a tensor in files: a view of the whole tensor. REQUIRES: it lies within its
/// tensor.
struct TiedName {
  std::string name, of;
  std::vector<int64_t> shape, strides;
};

class GuestObjective final : public Objective {
 public:
  /// `start` has the layout's size. `statistics` has the size of the aside tensors; they are
  /// averaged in means and never exchanged. Parameters are fp32. In the fp64 vector of aside
  /// tensors, tensors from number `wide_from` on are fp64 in the script; the tensors before are
  /// fp32.
  GuestObjective(ParameterLayout layout, ParameterLayout aside, Buffer start, Buffer statistics,
                 size_t wide_from = 0, std::vector<TiedName> tied = {});

  const ParameterLayout& layout() const override { return layout_; }
  const ParameterLayout& statistics() const override { return aside_; }
  /// The values of the last step of the rank's script.
  void read_statistics(int rank, Vec out) const override;
  bool has_statistics(int rank) const override;
  /// Replaces elements that are infinite or not a number (a mask), which would spoil a mean.
  void read_for_mean(int rank, Vec out) const override;
  /// For a rank without gradients: it has no statistics of its own.
  void set_statistics(int rank, uint64_t gradients, ConstVec) override;
  void set_average_statistics(ConstVec) override;
  bool has_gradients() const override { return false; }
  bool has_workers() const override { return true; }
  Status use_gpu(int) override { return Done{}; }  // the script chooses where it computes
  void initial_point(int rank, Vec x) const override;
  bool starts_alike() const override { return true; }
  double gradient(int thread, int rank, uint64_t index, ConstVec x, Vec g) override;
  // NaN: only the scripts can evaluate.
  Evaluation evaluate(int thread, int rank, ConstVec x) override;
  uint64_t gradients_per_pass(int) const override { return 0; }
  std::string description() const override;

  /// Corrects a mean of the aside tensors over this number of ranks. Takes masks from `own`, and
  /// also values that differ from `own` only by the rounding of a sum: a value that is equal on all
  /// ranks stays equal in the mean.
  static void put_masks(ConstVec own, int ranks, Vec mean);

  /// Writes all of the script's names, including the aside tensors.
  Status save_model(const std::string& directory, ConstVec x) override;

 private:
  const ParameterLayout layout_, aside_;
  const Buffer start_, start_aside_;
  const size_t wide_from_;
  const std::vector<TiedName> tied_;
  mutable Mutex mutex_;
  // The average of the statistics; the start until there is one.
  Buffer average_ GV_GUARDED_BY(mutex_);
  std::map<int, Buffer> statistics_ GV_GUARDED_BY(mutex_);
};

}  // namespace grapevine
