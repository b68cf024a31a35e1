// The ranks of a checkpoint, at the places of a run that has as many ranks, fewer or more.
//
//   has a record      goes on from it
//   is new, was gone  begins with the x of the next rank that has one, and x~ = x
//   has no place      is left out; by how much that moves the mean is told
//
// Schedules and the end of a run go by the gradients of a rank. So where n' ranks take the place of
// n, each counts as if it had taken n / n' of what it has: together they have done as much of the
// whole, and do the rest. Exchanges of edges are forgotten then.
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

/// REQUIRES: recorded rise by rank, from were.first on, and there is one.
PlacedRanks place_ranks(const std::vector<RankRecordPtr>& recorded, RankPlaces were,
                        RankPlaces are);

/// By how much the mean of x moves where some ranks are left out. One rank after the other, so that
/// they need not all be in memory.
class MovedMean {
 public:
  /// REQUIRES: of as many elements as those before. `stays`: it is not left out.
  void add(const RankRecord&, bool stays);
  /// "the mean moves by 0.1 in norm; its norm is 3"; empty where none or all are left out.
  std::string text() const;

 private:
  Buffer kept_, left_out_;  // sums; empty: nothing was added
  size_t kept_ranks_ = 0, ranks_left_out_ = 0;
};

/// Of methods whose ranks wait for each other in rounds: a graph's ranks are in different ones when
/// they are recorded, by less than there are of them. All go on from the least, so that no rank
/// ends before the others and leaves them to a smaller graph; how many were ahead, and by how many
/// rounds, is told. `recorded`: of all processes.
void level_rounds(const std::vector<RankFile>& recorded, PlacedRanks&, RankPlaces were,
                  RankPlaces are);

/// What the data are to hear of it. `recorded`: of all processes, as far as their manifests are
/// there; of the other ranks it is taken for granted that they are as far as those on average.
DataCut cut_of(const std::vector<RankFile>& recorded, const PlacedRanks&, RankPlaces were,
               RankPlaces are);

}  // namespace grapevine
