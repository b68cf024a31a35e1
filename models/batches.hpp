// Batches: the samples of batch number `index` of a rank, and their form as the network's input.
//
// A rank goes through its share of the partition pass after pass. (seed, rank, pass) shuffles the
// order of a pass. If the run had other numbers of ranks before, the rank first takes the rest that
// they left (walk.hpp). A batch may end one pass and begin the next, so no sample is left out.
// (seed, rank, index) draws mirroring and crops. So a batch is a pure function of (partition, seed,
// rank, index) and of that rest.
//
// Not thread-safe: the object keeps the last order of each rank. Use one object per thread; all of
// them share one partition.
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

  /// REQUIRES: the object was made for this partition's ranks.
  void go_on_with(std::shared_ptr<const DataLeft>);

  /// The samples of a batch: `batch` indices into the training set. Valid until the next call.
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
  std::shared_ptr<const DataLeft> left_;  // null: nothing is left
  std::vector<Pass> passes_;              // per rank
  std::vector<uint32_t> rows_;
};

/// How a sample is changed: shifted by (down, right) pixels, black outside, then mirrored or not.
struct Augmentation {
  int down = 0;
  int right = 0;
  bool mirrored = false;
};

/// Writes samples as normalised fp32. Images: row by row, channels innermost (channels-last).
/// Features: unchanged. Mean and deviation are those of the data set.
class Gatherer {
 public:
  explicit Gatherer(const DataSet&);  // keeps no reference

  void gather(const Samples&, uint32_t sample, const Augmentation&, float* out) const;

 private:
  std::vector<float> scale_, shift_;  // per channel: pixel * scale + shift
};

/// The random changes of a training batch's samples. mirror: the user's choice; ignored if the data
/// set says that mirroring is harmful.
std::vector<Augmentation> training_augmentations(const DataSet&, bool mirror, uint64_t seed,
                                                 int rank, uint64_t index, int batch);

}  // namespace grapevine
