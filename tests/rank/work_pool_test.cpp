// The promises of actors/rank/work_pool.hpp, one a sentence.
#include "actors/rank/work_pool.hpp"

#include <cmath>

#include "tests/catch.hpp"

using namespace grapevine;

namespace {

MemberWork member(uint64_t id, uint64_t number, uint64_t taken, double rate = 0, int ranks = 1,
                  bool is_live = true) {
  return {id, "m" + std::to_string(id), ranks, is_live, number, taken, rate};
}

/// The number of gradients that a rank here takes, one after the other.
uint64_t takes(WorkPool& pool, double now, uint64_t most = 10000) {
  uint64_t count = 0;
  for (; count < most && !pool.is_enough(now); ++count)
    pool.took();
  return count;
}

}  // namespace

TEST_CASE("in one process the count is exact, and what earlier lives have taken is in it") {
  WorkPool pool(10, 4, 3);
  CHECK_FALSE(pool.is_enough(0));
  CHECK(takes(pool, 0) == 6);
  CHECK(pool.is_complete());
  CHECK(pool.progress(0) == 1);
}

TEST_CASE("a pool without a number has no end until it is given one, and the first holds") {
  WorkPool pool(0, 0, 2);
  pool.hear(0, 0, {member(7, 2, 30, 5)});
  pool.took();
  pool.took(4);
  CHECK_FALSE(pool.is_enough(0));
  CHECK_FALSE(pool.is_complete());
  CHECK(std::isnan(pool.progress(0)));
  CHECK(pool.tell(1).again_s == 1);
  CHECK(pool.taken(0) == 35);
  CHECK(pool.taken(1) == 40);
  CHECK(pool.told() == 35);
  pool.expect(50);
  pool.expect(9);
  CHECK(pool.wanted() == 50);
  CHECK(pool.progress(0) == Approx(0.7));
  CHECK(takes(pool, 0) == 15);
  CHECK(pool.is_complete());
}

TEST_CASE("others are credited with their pace for the usual time between their news, not longer") {
  WorkPool pool(1000, 0, 1);
  pool.hear(0, 0, {member(7, 2, 100, 50)});
  CHECK(pool.progress(0) == Approx(0.1));
  CHECK(pool.progress(0.5) == Approx(0.125));
  CHECK(pool.progress(3) == Approx(0.15));
  CHECK(takes(pool, 3) == 850);
  CHECK_FALSE(pool.is_complete());  // 100 and 850 were told
  pool.hear(3.5, 0, {member(7, 3, 150)});
  CHECK(pool.is_complete());
}

TEST_CASE("the step that a slow member has under way is taken by whoever is free") {
  WorkPool pool(1000, 0, 1);
  pool.hear(0, 0, {member(7, 2, 10, 0.5)});
  CHECK(takes(pool, 1) == 990);
  CHECK(pool.is_complete());
}

TEST_CASE("a member that is silent is credited with what it has told, and the rest is taken") {
  WorkPool pool(1000, 0, 1);
  pool.hear(0, 0, {member(7, 2, 100, 50)});
  CHECK(takes(pool, 1) == 850);
  CHECK(takes(pool, 5) == 50);
  CHECK(pool.is_complete());
}

TEST_CASE("of a member that is suspect, dead or gone what it has told counts, and nothing else") {
  for (const bool gone : {false, true}) {
    WorkPool pool(1000, 0, 1);
    pool.hear(0, 0, {member(7, 2, 100, 50)});
    pool.hear(0.5, 0,
              gone ? std::vector<MemberWork>{} : std::vector{member(7, 2, 100, 50, 1, false)});
    CHECK(takes(pool, 0.5) == 900);
    CHECK(pool.is_complete());
  }
}

TEST_CASE("what earlier lives have told counts once") {
  WorkPool pool(1000, 300, 1);
  pool.hear(0, 350, {});  // more than the checkpoint that this life began with
  CHECK(takes(pool, 0) == 650);
  CHECK(pool.is_complete());
}

TEST_CASE("a member that tells of ever more work is credited with ten times the others' pace") {
  WorkPool pool(1'000'000, 0, 1);
  pool.hear(0, 0, {member(7, 1, 0, 10), member(8, 1, 0, 10), member(9, 1, 0, 10)});
  for (uint64_t k = 1; k <= 100; ++k)
    pool.hear(static_cast<double>(k), 0,
              {member(7, k + 1, 10 * k, 10), member(8, k + 1, 10 * k, 10),
               member(9, k + 1, k * 1'000'000, 1e9)});
  CHECK(pool.told() <= 2 * 1000 + 10 * (10 + 1) * 100);
  CHECK(pool.too_fast() == std::vector<std::string>{"m9"});
  CHECK(pool.too_fast().empty());
}

TEST_CASE(
    "of eight members one that lies leaves the others seven seventeenths of the work at least") {
  constexpr uint64_t kWork = 10'000;
  for (const double lie : {1.0, 3.0, 30.0, 1e6}) {  // times the honest pace of ten a second
    WorkPool pool(kWork, 0, 1);
    uint64_t honest = 0, number = 0;
    for (double now = 0; !pool.is_complete() && now < 1000; now += 0.1, ++number) {
      std::vector<MemberWork> told{
          member(9, number + 1, static_cast<uint64_t>(lie * 10 * now), 10 * lie)};
      for (uint64_t other = 1; other <= 6; ++other)
        told.push_back(member(other, number + 1, number, 10));
      pool.hear(now, 0, told);
      if (pool.is_enough(now)) continue;
      pool.took();
      honest += 7;
    }
    INFO(lie);
    CHECK(pool.is_complete());
    CHECK(honest >= kWork * 7 / 17 - 70);  // but for the first second
  }
}

TEST_CASE("members without ranks in the graph have no work that counts") {
  WorkPool pool(100, 0, 1);
  pool.hear(0, 0, {member(7, 2, 100, 0, 0)});
  CHECK(takes(pool, 0) == 100);
}

TEST_CASE("a member that has told no pace yet is taken to be as fast as the ranks here") {
  WorkPool pool(100, 0, 1);
  pool.hear(0, 0, {member(7, 1, 0, 0, 3)});
  CHECK(takes(pool, 0) == 25);
  CHECK_FALSE(pool.is_complete());
  pool.hear(0.1, 0, {member(7, 2, 10, 0, 3)});
  CHECK(takes(pool, 0.1) == 65);
}

TEST_CASE("a member that comes later is as fast as the ranks here since then") {
  WorkPool pool(1000, 0, 1);
  takes(pool, 0, 600);
  pool.hear(0, 0, {member(7, 0, 0, 0, 3)});
  CHECK(pool.progress(0) == Approx(0.6));
  CHECK(takes(pool, 0) == 100);
}

TEST_CASE("counts only grow, and old news say nothing") {
  WorkPool pool(100, 0, 1);
  pool.hear(0, 0, {member(7, 5, 50)});
  pool.hear(1, 0, {member(7, 4, 40)});
  pool.hear(2, 0, {member(7, 6, 40)});
  CHECK(pool.told() == 50);
}

TEST_CASE("a rank that waits tells a pace of 0, and tells more often towards the end") {
  WorkPool pool(4000, 0, 1);
  CHECK(pool.tell(0).again_s == 0.05);
  CHECK(takes(pool, 1, 50) == 50);
  const WorkPool::Own early = pool.tell(1);
  CHECK(early.taken == 50);
  CHECK(early.per_second == 50);
  CHECK(early.again_s == Approx(0.4));  // a 200th of the run
  takes(pool, 78, 3900);
  CHECK(pool.tell(79).again_s == Approx(0.1));  // a tenth of the rest
  takes(pool, 81);
  CHECK(pool.tell(81).per_second == 0);
}

TEST_CASE("all members together make at most twenty reports a second until the end is near") {
  WorkPool pool(4000, 0, 1);
  std::vector<MemberWork> others;
  for (uint64_t id = 2; id <= 10; ++id)
    others.push_back(member(id, 1, 50, 50));
  pool.hear(0, 0, others);
  takes(pool, 1, 50);
  CHECK(pool.tell(1).again_s == Approx(0.5));
}
