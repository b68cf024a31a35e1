// Places the ranks of a checkpoint in a run with the same number of ranks, or with fewer or more.
//
//   has a record      resumes from it
//   has no record     starts with the x of the next rank that has one, and x~ = x
//   has no place      is dropped; a line tells how far this moves the mean
//
// Schedules and the end of a run follow the gradients of a rank. So if n' ranks replace n, each
// counts as if it had taken n / n' of its gradients: the finished work and the rest stay the same.
// The exchanges of edges are then forgotten.
#pragma once
#include <string>
#include <vector>

#include "app/checkpoint/manifest.hpp"

namespace grapevine {

struct RankPlaces {
  int first = 0, count = 0;  // of this process
  int total = 0;             // of all processes
};

struct PlacedRanks {
  std::vector<RankRecordPtr> ranks;  // by place; none is null
  std::vector<std::string> told;     // a line each
};

/// REQUIRES: `recorded` is not empty, and rises by rank from were.first on.
PlacedRanks place_ranks(const std::vector<RankRecordPtr>& recorded, RankPlaces were,
                        RankPlaces are);

/// The distance that the mean of x moves if some ranks are left out. Ranks are added one by one, so
/// that they need not all be in memory.
class MovedMean {
 public:
  /// REQUIRES: the same number of elements each time. `stays`: the rank is not left out.
  void add(const RankRecord&, bool stays);
  /// "the mean moves by 0.1 in norm; its norm is 3"; empty if no ranks or all are left out.
  std::string text() const;

 private:
  Buffer kept_, left_out_;  // sums; empty: no rank was added
  size_t kept_ranks_ = 0, ranks_left_out_ = 0;
};

/// For methods with rounds in which ranks wait for each other. A process records its ranks one by
/// one while they train. So the records are as many rounds apart as the ranks took while the
/// checkpoint was written. All resume from the lowest round, so that no rank ends before the others
/// and leaves them with a smaller graph. A line tells how many ranks were ahead and by how many
/// rounds. `processes`: the recorded ranks of each. A process whose ranks are all behind those of
/// the farthest one had stopped earlier; its ranks stay behind. If all ranks take each step
/// together (`in_step`: a collective), they go forward instead: with equal numbers all ranks have
/// the same learning rate, and their x stays equal.
void level_rounds(const std::vector<std::vector<RankFile>>& processes, PlacedRanks&,
                  RankPlaces were, RankPlaces are, bool in_step = false);

/// The positions in the data. `recorded`: of all processes with a manifest here. The other ranks
/// are assumed to be at the average position of these.
DataCut cut_of(const std::vector<RankFile>& recorded, const PlacedRanks&, RankPlaces were,
               RankPlaces are);

}  // namespace grapevine
