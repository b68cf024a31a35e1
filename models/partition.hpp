// Partition: the training samples of each rank. An order of all samples is cut into one contiguous
// part per rank, whose sizes differ by at most one; so every sample belongs to exactly one rank. Or
// every rank has all of them.
//
// The order is a pure function of (name, labels, seed), and with dirichlet also of the ranks:
//
//   iid              shuffled by the seed
//   whole            every rank has all samples and goes through them in an order of its own
//   label            sorted by label: as skewed as possible
//   contiguous       the order of the data set
//   dirichlet:ALPHA  the split of Vogels et al., NeurIPS 2021 (arXiv 2110.04175). The shuffled
//                    samples are cut into blocks, one for each 10 ranks ("auxiliary workers").
//                    In a block, the workers get the samples of each class in proportions drawn
//                    from Dirichlet(ALPHA); a worker whose share is full gets no more. A draw
//                    that leaves a worker less than half of its share is thrown away. The
//                    order joins the workers' lists. The random seed is the run's + 100. The
//                    code draws logarithms of proportions, so that ALPHA = 0.01 does not
//                    underflow.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/base/result.hpp"

namespace grapevine {

inline constexpr char kWhole[] = "whole";

class Partition {
 public:
  /// `whole`: every rank has all samples. REQUIRES: samples >= ranks >= 1.
  Partition(std::vector<uint32_t> order, int ranks, bool whole = false);

  int ranks() const { return ranks_; }
  bool is_whole() const { return whole_; }
  size_t samples() const { return order_.size(); }
  uint32_t share_size(int rank) const { return end(rank) - first(rank); }
  std::vector<uint32_t> share(int rank) const;

  /// The same shares of other samples: rows[k] replaces sample k. REQUIRES: rows.size() =
  /// samples().
  Partition renamed(const std::vector<uint32_t>& rows) const;

  /// The number of samples of each label on each rank, [rank][label].
  std::vector<std::vector<uint64_t>> label_counts(std::span<const uint16_t> labels,
                                                  int classes) const;

 private:
  uint32_t cut(int rank) const;
  uint32_t first(int rank) const { return whole_ ? 0 : cut(rank); }
  uint32_t end(int rank) const { return whole_ ? cut(ranks_) : cut(rank + 1); }

  int ranks_;
  bool whole_;
  std::vector<uint32_t> order_;
};

/// labels: one per sample, or empty if samples have no labels. Errors (user): an unknown name; an
/// invalid ALPHA; a name that needs labels without labels; more ranks than samples; an ALPHA so
/// small that no draw gives every rank half of its share.
Result<Partition> make_partition(const std::string& name, uint32_t samples,
                                 std::span<const uint16_t> labels, int ranks, uint64_t seed);

/// The samples of each rank, and those of no rank.
struct Dealt {
  std::shared_ptr<const Partition> partition;
  std::vector<uint32_t> aside;  // ascending
  /// The same samples among another number of ranks. Errors: make_partition's.
  std::function<Result<Partition>(int ranks)> among;

  uint64_t gradients_per_pass(int rank, int batch) const {
    const auto samples = static_cast<uint64_t>(batch);
    return (partition->share_size(rank) + samples - 1) / samples;
  }
};

/// ", 6,000 training samples set aside"; empty: there are none.
std::string aside_text(const std::vector<uint32_t>& aside);

/// Sets a share of the samples aside, at least one if the share is above 0, and partitions the
/// others. The draw depends only on the seed, so every node sets the same samples aside. Errors
/// (user): an invalid share, or make_partition's.
Result<Dealt> deal(const std::string& name, uint32_t samples, std::span<const uint16_t> labels,
                   int ranks, uint64_t seed, double aside);

}  // namespace grapevine
