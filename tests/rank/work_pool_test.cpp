// The promises of actors/rank/work_pool.hpp, one a sentence.
#include "actors/rank/work_pool.hpp"

#include <atomic>
#include <thread>
#include <vector>

#include "tests/catch.hpp"

using namespace grapevine;

namespace {

/// How many gradients the rank at this place begins and takes, one after the other.
uint64_t takes(WorkPool& pool, int place = 0) {
  uint64_t count = 0;
  for (; pool.begin(place); ++count)
    pool.took(place);
  return count;
}

}  // namespace

TEST_CASE("the ranks take exactly the gradients that are wanted, whoever is faster") {
  WorkPool pool(10, 0, 3);
  CHECK(pool.begin(1));
  CHECK(takes(pool) == 9);
  CHECK_FALSE(pool.begin(2));
  CHECK_FALSE(pool.is_complete());  // one is under way
  CHECK(pool.progress() == 0.9);
  pool.took(1);
  CHECK(pool.is_complete());
  CHECK(pool.progress() == 1);
}

TEST_CASE("what a rank had begun that is gone or stands still another one takes") {
  WorkPool pool(10, 4, 2);
  CHECK(pool.begin(1));
  CHECK(takes(pool) == 5);
  pool.gave_up(1);
  pool.gave_up(1);
  CHECK(takes(pool) == 1);
  CHECK(pool.is_complete());
  pool.took(1);  // it comes back with it all the same
  CHECK(pool.progress() == 1);
}

TEST_CASE("a rank has one gradient under way, however often it says that it begins") {
  WorkPool pool(2, 0, 2);
  CHECK(pool.begin(0));
  CHECK(pool.begin(0));
  CHECK(pool.begin(1));
  CHECK(pool.begin(0));
  pool.took(0);
  CHECK_FALSE(pool.begin(0));
}

TEST_CASE("ranks on many threads take no gradient twice and leave none") {
  constexpr int kRanks = 8;
  constexpr uint64_t kWork = 20000;
  WorkPool pool(kWork, 0, kRanks);
  std::atomic<uint64_t> taken{0};
  std::vector<std::thread> ranks;
  for (int place = 0; place < kRanks; ++place)
    ranks.emplace_back([&, place] { taken += takes(pool, place); });
  for (std::thread& rank : ranks)
    rank.join();
  CHECK(taken == kWork);
  CHECK(pool.is_complete());
}
