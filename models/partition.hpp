// Partition: which training samples belong to which rank. An order of all samples, cut into one
// contiguous part per rank, sizes differing by at most one; so every sample is somebody's, once. Or
// every rank has all of them.
//
// The order is a pure function of (name, labels, seed, and for dirichlet the ranks):
//
//   iid              shuffled by the seed
//   whole            every rank has all samples, and goes through them in an order of its own
//   label            sorted by label: as skewed as can be
//   contiguous       as published
//   dirichlet:ALPHA  the split of Vogels et al., NeurIPS 2021 (arXiv 2110.04175): the
//                    shuffled samples are cut into blocks, one for each 10 ranks ("auxiliary
//                    workers"). In a block the samples of each class go to its workers in
//                    proportions drawn from Dirichlet(ALPHA), those left out that have their share
//                    already; a draw that leaves a worker with less than half of its
//                    share is thrown away. The workers' lists follow one another in the order.
//                    Keyed by seed + 100. Proportions are drawn as logarithms, so that ALPHA = 0.01
//                    does not underflow.
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
  /// `whole`: every rank has all. REQUIRES: samples >= ranks >= 1.
  Partition(std::vector<uint32_t> order, int ranks, bool whole = false);

  int ranks() const { return ranks_; }
  bool is_whole() const { return whole_; }
  size_t samples() const { return order_.size(); }
  uint32_t share_size(int rank) const { return end(rank) - first(rank); }
  std::vector<uint32_t> share(int rank) const;

  /// The same shares of other samples: rows[k] in the place of k. REQUIRES: as many as samples().
  Partition renamed(const std::vector<uint32_t>& rows) const;

  /// How many samples of each label each rank has, [rank][label].
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

/// labels: one per sample, or none where samples have no labels. Errors (user): an unknown name, an
/// ALPHA that is none, a name that needs labels where there are none, more ranks than samples, an
/// ALPHA so small that no draw gives every rank half of its share.
Result<Partition> make_partition(const std::string& name, uint32_t samples,
                                 std::span<const uint16_t> labels, int ranks, uint64_t seed);

/// The samples of each rank, and those of no rank.
struct Dealt {
  std::shared_ptr<const Partition> partition;
  std::vector<uint32_t> aside;  // rising
  /// The same samples among another number of ranks. Errors: make_partition's.
  std::function<Result<Partition>(int ranks)> among;

  uint64_t gradients_per_pass(int rank, int batch) const {
    const auto samples = static_cast<uint64_t>(batch);
    return (partition->share_size(rank) + samples - 1) / samples;
  }
};

/// ", 6,000 training samples set aside"; empty where none are.
std::string aside_text(const std::vector<uint32_t>& aside);

/// Sets a share of the samples aside, at least one if the share is above 0. Only the seed draws
/// them, so they are the same at every node. Divides the others. Errors (user): an invalid share,
/// or make_partition's.
Result<Dealt> deal(const std::string& name, uint32_t samples, std::span<const uint16_t> labels,
                   int ranks, uint64_t seed, double aside);

}  // namespace grapevine
