// Walk: the order in which the ranks of a run go through the training samples.
//
// A rank goes through its share pass after pass. Each pass has its own order, keyed by (seed, rank,
// pass). If a run continues with another number of ranks, the shares are cut again in the middle of
// a pass. With P the latest pass that a rank had begun:
//
//   rest               of each sample as many as its rank still had to take to the end of pass P
//   a rank after that  first the rest of its new share, shuffled; then passes P + 1, P + 2, ...
//
// So at the end of the present pass every sample has been used as often as every other, and no used
// sample repeats before. A rank that is more than kCatchUp passes behind repeats only that many.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "models/partition.hpp"

namespace grapevine {

/// One change of the number of ranks.
struct DataCut {
  std::vector<uint64_t> taken;  // samples since the cut before, by rank before
  std::vector<uint64_t> first;  // the gradient with which it begins, by rank from then on

  bool operator==(const DataCut&) const = default;
};

constexpr uint64_t kCatchUp = 16;

/// How far the data had been taken when the ranks of now began.
struct DataLeft {
  uint64_t pass = 0;                         // the next one that is whole
  std::vector<std::vector<uint32_t>> first;  // by rank: what it takes before; all empty: nothing
  std::vector<uint64_t> since;               // by rank: its gradient with which that begins
};

/// After these cuts, in their order. `ranks`: of now. Errors (user): a cut that is not of this
/// data, or not of so many ranks.
Result<DataLeft> data_left(const std::vector<DataCut>&,
                           const std::function<Result<Partition>(int ranks)>& among, int ranks,
                           uint64_t seed);

/// All dealers of batches go on after these cuts: go_on_with(left) of batches_of(each).
/// Errors: data_left's.
template <class Dealers, class BatchesOf>
Status go_on_after(const std::vector<DataCut>& cuts, const Dealt& dealt, int ranks, uint64_t seed,
                   Dealers& dealers, BatchesOf batches_of) {
  auto left = data_left(cuts, dealt.among, ranks, seed);
  if (!left) return left.error();
  const auto shared = std::make_shared<const DataLeft>(std::move(*left));
  for (auto& dealer : dealers)
    batches_of(dealer).go_on_with(shared);
  return Done{};
}

/// The samples of a rank's share, in the order of that pass.
std::vector<uint32_t> order_of_pass(const Partition&, uint64_t seed, int rank, uint64_t pass);

}  // namespace grapevine
