// grapevine data: the partition of a labelled data set: how many samples of each label each rank
// has.
#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <numeric>

#include "app/commands/commands.hpp"
#include "app/output/json_output.hpp"
#include "app/run/execute.hpp"
#include "app/system/words.hpp"
#include "kernels/base/printable.hpp"
#include "models/data/data_set.hpp"
#include "models/data/text_set.hpp"

namespace grapevine {
namespace {

using LabelCounts = std::vector<std::vector<uint64_t>>;  // [rank][label]

uint64_t sum(const std::vector<uint64_t>& row) {
  return std::accumulate(row.begin(), row.end(), uint64_t{0});
}

// The share of a rank's samples that have its most frequent label.
double largest_part(const std::vector<uint64_t>& row) {
  const auto most = static_cast<double>(*std::max_element(row.begin(), row.end()));
  return most / static_cast<double>(std::max<uint64_t>(1, sum(row)));
}

void print(const Settings& s, const LabelCounts& counts) {
  const size_t labels = counts.front().size();
  std::printf("%s over %d ranks, partition %s, seed %llu: samples of each label\n\n",
              printable(s.objective.dataset).c_str(), s.ranks, s.objective.partition.c_str(),
              static_cast<unsigned long long>(s.seed));
  std::printf("  rank ");
  for (size_t label = 0; label < labels; ++label)
    std::printf(" %7zu", label);
  std::printf("      all  largest\n");
  double mean = 0;
  for (size_t rank = 0; rank < counts.size(); ++rank) {
    std::printf("  %4zu ", rank);
    for (const uint64_t n : counts[rank])
      std::printf(" %7llu", static_cast<unsigned long long>(n));
    const double largest = largest_part(counts[rank]);
    mean += largest / static_cast<double>(counts.size());
    std::printf("  %7llu  %7s\n", static_cast<unsigned long long>(sum(counts[rank])),
                as_percent(largest).c_str());
  }
  std::printf("\n  a rank's most frequent label is %s of its samples on average\n",
              as_percent(mean).c_str());
}

Json json_of(const Settings& s, const LabelCounts& counts) {
  Json labels = Json::array(), sizes = Json::array();
  for (size_t label = 0; label < counts.front().size(); ++label)
    labels.push_back(label);
  for (const auto& row : counts)
    sizes.push_back(sum(row));
  return {{"dataset", s.objective.dataset},
          {"partition", s.objective.partition},
          {"ranks", s.ranks},
          {"seed", s.seed},
          {"labels", labels},
          {"counts", counts},
          {"sizes", sizes}};
}

}  // namespace

Result<int> show_data(Options options) {
  Settings s = options.settings;
  ObjectiveSpec& spec = s.objective;
  if (spec.objective != "network") {
    return user_error(
        fmt::format("objective is \"{}\", which has no labels, accepted: network", spec.objective));
  }
  if (is_text(spec.dataset)) {
    return user_error(
        fmt::format("dataset is \"{}\", a text, accepted: {}", spec.dataset, data_set_names()));
  }
  spec.model = "linear";  // accepts samples of any shape
  spec.batch = 1;         // and a set of any size
  if (spec.partition == "auto") spec.partition = "iid";
  const auto objective = make_objective_of(s);
  if (!objective) return objective.error();
  const LabelCounts counts = (*objective)->label_counts();
  if (counts.empty())
    return user_error(
        fmt::format("dataset is \"{}\", whose targets are not classes, accepted: whole numbers "
                    "from 0 to 65,535, one a sample",
                    spec.dataset));
  if (options.json) {
    print_json(json_of(s, counts));
  } else {
    print(s, counts);
  }
  return 0;
}

}  // namespace grapevine
