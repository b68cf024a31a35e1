// Partitions: who gets which samples, and how skewed the labels are.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels/base/random.hpp"
#include "models/partition.hpp"
#include "tests/catch.hpp"

namespace grapevine {
namespace {

using Labels = std::vector<uint16_t>;

/// `each` samples of ten labels, shuffled.
Labels ten_labels(size_t each) {
  Labels labels(10 * each);
  for (size_t k = 0; k < labels.size(); ++k)
    labels[k] = static_cast<uint16_t>(k % 10);
  Random random(1, 0, Purpose::test);
  shuffle(labels.begin(), static_cast<uint32_t>(labels.size()), random);
  return labels;
}

Partition made(const std::string& name, const Labels& labels, int ranks, uint64_t seed = 1) {
  auto partition = make_partition(name, static_cast<uint32_t>(labels.size()), labels, ranks, seed);
  if (!partition) FAIL(partition.error().message);
  return *partition;
}

std::string refusal(const std::string& name, uint32_t samples, const Labels& labels, int ranks) {
  const auto partition = make_partition(name, samples, labels, ranks, 1);
  REQUIRE(!partition);
  CHECK(partition.error().exit_status() == 2);
  return partition.error().message;
}

/// Mean over ranks of the distance between a rank's label distribution and the even one: 0 is
/// even, 1.8 is one label of ten each.
double skew(const Partition& partition, const Labels& labels) {
  double sum = 0;
  for (const auto& counts : partition.label_counts(labels, 10)) {
    const double total = static_cast<double>(std::accumulate(counts.begin(), counts.end(), 0ull));
    for (const uint64_t count : counts)
      sum += std::abs(static_cast<double>(count) / total - 0.1);
  }
  return sum / partition.ranks();
}

}  // namespace

TEST_CASE("Every partition deals out every sample once, in shares that differ by at most one") {
  const Labels labels = ten_labels(601);
  for (const std::string name : {"iid", "label", "contiguous", "dirichlet:1", "dirichlet:0.1"}) {
    for (const int ranks : {1, 7, 16, 23}) {
      INFO(name << " " << ranks);
      const Partition partition = made(name, labels, ranks);
      std::vector<uint32_t> all;
      for (int rank = 0; rank < ranks; ++rank) {
        const auto share = partition.share(rank);
        CHECK(std::abs(static_cast<double>(share.size()) - 6010.0 / ranks) < 1);
        all.insert(all.end(), share.begin(), share.end());
      }
      std::sort(all.begin(), all.end());
      REQUIRE(all.size() == labels.size());
      for (uint32_t k = 0; k < all.size(); ++k)
        REQUIRE(all[k] == k);
    }
  }
}

TEST_CASE("A partition is a function of its seed; those without chance are the same for all") {
  const Labels labels = ten_labels(100);
  for (const std::string name : {"iid", "dirichlet:0.5"}) {
    CHECK(made(name, labels, 5, 3).share(2) == made(name, labels, 5, 3).share(2));
    CHECK(made(name, labels, 5, 3).share(2) != made(name, labels, 5, 4).share(2));
  }
  for (const std::string name : {"label", "contiguous"}) {
    CHECK(made(name, labels, 5, 3).share(2) == made(name, labels, 5, 4).share(2));
  }
}

TEST_CASE("By label, ten ranks have one label each, and contiguous leaves the order") {
  const Labels labels = ten_labels(50);
  const auto counts = made("label", labels, 10).label_counts(labels, 10);
  for (size_t rank = 0; rank < 10; ++rank) {
    for (size_t label = 0; label < 10; ++label) {
      CHECK(counts[rank][label] == (rank == label ? 50 : 0));
    }
  }
  const auto share = made("contiguous", labels, 4).share(1);
  CHECK(share.size() == 125);
  for (uint32_t k = 0; k < 125; ++k)
    CHECK(share[k] == 125 + k);
}

TEST_CASE("The smaller alpha is, the fewer labels a rank has") {
  const Labels labels = ten_labels(6000);
  double previous = skew(made("iid", labels, 16), labels);
  CHECK(previous < 0.05);
  for (const auto& [name, least] : {std::pair("dirichlet:100", 0.04),
                                    {"dirichlet:1", 0.4},
                                    {"dirichlet:0.1", 1.0},
                                    {"dirichlet:0.01", 1.4}}) {
    double mean = 0;
    for (uint64_t seed = 1; seed <= 4; ++seed)
      mean += skew(made(name, labels, 16, seed), labels) / 4;
    INFO(name);
    CHECK(mean > least);
    CHECK(mean > previous);
    previous = mean;
  }
  CHECK(skew(made("dirichlet:0.000001", labels, 16), labels) > 1.4);  // nothing underflows
}

TEST_CASE(
    "The blocks of ten ranks draw apart from each other: no two ranks are alike by position") {
  const Labels labels = ten_labels(6000);
  const auto apart = [](const std::vector<uint64_t>& a, const std::vector<uint64_t>& b) {
    double sum = 0;
    for (size_t label = 0; label < a.size(); ++label)
      sum += std::abs(static_cast<double>(a[label]) - static_cast<double>(b[label]));
    return sum;
  };
  double same_place = 0, another_place = 0;
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    const auto counts = made("dirichlet:0.5", labels, 30, seed).label_counts(labels, 10);
    for (size_t rank = 0; rank < 20; ++rank) {
      same_place += apart(counts[rank], counts[rank + 10]);
      another_place += apart(counts[rank], counts[10 * (rank / 10 + 1) + (rank + 3) % 10]);
    }
  }
  CHECK(same_place / another_place == Approx(1).margin(0.2));
}

TEST_CASE("Dirichlet proportions have the moments of the distribution") {
  // Two ranks, 200 labels: the part of a label that rank 0 has is Beta(alpha, alpha). The first and
  // last labels also show where the lists are cut, and that a rank can be full.
  Labels labels(200 * 200);
  for (size_t k = 0; k < labels.size(); ++k)
    labels[k] = static_cast<uint16_t>(k / 200);
  for (const auto& [name, alpha] :
       {std::pair("dirichlet:2", 2.0), {"dirichlet:0.5", 0.5}, {"dirichlet:0.05", 0.05}}) {
    double mean = 0, square = 0, draws = 0;
    for (uint64_t seed = 1; seed <= 30; ++seed) {
      const auto counts = made(name, labels, 2, seed).label_counts(labels, 200);
      for (size_t label = 50; label < 120; ++label, ++draws) {
        const double part = static_cast<double>(counts[0][label]) / 200;
        mean += part;
        square += part * part;
      }
    }
    INFO(name);
    mean /= draws;
    CHECK(mean == Approx(0.5).margin(0.04));
    CHECK(square / draws - mean * mean == Approx(1 / (4 * (2 * alpha + 1))).epsilon(0.08));
  }
}

TEST_CASE("The table of one seed stays what it was") {
  const Labels labels = ten_labels(100);
  const std::vector<std::vector<uint64_t>> expected = {{1, 99, 3, 0, 0, 0, 0, 99, 48, 0},
                                                       {98, 0, 22, 0, 5, 57, 10, 0, 51, 7},
                                                       {0, 0, 74, 84, 0, 0, 0, 0, 0, 92},
                                                       {1, 1, 1, 16, 95, 43, 90, 1, 1, 1}};
  CHECK(made("dirichlet:0.1", labels, 4, 1).label_counts(labels, 10) == expected);
}

TEST_CASE("An impossible partition is refused in one line") {
  const Labels labels = ten_labels(2);
  const std::string accepted =
      ", accepted: iid, whole, label, contiguous, dirichlet:ALPHA with ALPHA from 1e-6 to 1e6";
  for (const std::string name : {"dirichlet:0", "dirichlet:-1", "dirichlet:nan",
                                 "dirichlet:", "dirichlet:1x", "dirichlet", "sorted", ""}) {
    CHECK(refusal(name, 20, labels, 2) == "partition is \"" + name + "\"" + accepted);
  }
  CHECK(refusal("iid", 20, labels, 21) ==
        "ranks is 21, accepted: at most 20, the number of training samples");
  CHECK(refusal("label", 20, {}, 2) ==
        "partition is \"label\" where samples have no labels, accepted: iid, whole, contiguous");
  CHECK(refusal("dirichlet:1", 20, {}, 2) ==
        "partition is \"dirichlet:1\" where samples have no labels, accepted: iid, whole, "
        "contiguous");
  Labels two(4000);
  for (size_t k = 0; k < two.size(); ++k)
    two[k] = k % 2;
  CHECK(refusal("dirichlet:0.001", 4000, two, 10) ==
        "partition is \"dirichlet:0.001\", and none of 100,000 draws gave each of 10 ranks half of "
        "its share, accepted: a larger ALPHA, or label");
}

}  // namespace grapevine
