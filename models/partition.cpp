#include "models/partition.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "kernels/base/check.hpp"
#include "kernels/base/random.hpp"
#include "kernels/base/spec.hpp"
#include "models/files/file.hpp"

namespace grapevine {
namespace {

using Order = std::vector<uint32_t>;

constexpr uint64_t kDirichletSeed = 100;   // added to the run's seed
constexpr uint64_t kAside = ~uint32_t{0};  // the random stream that draws the samples to set aside
constexpr size_t kBlock = 10;              // auxiliary workers
constexpr double kLeastAlpha = 1e-6, kMostAlpha = 1e6;
constexpr int kMostDraws = 100000;  // for one block; half a second

Order in_order(size_t samples) {
  Order order(samples);
  std::iota(order.begin(), order.end(), 0u);
  return order;
}

Order shuffled(size_t samples, uint64_t seed) {
  Order order = in_order(samples);
  Random random(seed, 0, Purpose::partition);
  shuffle(order.begin(), static_cast<uint32_t>(samples), random);
  return order;
}

/// The logarithm of a gamma variate (Marsaglia, Tsang, ACM TOMS 26, 2000). For alpha below 1: the
/// variate of alpha + 1 times u^(1 / alpha), which would underflow without the logarithm.
double log_gamma_variate(double alpha, Random& random) {
  const double boost = alpha < 1 ? -random.exponential() / alpha : 0;
  const double d = (alpha < 1 ? alpha + 1 : alpha) - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  while (true) {
    const double x = random.normal(), root = 1 + c * x;
    if (root <= 0) continue;
    const double v = root * root * root;
    if (-random.exponential() < 0.5 * x * x + d - d * v + d * std::log(v)) {
      return std::log(d * v) + boost;
    }
  }
}

/// The cuts of a block's classes: [class][worker] is the end of the worker's samples.
using Cuts = std::vector<std::vector<size_t>>;

/// One draw; empty: it leaves a worker less than half of its share.
std::optional<Cuts> draw_cuts(const std::vector<Order>& classes, size_t workers, double alpha,
                              size_t samples, Random& random) {
  const double share = static_cast<double>(samples) / static_cast<double>(workers);
  Cuts cuts;
  std::vector<size_t> sizes(workers, 0);
  std::vector<double> part(workers);
  for (const Order& members : classes) {
    for (double& p : part)
      p = log_gamma_variate(alpha, random);
    double largest = -INFINITY, sum = 0;
    for (size_t w = 0; w < workers; ++w) {
      if (static_cast<double>(sizes[w]) >= share) part[w] = -INFINITY;  // full
      largest = std::max(largest, part[w]);
    }
    for (double& p : part)
      sum += p = std::exp(p - largest);
    cuts.emplace_back();
    double upto = 0;
    for (size_t w = 0, first = 0; w < workers; ++w) {
      upto += part[w] / sum;
      const size_t last =
          w + 1 == workers
              ? members.size()
              : std::min(members.size(),
                         static_cast<size_t>(upto * static_cast<double>(members.size())));
      cuts.back().push_back(last);
      sizes[w] += last - first;
      first = last;
    }
  }
  const size_t least = static_cast<size_t>(0.5 * share);
  if (*std::min_element(sizes.begin(), sizes.end()) < least) return std::nullopt;
  return cuts;
}

/// Appends the lists of a block's workers.
bool deal_block(std::span<const uint32_t> block, std::span<const uint16_t> labels, size_t workers,
                double alpha, Random& random, Order& order) {
  uint16_t most = 0;
  for (const uint32_t sample : block)
    most = std::max(most, labels[sample]);
  std::vector<Order> classes(size_t{most} + 1);
  for (const uint32_t sample : block)
    classes[labels[sample]].push_back(sample);
  std::erase_if(classes, [](const Order& members) { return members.empty(); });
  std::optional<Cuts> cuts;
  for (int k = 0; k < kMostDraws && !cuts; ++k) {
    cuts = draw_cuts(classes, workers, alpha, block.size(), random);
  }
  if (!cuts) return false;
  for (size_t w = 0; w < workers; ++w) {
    for (size_t c = 0; c < classes.size(); ++c) {
      const auto members = classes[c].begin();
      order.insert(order.end(), members + (w == 0 ? 0 : (*cuts)[c][w - 1]),
                   members + (*cuts)[c][w]);
    }
  }
  return true;
}

/// Empty: a block found no valid draw.
Order dirichlet(std::span<const uint16_t> labels, size_t ranks, double alpha, uint64_t seed) {
  const Order mixed = shuffled(labels.size(), seed);
  const size_t block_size = labels.size() * kBlock / ranks;
  Order order;
  for (size_t done = 0, from = 0; done < ranks; done += kBlock, from += block_size) {
    const size_t workers = std::min(kBlock, ranks - done);
    const bool last = done + workers == ranks;
    const std::span block(mixed.data() + from, last ? mixed.size() - from : block_size);
    Random random(seed, 0, Purpose::partition, 1 + done);
    if (!deal_block(block, labels, workers, alpha, random, order)) return {};
  }
  return order;
}

/// ALPHA; empty: the name has no valid one.
std::optional<double> alpha_of(std::string_view name) {
  const Spec given(name);
  if (given.name != "dirichlet") return std::nullopt;
  const auto alpha = number_of<double>(given.value.value_or(""));
  if (!alpha || !(*alpha >= kLeastAlpha && *alpha <= kMostAlpha)) return std::nullopt;
  return alpha;
}

}  // namespace

Partition::Partition(std::vector<uint32_t> order, int ranks, bool whole)
    : ranks_(ranks), whole_(whole), order_(std::move(order)) {
  GV_CHECK(ranks >= 1);
  GV_CHECK(order_.size() >= static_cast<size_t>(ranks));
}

uint32_t Partition::cut(int rank) const {
  return static_cast<uint32_t>(uint64_t{order_.size()} * static_cast<uint64_t>(rank) /
                               static_cast<uint64_t>(ranks_));
}

std::vector<uint32_t> Partition::share(int rank) const {
  GV_CHECK(rank >= 0);
  GV_CHECK(rank < ranks_);
  return {order_.begin() + first(rank), order_.begin() + end(rank)};
}

Partition Partition::renamed(const std::vector<uint32_t>& rows) const {
  GV_CHECK(rows.size() == order_.size());
  Order order;
  for (const uint32_t k : order_)
    order.push_back(rows[k]);
  return Partition(std::move(order), ranks_, whole_);
}

std::vector<std::vector<uint64_t>> Partition::label_counts(std::span<const uint16_t> labels,
                                                           int classes) const {
  std::vector<std::vector<uint64_t>> counts(static_cast<size_t>(ranks_));
  for (int rank = 0; rank < ranks_; ++rank) {
    std::vector<uint64_t>& own = counts[static_cast<size_t>(rank)];
    own.resize(static_cast<size_t>(classes));
    for (const uint32_t sample : share(rank))
      ++own.at(labels[sample]);
  }
  return counts;
}

Result<Partition> make_partition(const std::string& name, uint32_t samples,
                                 std::span<const uint16_t> labels, int ranks, uint64_t seed) {
  GV_CHECK((labels.empty() || labels.size() == samples));
  const std::optional<double> alpha = alpha_of(name);
  if (name != "iid" && name != "whole" && name != "label" && name != "contiguous" && !alpha) {
    return user_error(fmt::format(
        "partition is \"{}\", accepted: iid, whole, label, contiguous, dirichlet:ALPHA with "
        "ALPHA from 1e-6 to 1e6",
        name));
  }
  if ((name == "label" || alpha) && labels.empty()) {
    return user_error(fmt::format(
        "partition is \"{}\" where samples have no labels, accepted: iid, whole, contiguous",
        name));
  }
  if (samples < static_cast<uint32_t>(ranks)) {
    return user_error(
        fmt::format("ranks is {}, accepted: at most {}, the number of training samples",
                    with_commas(static_cast<size_t>(ranks)), with_commas(samples)));
  }
  if (name == "contiguous") return Partition(in_order(samples), ranks);
  if (name == "iid") return Partition(shuffled(samples, seed), ranks);
  if (name == "whole") return Partition(in_order(samples), ranks, true);
  if (name == "label") {
    Order order = in_order(samples);
    std::stable_sort(order.begin(), order.end(),
                     [labels](uint32_t a, uint32_t b) { return labels[a] < labels[b]; });
    return Partition(std::move(order), ranks);
  }
  Order order = dirichlet(labels, static_cast<size_t>(ranks), *alpha, seed + kDirichletSeed);
  if (order.empty()) {
    return user_error(
        fmt::format("partition is \"{}\", and none of {} draws gave each of {} ranks half of its "
                    "share, accepted: a larger ALPHA, or label",
                    name, with_commas(kMostDraws), ranks));
  }
  return Partition(std::move(order), ranks);
}

std::string aside_text(const std::vector<uint32_t>& aside) {
  return aside.empty() ? ""
                       : fmt::format(", {} training samples set aside", with_commas(aside.size()));
}

Result<Dealt> deal(const std::string& name, uint32_t samples, std::span<const uint16_t> labels,
                   int ranks, uint64_t seed, double aside) {
  if (!(aside >= 0 && aside < 1))
    return user_error(
        fmt::format("validation-split is {}, accepted: from 0 to below 1", shown(aside)));
  const auto wanted = static_cast<size_t>(aside * static_cast<double>(samples));
  const size_t count = aside > 0 ? std::max<size_t>(1, wanted) : 0;
  Order drawn = in_order(samples);
  Random random(seed, 0, Purpose::partition, kAside);
  if (count > 0) shuffle(drawn.begin(), samples, random);
  Dealt dealt;
  dealt.aside.assign(drawn.begin(), drawn.begin() + static_cast<std::ptrdiff_t>(count));
  Order rows(drawn.begin() + static_cast<std::ptrdiff_t>(count), drawn.end());
  std::sort(dealt.aside.begin(), dealt.aside.end());
  std::sort(rows.begin(), rows.end());
  std::vector<uint16_t> of_rows;
  for (size_t k = 0; k < rows.size() && !labels.empty(); ++k)
    of_rows.push_back(labels[rows[k]]);
  dealt.among = [=, rows = std::move(rows),
                 labels = std::move(of_rows)](int among) -> Result<Partition> {
    const auto left = static_cast<uint32_t>(rows.size());
    auto made = make_partition(name, left, labels, among, seed);
    if (!made) return made.error();
    return made->renamed(rows);
  };
  auto made = dealt.among(ranks);
  if (!made) return made.error();
  dealt.partition = std::make_shared<const Partition>(std::move(*made));
  return dealt;
}

}  // namespace grapevine
