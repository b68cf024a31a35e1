// Walk: the order in which the ranks of a run go through the training samples.
//
// A rank goes through its share pass after pass. (seed, rank, pass) shuffles the order of a pass.
// If a run continues with another number of ranks, the shares are cut again in the middle of a
// pass. P is the latest pass that a rank had begun:
//
//   rest               for each sample: how often its rank still had to take it until the end of P
//   a rank after that  takes the rest of its new share first, shuffled; then passes P + 1, P + 2,
//   ...
//
// So at the end of pass P every sample was used equally often, and no used sample repeats before. A
// rank that is more than kCatchUp passes behind repeats only that many passes.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "models/partition.hpp"

namespace grapevine {

/// One change of the number of ranks.
struct DataCut {
  std::vector<uint64_t> taken;  // samples since the cut before, by rank before the cut
  std::vector<uint64_t> first;  // the index of its first gradient, by rank after the cut

  bool operator==(const DataCut&) const = default;
};

constexpr uint64_t kCatchUp = 16;

/// The position in the data at which the present ranks began.
struct DataLeft {
  uint64_t pass = 0;  // the next complete pass
  // By rank: the samples it takes before that pass; all empty: none.
  std::vector<std::vector<uint32_t>> first;
  std::vector<uint64_t> since;  // by rank: the index of the gradient that begins them
};

/// The position after these cuts, in order. `ranks`: the present number. Errors (user): a cut that
/// does not fit this data or the numbers of ranks.
Result<DataLeft> data_left(const std::vector<DataCut>&,
                           const std::function<Result<Partition>(int ranks)>& among, int ranks,
                           uint64_t seed);

/// Calls go_on_with() for all Batches after these cuts: on batches_of(each of the dealers). Errors:
/// data_left's.
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

/// The samples of a rank's share, in the order of a pass.
std::vector<uint32_t> order_of_pass(const Partition&, uint64_t seed, int rank, uint64_t pass);

}  // namespace grapevine
