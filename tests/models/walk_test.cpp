// Samples that are set aside, and ranks that continue in the data where others had stopped.
#include "models/walk.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "models/batches.hpp"
#include "tests/catch.hpp"

namespace grapevine {
namespace {

constexpr uint32_t kSamples = 203;
constexpr int kBatch = 4;

std::vector<uint16_t> labels() {
  std::vector<uint16_t> labels(kSamples);
  for (uint32_t k = 0; k < kSamples; ++k)
    labels[k] = static_cast<uint16_t>(k * 7 % 5);
  return labels;
}

Dealt dealt(const std::string& name, int ranks, uint64_t seed = 3, double aside = 0) {
  auto made = deal(name, kSamples, labels(), ranks, seed, aside);
  REQUIRE(made);
  return std::move(*made);
}

/// The number of times that each sample was taken.
struct Takings {
  std::vector<int> times = std::vector<int>(kSamples, 0);

  /// The rank's samples number from..to of a life that began at its gradient `first`.
  void walk(Batches& batches, int rank, uint64_t first, uint64_t to) {
    for (uint64_t k = 0; k < to; ++k)
      ++times[batches.rows(rank, first + k / kBatch)[k % kBatch]];
  }
};

Batches batches_of(const Dealt& dealt, const DataLeft& left, uint64_t seed = 3) {
  Batches batches(dealt.partition, seed, kBatch);
  batches.go_on_with(std::make_shared<const DataLeft>(left));
  return batches;
}

DataLeft left_by(const std::vector<DataCut>& cuts, const Dealt& dealt) {
  auto left = data_left(cuts, dealt.among, dealt.partition->ranks(), 3);
  REQUIRE(left);
  return std::move(*left);
}

/// Multiples of a batch: what whole gradients have taken.
std::vector<uint64_t> in_batches(std::vector<uint64_t> taken) {
  for (uint64_t& samples : taken)
    samples *= kBatch;
  return taken;
}

}  // namespace

TEST_CASE("What is set aside is drawn by the seed alone, and no rank trains on it") {
  const Dealt four = dealt("iid", 4, 3, 0.1), nine = dealt("label", 9, 3, 0.1);
  CHECK(four.aside.size() == 20);
  CHECK(four.aside == nine.aside);
  CHECK(four.aside != dealt("iid", 4, 4, 0.1).aside);
  CHECK(dealt("iid", 4, 3, 1e-9).aside.size() == 1);
  CHECK(dealt("iid", 4).aside.empty());
  for (const Dealt* cut : {&four, &nine}) {
    std::vector<uint32_t> all = cut->aside;
    for (int rank = 0; rank < cut->partition->ranks(); ++rank)
      for (const uint32_t row : cut->partition->share(rank))
        all.push_back(row);
    std::sort(all.begin(), all.end());
    std::vector<uint32_t> each(kSamples);
    std::iota(each.begin(), each.end(), 0u);
    CHECK(all == each);
  }
}

TEST_CASE("Nothing set aside leaves the shares as they were, by every partition") {
  for (const char* name : {"iid", "label", "contiguous", "dirichlet:1"}) {
    const auto plain = make_partition(name, kSamples, labels(), 5, 3);
    REQUIRE(plain);
    const Dealt cut = dealt(name, 5);
    for (int rank = 0; rank < 5; ++rank)
      CHECK(cut.partition->share(rank) == plain->share(rank));
  }
}

TEST_CASE("Samples by label are still sorted where others are set aside") {
  const Dealt cut = dealt("label", 5, 3, 0.3);
  const std::vector<uint16_t> of = labels();
  const auto counts = cut.partition->label_counts(of, 5);
  for (int rank = 0; rank < 5; ++rank)
    CHECK(std::count_if(counts[rank].begin(), counts[rank].end(), [](auto n) { return n > 0; }) <=
          2);
}

TEST_CASE("A share that is none, or leaves too little to train on, is refused") {
  for (const double aside : {-0.1, 1.0, std::nan("")}) {
    const auto made = deal("iid", kSamples, {}, 4, 3, aside);
    REQUIRE(!made);
    CHECK_THAT(made.error().message, Catch::Contains("validation-split is"));
  }
  const auto made = deal("iid", kSamples, {}, 100, 3, 0.9);
  REQUIRE(!made);
  CHECK_THAT(made.error().message,
             Catch::Contains("accepted: at most 21, the number of training samples"));
}

TEST_CASE(
    "On another number of ranks what had been taken of the pass does not come twice before the "
    "rest has come") {
  const std::vector<uint64_t> taken = in_batches({7, 9, 0, 12});  // of shares of 50 or 51
  for (const char* name : {"iid", "label", "contiguous"})
    for (const int ranks : {1, 3, 5, 16}) {
      INFO(name << " on " << ranks);
      const Dealt before = dealt(name, 4), now = dealt(name, ranks);
      Takings takings;
      Batches was(before.partition, 3, kBatch);
      for (int rank = 0; rank < 4; ++rank)
        takings.walk(was, rank, 0, taken[rank]);
      CHECK(*std::max_element(takings.times.begin(), takings.times.end()) == 1);
      const DataCut cut{taken, std::vector<uint64_t>(ranks, 11)};
      const DataLeft left = left_by({cut}, now);
      CHECK(left.pass == 1);
      Batches is = batches_of(now, left);
      for (int rank = 0; rank < ranks; ++rank)
        takings.walk(is, rank, 11, left.first[rank].size());
      CHECK(takings.times == std::vector<int>(kSamples, 1));
      // And then pass by pass, in other orders than those before.
      for (int rank = 0; rank < ranks; ++rank)
        takings.walk(is, rank, 11, left.first[rank].size() + now.partition->share_size(rank));
      for (int rank = 0; rank < ranks; ++rank)
        for (const uint32_t row : left.first[rank])
          --takings.times[row];
      CHECK(takings.times == std::vector<int>(kSamples, 2));
    }
}

TEST_CASE("Ranks that were in different passes come out even, also after several cuts") {
  const Dealt four = dealt("iid", 4), three = dealt("iid", 3), six = dealt("iid", 6);
  Takings takings;
  const DataCut first{in_batches({40, 13, 26, 30}), {5, 6, 7}};  // up to four passes
  Batches life(four.partition, 3, kBatch);
  for (int rank = 0; rank < 4; ++rank)
    takings.walk(life, rank, 0, first.taken[rank]);
  const DataLeft after_one = left_by({first}, three);
  CHECK(after_one.pass == 4);
  // One has not done what was left, one is past it.
  const DataCut second{in_batches({8, 90, 0}), std::vector<uint64_t>(6, 2)};
  Batches second_life = batches_of(three, after_one);
  for (int rank = 0; rank < 3; ++rank)
    takings.walk(second_life, rank, first.first[rank], second.taken[rank]);
  const DataLeft after_two = left_by({first, second}, six);
  Batches third_life = batches_of(six, after_two);
  for (int rank = 0; rank < 6; ++rank)
    takings.walk(third_life, rank, 2, after_two.first[rank].size());
  CHECK(takings.times == std::vector<int>(kSamples, static_cast<int>(after_two.pass)));
}

TEST_CASE("A rank that is far behind catches up with a bounded number of passes") {
  const Dealt two = dealt("iid", 2), one = dealt("iid", 1);
  const DataLeft left = left_by({{in_batches({100000, 0}), {0}}}, one);
  std::map<uint32_t, uint64_t> times;
  for (const uint32_t row : left.first[0])
    ++times[row];
  for (const auto& [row, count] : times)
    CHECK(count <= kCatchUp);
}

TEST_CASE("A rank that is given the state of one further behind still has samples to take") {
  const Dealt two = dealt("iid", 2), three = dealt("iid", 3);
  Batches batches = batches_of(three, left_by({{in_batches({5, 5}), {9, 9, 9}}}, three));
  for (const uint32_t row : batches.rows(1, 2)) {
    const auto share = three.partition->share(1);
    CHECK(std::count(share.begin(), share.end(), row) == 1);
  }
}

TEST_CASE("Cuts that cannot be of this data are refused") {
  const Dealt three = dealt("iid", 3);
  const auto refusal = [&](const std::vector<DataCut>& cuts) {
    const auto left = data_left(cuts, three.among, 3, 3);
    REQUIRE(!left);
    return left.error().message;
  };
  CHECK_THAT(refusal({{{0, 0}, {0, 0}}}), Catch::Contains("2 ranks, accepted: 3"));
  CHECK_THAT(refusal({{{}, {0, 0, 0}}}), Catch::Contains("cut 0"));
  CHECK_THAT(refusal({{std::vector<uint64_t>(kSamples + 1), {0, 0, 0}}}),
             Catch::Contains("more ranks than samples"));
  CHECK_THAT(refusal({{{0, 0}, {0, 0, 0, 0}}, {{0, 0}, {0, 0, 0}}}), Catch::Contains("cut 0"));
}

}  // namespace grapevine
