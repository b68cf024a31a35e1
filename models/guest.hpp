// GuestObjective: what a guest trains, a script that computes a rank's steps in a process of its
// own. The script's layout and starting point; the script alone has the loss, the data and the
// gradients.
#pragma once
#include <map>
#include <mutex>
#include <vector>

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
  /// `start` has the layout's size, and `statistics` theirs: what a script has aside, which is
  /// averaged in means and never gossiped. Parameters are fp32. Of an `aside` in fp64 the tensors
  /// from `wide_from` on are the script's fp64, and those before its fp32.
  GuestObjective(ParameterLayout layout, ParameterLayout aside, Buffer start, Buffer statistics,
                 size_t wide_from = 0, std::vector<TiedName> tied = {});

  const ParameterLayout& layout() const override { return layout_; }
  const ParameterLayout& statistics() const override { return aside_; }
  /// As of the last step of the rank's script.
  void read_statistics(int rank, Vec out) const override;
  bool has_statistics(int rank) const override;
  /// Without what is no number or infinite: a mask, which no mean can have.
  void read_for_mean(int rank, Vec out) const override;
  /// Of a rank without gradients: the rank has none of its own.
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

  /// A mean of what is aside, over so many ranks. Its masks are as `own` has them, and so is what
  /// differs from it by the rounding of a sum alone: alike in all, it is so in the mean.
  static void put_masks(ConstVec own, int ranks, Vec mean);

  /// Under all of the script's names, what is aside included.
  Status save_model(const std::string& directory, ConstVec x) override;

 private:
  const ParameterLayout layout_, aside_;
  const Buffer start_, start_aside_;
  const size_t wide_from_;
  const std::vector<TiedName> tied_;
  mutable std::mutex mutex_;  // guards what follows
  Buffer average_;            // of the statistics; before there is one, the start
  std::map<int, Buffer> statistics_;
};

}  // namespace grapevine
