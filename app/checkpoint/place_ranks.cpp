#include "app/checkpoint/place_ranks.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "app/system/words.hpp"
#include "kernels/passes/ops.hpp"

namespace grapevine {
namespace {

Buffer copy_of(const Buffer& from) {
  Buffer to(from.size(), from.dtype());
  scale({}, 1, from, to);
  return to;
}

uint64_t share_of(uint64_t gradients, RankPlaces were, RankPlaces are) {
  const double share = static_cast<double>(were.total) / static_cast<double>(are.total);
  return static_cast<uint64_t>(std::floor(static_cast<double>(gradients) * share));
}

// Without the data of edges.
std::shared_ptr<RankRecord> copy_of(const RankRecord& of, int rank) {
  auto copy = std::make_shared<RankRecord>();
  copy->rank = rank;
  copy->gradients = of.gradients;
  copy->numbers = of.numbers;
  copy->statistics = copy_of(of.statistics);
  for (const RankRecord::Vector& v : of.vectors)
    copy->vectors.push_back({v.name, copy_of(v.values)});
  return copy;
}

std::shared_ptr<RankRecord> clone_of(const RankRecord& of, int rank) {
  auto clone = copy_of(of, rank);
  for (RankRecord::Vector& v : clone->vectors)
    if (v.name == "x~") v.values = copy_of(of.vectors.front().values);
  return clone;
}

}  // namespace

void MovedMean::add(const RankRecord& rank, bool stays) {
  const Buffer& x = rank.vectors.front().values;
  if (kept_.size() == 0) {
    kept_ = Buffer(x.size(), DType::f64);
    left_out_ = Buffer(x.size(), DType::f64);
  }
  const Buffer zero(x.size(), DType::f64);
  add_deviation({}, x, zero, stays ? kept_ : left_out_);
  ++(stays ? kept_ranks_ : ranks_left_out_);
}

std::string MovedMean::text() const {
  if (kept_ranks_ == 0 || ranks_left_out_ == 0) return "";
  Buffer all(kept_.size(), DType::f64), kept(kept_.size(), DType::f64);
  const double per_rank = 1 / static_cast<double>(kept_ranks_ + ranks_left_out_);
  scale({}, per_rank, kept_, all);
  axpy({}, per_rank, left_out_, all);
  scale({}, 1 / static_cast<double>(kept_ranks_), kept_, kept);
  const Buffer zero(kept_.size(), DType::f64);
  return fmt::format("the mean moves by {} in norm; its norm is {}",
                     as_short(std::sqrt(square_distance({}, all, kept))),
                     as_short(std::sqrt(square_distance({}, all, zero))));
}

PlacedRanks place_ranks(const std::vector<RankRecordPtr>& recorded, RankPlaces were,
                        RankPlaces are) {
  PlacedRanks placed;
  placed.ranks.resize(static_cast<size_t>(are.count));
  std::vector<RankRecordPtr> kept;
  for (const RankRecordPtr& record : recorded) {
    const int place = record->rank - were.first;
    if (place < are.count) kept.push_back(record);
  }
  if (kept.empty()) kept.push_back(recorded.front());
  const bool is_same = were.first == are.first && were.total == are.total;
  for (int place = 0; place < are.count; ++place) {
    const int rank = are.first + place, was = were.first + place;
    auto from = std::find_if(kept.begin(), kept.end(),
                             [was](const RankRecordPtr& r) { return r->rank >= was; });
    if (from == kept.end()) from = kept.begin() + place % static_cast<int>(kept.size());
    const bool is_own = (*from)->rank == was && were.first == are.first;
    RankRecordPtr& at = placed.ranks[static_cast<size_t>(place)];
    if (is_own && is_same) {
      at = *from;
      continue;
    }
    const auto copy = is_own ? copy_of(**from, rank) : clone_of(**from, rank);
    copy->gradients = share_of(copy->gradients, were, are);
    at = copy;
    if (!is_own)
      placed.told.push_back(fmt::format("rank {} has no record and starts with the x of rank {}",
                                        rank, (*from)->rank));
  }
  if (const size_t out = recorded.size() - kept.size(); out > 0) {
    MovedMean mean;
    for (const RankRecordPtr& record : recorded)
      mean.add(*record, std::find(kept.begin(), kept.end(), record) != kept.end());
    placed.told.push_back(fmt::format("{} rank{} no place in this run; without {} {}", out,
                                      out == 1 ? " has" : "s have", out == 1 ? "it" : "them",
                                      mean.text()));
  }
  if (were.total != are.total)
    placed.told.push_back(
        fmt::format("{} ranks in place of {}: each counts as if it had taken {}/{} of its "
                    "gradients, and the data are divided again",
                    are.total, were.total, were.total, are.total));
  return placed;
}

void level_rounds(const std::vector<std::vector<RankFile>>& processes, PlacedRanks& placed,
                  RankPlaces were, RankPlaces are, bool in_step) {
  const auto fewer = [](const RankFile& a, const RankFile& b) { return a.gradients < b.gradients; };
  std::vector<RankFile> recorded;
  uint64_t most = 0, least = 0;  // at first of the process that is farthest
  for (const std::vector<RankFile>& process : processes) {
    recorded.insert(recorded.end(), process.begin(), process.end());
    const auto [slowest, fastest] = std::ranges::minmax_element(process, fewer);
    if (fastest->gradients < most) continue;
    most = fastest->gradients;
    least = slowest->gradients;
  }
  const uint64_t latest = least;
  for (const std::vector<RankFile>& process : processes) {
    const auto [slowest, fastest] = std::ranges::minmax_element(process, fewer);
    if (fastest->gradients + static_cast<uint64_t>(were.total) > latest)  // else it stopped earlier
      least = std::min(least, slowest->gradients);
  }
  const auto ahead = std::count_if(recorded.begin(), recorded.end(),
                                   [least](const RankFile& r) { return r.gradients > least; });
  if (ahead > 0)
    placed.told.push_back(
        fmt::format("{} rank{} up to {} round{} ahead of the slowest rank, and {} back by as many "
                    "rounds; the error of the mean that this causes has no bound",
                    ahead, ahead == 1 ? " was" : "s were", most - least,
                    most - least == 1 ? "" : "s", ahead == 1 ? "goes" : "go"));
  const auto behind =
      std::ranges::count_if(recorded, [least](const RankFile& r) { return r.gradients < least; });
  if (behind > 0 && in_step)
    placed.told.push_back(fmt::format("{} rank{} behind, and {} forward to the round of the others",
                                      behind, behind == 1 ? " was" : "s were",
                                      behind == 1 ? "goes" : "go"));
  const uint64_t level = share_of(least, were, are);
  for (RankRecordPtr& rank : placed.ranks) {
    if (rank->gradients == level || (rank->gradients < level && !in_step)) continue;
    const auto copy = copy_of(*rank, rank->rank);
    copy->gradients = level;
    rank = copy;
  }
}

DataCut cut_of(const std::vector<RankFile>& recorded, const PlacedRanks& placed, RankPlaces were,
               RankPlaces are) {
  DataCut cut;
  uint64_t taken = 0, first = 0;
  for (const RankFile& rank : recorded)
    taken += rank.position / recorded.size();
  for (const RankRecordPtr& rank : placed.ranks)
    first += rank->gradients / placed.ranks.size();
  cut.taken.assign(static_cast<size_t>(were.total), taken);
  cut.first.assign(static_cast<size_t>(are.total), first);
  for (const RankFile& rank : recorded)
    cut.taken[static_cast<size_t>(rank.rank) % cut.taken.size()] = rank.position;
  for (const RankRecordPtr& rank : placed.ranks)
    cut.first[static_cast<size_t>(rank->rank) % cut.first.size()] = rank->gradients;
  return cut;
}

}  // namespace grapevine
