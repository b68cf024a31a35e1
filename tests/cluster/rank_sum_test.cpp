// The sum of one node's ranks: what is in it, and that it is added up a piece at a time.
#include <algorithm>
#include <limits>

#include "actors/cluster/rank_sum.hpp"
#include "tests/catch.hpp"

using namespace grapevine;

namespace {

constexpr uint64_t kCount = 2 * kMeanPieceElements + 3;
const MeanShape kShape{{{"x", kCount, DType::f32}, {"statistics", 5, DType::f64}}};

std::vector<std::shared_ptr<const Buffer>> rank(double value) {
  auto x = std::make_shared<Buffer>(kCount, DType::f32);
  auto statistics = std::make_shared<Buffer>(5, DType::f64);
  for (size_t k = 0; k < kCount; ++k)
    x->vec().as<float>()[k] = static_cast<float>(value + static_cast<double>(k % 8));
  for (size_t k = 0; k < 5; ++k)
    statistics->vec().as<double>()[k] = value / 3;
  return {std::move(x), std::move(statistics)};
}

/// The most elements that one step looked at.
uint64_t add(RankSum& sum, std::vector<std::shared_ptr<const Buffer>> vectors) {
  uint64_t most = 0;
  for (sum.add(std::move(vectors)); sum.busy();)
    most = std::max(most, sum.step());
  return most;
}

}  // namespace

TEST_CASE("the ranks of a node are added up, every vector of them, at most 1 MiB at a time") {
  RankSum sum(7, kShape);
  uint64_t most = 0;
  for (const double value : {1.0, 2.0, 4.0})
    most = std::max(most, add(sum, rank(value)));
  WARN("at most " << most << " elements a message, " << most * sizeof(double) << " bytes in fp64");
  CHECK(most * sizeof(double) <= 1 << 20);
  const MeanSum all = sum.take();
  CHECK(all.ranks_in == RanksIn{3, 3});
  REQUIRE(all.vectors.size() == 2);
  bool exact = true;
  for (size_t k = 0; k < kCount; ++k)
    exact &= all.vectors[0].vec().as<double>()[k] == 7.0 + 3.0 * static_cast<double>(k % 8);
  CHECK(exact);
  for (size_t k = 0; k < 5; ++k)
    CHECK(all.vectors[1].vec().as<double>()[k] == Approx(7.0 / 3));
}

TEST_CASE("a rank that is not finite anywhere is left out, and the others of its node are not") {
  for (const size_t where : {size_t{0}, size_t{kCount - 1}}) {
    RankSum sum(7, kShape);
    add(sum, rank(1));
    Buffer bad(kCount, DType::f32);
    bad.vec().as<float>()[where] = std::numeric_limits<float>::infinity();
    auto vectors = rank(2);
    vectors[0] = std::make_shared<const Buffer>(std::move(bad));
    add(sum, vectors);
    add(sum, rank(4));
    CHECK(sum.left_out() == 1);
    const MeanSum all = sum.take();
    CHECK(all.ranks_in == RanksIn{2, 2});
    CHECK(all.vectors[0].vec().as<double>()[0] == 5.0);
  }
  RankSum sum(7, kShape);
  auto vectors = rank(1);
  Buffer bad(5, DType::f64);
  bad.vec().as<double>()[4] = std::numeric_limits<double>::quiet_NaN();
  vectors[1] = std::make_shared<const Buffer>(std::move(bad));
  add(sum, vectors);
  CHECK(sum.take().ranks_in == RanksIn{0, 0});
}

TEST_CASE("a rank that has nothing to give to a vector is in the others") {
  RankSum sum(7, kShape);
  add(sum, rank(1));
  auto vectors = rank(2);
  vectors[1] = nullptr;
  add(sum, vectors);
  const MeanSum all = sum.take();
  CHECK(all.ranks_in == RanksIn{2, 1});
  CHECK(all.vectors[0].vec().as<double>()[0] == 3.0);
  CHECK(all.vectors[1].vec().as<double>()[0] == Approx(1.0 / 3));
}

TEST_CASE("of ranks that all have nothing to give to a vector there is no sum of it") {
  RankSum sum(7, kShape);
  auto vectors = rank(2);
  vectors[1] = nullptr;
  add(sum, vectors);
  const MeanSum all = sum.take();
  CHECK(all.ranks_in == RanksIn{1, 0});
  CHECK(all.vectors[1].vec().as<double>()[4] == 0.0);
}
