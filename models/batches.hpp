// Batches: which samples belong to batch number `index` of a rank, and how they are given to the
// network.
//
// A rank walks through its share of the partition, in an order that is shuffled for each pass and
// keyed by (seed, rank, pass), after the rest that earlier lives of the run have left (walk.hpp). A
// batch may end one pass and begin the next, so no sample is left out. Mirroring and crops are
// keyed by (seed, rank, index). So a batch is a pure function of (partition, seed, rank, index) and
// of that rest.
//
// Not thread-safe: the last order of each rank is kept. One object per thread; all of them share
// one partition.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "models/data/data_set.hpp"
#include "models/walk.hpp"

namespace grapevine {

class Batches {
 public:
  Batches(std::shared_ptr<const Partition>, uint64_t seed, int batch);

  /// REQUIRES: of this partition's ranks.
  void go_on_with(std::shared_ptr<const DataLeft>);

  /// The samples of a batch: `batch` numbers into the training set. Valid until the next call.
  const std::vector<uint32_t>& rows(int rank, uint64_t index);

 private:
  struct Pass {
    uint64_t number = ~uint64_t{0};
    std::vector<uint32_t> order;
  };
  const std::vector<uint32_t>& order(int rank, uint64_t pass);

  std::shared_ptr<const Partition> partition_;
  uint64_t seed_;
  size_t batch_;
  std::shared_ptr<const DataLeft> left_;  // null: nothing
  std::vector<Pass> passes_;              // per rank
  std::vector<uint32_t> rows_;
};

/// How a sample is shown: shifted by (down, right) pixels, black outside, then mirrored or not.
struct Augmentation {
  int down = 0;
  int right = 0;
  bool mirrored = false;
};

/// Writes samples as normalised fp32: images row by row with the channels innermost
/// (channels-last), features as they are. `mean` and `deviation` are the data set's.
class Gatherer {
 public:
  explicit Gatherer(const DataSet&);  // keeps no reference

  void gather(const Samples&, uint32_t sample, const Augmentation&, float* out) const;

 private:
  std::vector<float> scale_, shift_;  // per channel: pixel * scale + shift
};

/// How the samples of a training batch are presented. mirror: the user's choice; ignored if the
/// data set says that mirroring is harmful.
std::vector<Augmentation> training_augmentations(const DataSet&, bool mirror, uint64_t seed,
                                                 int rank, uint64_t index, int batch);

}  // namespace grapevine
