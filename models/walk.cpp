#include "models/walk.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <unordered_map>

#include "kernels/base/check.hpp"
#include "kernels/base/random.hpp"
#include "models/files/file.hpp"

namespace grapevine {
namespace {

constexpr uint64_t kLeft = uint64_t{1} << 40;  // above all passes: the key of the rest

std::vector<uint32_t> shuffled(std::vector<uint32_t> rows, uint64_t seed, int rank, uint64_t key) {
  Random random(seed, static_cast<uint32_t>(rank), Purpose::data_order, key);
  shuffle(rows.begin(), static_cast<uint32_t>(rows.size()), random);
  return rows;
}

/// The position of a rank after this number of samples: complete passes since `left.pass` began,
/// and the rest.
struct Place {
  bool in_left = false;  // it has not begun a complete pass
  uint64_t passes = 0, rest = 0;
};

Place place_of(uint64_t taken, size_t left, uint64_t size) {
  if (taken <= left) return {true, 0, taken};
  return {false, (taken - left) / size, (taken - left) % size};
}

/// Passes that the rank has begun, without those before `left.pass`.
uint64_t begun(const Place& place) {
  return place.in_left ? 0 : place.passes + (place.rest > 0 ? 1 : 0);
}

/// Adds to `left`, by sample, what a rank still has to take until it has ended `ends` passes.
void add_left(const Partition& partition, const DataLeft& was, uint64_t seed, int rank,
              uint64_t taken, uint64_t ends, std::unordered_map<uint32_t, uint64_t>& left) {
  const auto& first = was.first[static_cast<size_t>(rank)];
  const Place place = place_of(taken, first.size(), partition.share_size(rank));
  std::unordered_map<uint32_t, uint64_t> own;
  for (size_t k = place.in_left ? place.rest : first.size(); k < first.size(); ++k)
    ++own[first[k]];
  for (const uint32_t row : partition.share(rank))
    own[row] += ends - place.passes;
  if (!place.in_left && place.rest > 0) {
    const auto order = order_of_pass(partition, seed, rank, was.pass + place.passes);
    for (size_t k = 0; k < place.rest; ++k)
      --own[order[k]];
  }
  for (const auto& [row, times] : own)
    left[row] += std::min(times, kCatchUp);
}

Error not_of_this_data(size_t cut, const std::string& what) {
  return user_error(fmt::format("cut {} of the data has {}", cut, what));
}

}  // namespace

std::vector<uint32_t> order_of_pass(const Partition& partition, uint64_t seed, int rank,
                                    uint64_t pass) {
  return shuffled(partition.share(rank), seed, rank, pass);
}

Result<DataLeft> data_left(const std::vector<DataCut>& cuts,
                           const std::function<Result<Partition>(int ranks)>& among, int ranks,
                           uint64_t seed) {
  DataLeft now;
  size_t before = cuts.empty() ? static_cast<size_t>(ranks) : cuts.front().taken.size();
  now.first.resize(before);
  now.since.resize(before);
  for (size_t k = 0; k < cuts.size(); ++k) {
    const auto& [taken, first] = cuts[k];
    const size_t after = k + 1 < cuts.size() ? cuts[k + 1].taken.size() : first.size();
    if (taken.size() != before || first.size() != after || taken.empty() || first.empty())
      return not_of_this_data(k, fmt::format("{} ranks before it and {} after, accepted: {} and {}",
                                             taken.size(), first.size(), before, after));
    const auto was = among(static_cast<int>(before));
    const auto is = among(static_cast<int>(after));
    if (!was || !is) return not_of_this_data(k, "more ranks than samples");
    uint64_t ends = 0;
    for (size_t r = 0; r < before; ++r)
      ends = std::max(ends, begun(place_of(taken[r], now.first[r].size(),
                                           was->share_size(static_cast<int>(r)))));
    std::unordered_map<uint32_t, uint64_t> left;
    for (size_t r = 0; r < before && !was->is_whole(); ++r)
      add_left(*was, now, seed, static_cast<int>(r), taken[r], ends, left);
    before = after;
    now.pass += ends;
    now.since = first;
    now.first.assign(after, {});
    // If each rank has all samples, it continues with a complete pass.
    for (size_t r = 0; r < after && !was->is_whole(); ++r) {
      std::vector<uint32_t> rows;
      for (const uint32_t row : is->share(static_cast<int>(r)))
        rows.insert(rows.end(), left[row], row);
      now.first[r] = shuffled(std::move(rows), seed, static_cast<int>(r), kLeft + k);
    }
  }
  if (before != static_cast<size_t>(ranks))
    return not_of_this_data(cuts.size() - 1, fmt::format("{} ranks, accepted: {}", before, ranks));
  return now;
}

}  // namespace grapevine
