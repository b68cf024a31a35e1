// GuestObjective: the objective of a guest, a script that computes a rank's steps in its own
// process. It has the script's layout and starting point; only the script has the loss, the data
// and the gradients.
#pragma once
#include <map>
#include <vector>

#include "kernels/base/mutex.hpp"
#include "models/objective.hpp"

namespace grapevine {

/// How settings name it: make_objective does not make it, a script brings it.
inline constexpr char kGuestObjective[] = "guest";

/// Another name of a tensor, in files: a view of all of it. REQUIRES: within its tensor.
struct TiedName {
  std::string name, of;
  std::vector<int64_t> shape, strides;
};

class GuestObjective final : public Objective {
 public:
  /// `start` has the layout's size, and `statistics` that of the aside tensors, which are averaged
  /// in means and never exchanged. Parameters are fp32. In the fp64 vector of aside tensors, those
  /// from `wide_from` on are fp64 in the script, and those before are fp32.
  GuestObjective(ParameterLayout layout, ParameterLayout aside, Buffer start, Buffer statistics,
                 size_t wide_from = 0, std::vector<TiedName> tied = {});

  const ParameterLayout& layout() const override { return layout_; }
  const ParameterLayout& statistics() const override { return aside_; }
  /// As of the last step of the rank's script.
  void read_statistics(int rank, Vec out) const override;
  bool has_statistics(int rank) const override;
  /// Without elements that are infinite or not a number (a mask), which no mean can have.
  void read_for_mean(int rank, Vec out) const override;
  /// For a rank without gradients: it has no statistics of its own.
  void set_statistics(int rank, uint64_t gradients, ConstVec) override;
  void set_average_statistics(ConstVec) override;
  bool has_gradients() const override { return false; }
  bool has_workers() const override { return true; }
  Status use_gpu(int) override { return Done{}; }  // where the script computes is its own affair
  void initial_point(int rank, Vec x) const override;
  bool starts_alike() const override { return true; }
  double gradient(int thread, int rank, uint64_t index, ConstVec x, Vec g) override;
  Evaluation evaluate(int thread, int rank, ConstVec x) override;  // only the scripts can: NaN
  uint64_t gradients_per_pass(int) const override { return 0; }
  std::string description() const override;

  /// A mean of the aside tensors over this number of ranks. Masks are taken from `own`, and so are
  /// values that differ from it only by the rounding of a sum: equal values of all ranks stay equal
  /// in the mean.
  static void put_masks(ConstVec own, int ranks, Vec mean);

  /// Under all of the script's names, including the aside tensors.
  Status save_model(const std::string& directory, ConstVec x) override;

 private:
  const ParameterLayout layout_, aside_;
  const Buffer start_, start_aside_;
  const size_t wide_from_;
  const std::vector<TiedName> tied_;
  mutable Mutex mutex_;
  // Of the statistics; before there is one, the start.
  Buffer average_ GV_GUARDED_BY(mutex_);
  std::map<int, Buffer> statistics_ GV_GUARDED_BY(mutex_);
};

}  // namespace grapevine
