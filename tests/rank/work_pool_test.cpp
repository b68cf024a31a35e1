// The promises of actors/rank/work_pool.hpp, one a sentence.
#include "actors/rank/work_pool.hpp"

#include <cmath>

#include "kernels/base/random.hpp"
#include "tests/catch.hpp"
#include "tests/seeds.hpp"

using namespace grapevine;
using namespace grapevine::test;

namespace {

MemberWork member(uint64_t id, uint64_t number, uint64_t taken, double rate = 0, int ranks = 1,
                  bool is_live = true) {
  return {id, "m" + std::to_string(id), ranks, is_live, number, taken, rate, 0};
}

/// Reports that the members have just made; all have one clock.
void hear(WorkPool& pool, double now, uint64_t before, std::vector<MemberWork> all) {
  for (MemberWork& told : all)
    told.counted_s = now;
  pool.hear(now, 0, before, all);
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
  hear(pool, 0, 0, {member(7, 2, 30, 5)});
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
  hear(pool, 0, 0, {member(7, 2, 100, 50)});
  CHECK(pool.progress(0) == Approx(0.1));
  CHECK(pool.progress(0.5) == Approx(0.125));
  CHECK(pool.progress(3.5) == Approx(0.25));
  CHECK(takes(pool, 3.5) == 750);
  CHECK_FALSE(pool.is_complete());  // 100 and 750 were told
  hear(pool, 3.8, 0, {member(7, 3, 250)});
  CHECK(pool.is_complete());
}

TEST_CASE("the step that a slow member has under way is taken by whoever is free") {
  WorkPool pool(1000, 0, 1);
  hear(pool, 0, 0, {member(7, 2, 10, 0.5)});
  CHECK(takes(pool, 1) == 990);
  CHECK(pool.is_complete());
}

TEST_CASE("a member that is silent is credited with what it has told, and the rest is taken") {
  WorkPool pool(1000, 0, 1);
  hear(pool, 0, 0, {member(7, 2, 100, 50)});
  CHECK(takes(pool, 1) == 850);
  CHECK(takes(pool, 5) == 50);
  CHECK(pool.is_complete());
}

TEST_CASE("of a member that is suspect, dead or gone what it has told counts, and nothing else") {
  for (const bool gone : {false, true}) {
    WorkPool pool(1000, 0, 1);
    hear(pool, 0, 0, {member(7, 2, 100, 50)});
    hear(pool, 0.5, 0,
         gone ? std::vector<MemberWork>{} : std::vector{member(7, 2, 100, 50, 1, false)});
    CHECK(takes(pool, 0.5) == 900);
    CHECK(pool.is_complete());
  }
}

TEST_CASE("what earlier lives have told counts once") {
  WorkPool pool(1000, 300, 1);
  hear(pool, 0, 350, {});  // more than the checkpoint that this life began with
  CHECK(takes(pool, 0) == 650);
  CHECK(pool.is_complete());
}

TEST_CASE("a member that tells of ever more work is credited with ten times the others' pace") {
  WorkPool pool(1'000'000, 0, 1);
  hear(pool, 0, 0, {member(7, 1, 0, 10), member(8, 1, 0, 10), member(9, 1, 0, 10)});
  for (uint64_t k = 1; k <= 100; ++k)
    hear(pool, static_cast<double>(k), 0,
         {member(7, k + 1, 10 * k, 10), member(8, k + 1, 10 * k, 10),
          member(9, k + 1, k * 1'000'000, 1e9)});
  CHECK(pool.told() <= 2 * 1000 + 10 * (10 + 1) * 100);
  CHECK(pool.too_fast() == std::vector<std::string>{"m9"});
  CHECK(pool.too_fast().empty());
}

namespace {

/// A member that reports any count, pace and time of its work, and changes them at times. Its first
/// second is honest: while nobody has taken a gradient, a first count is believed.
class LiarOfWork {
 public:
  explicit LiarOfWork(uint64_t seed) : random_(seed, 0, Purpose::test) {}

  MemberWork report(double now) {
    if (now > 1 && random_.below(20) == 0) change();
    told_.number += 1 + random_.below(3);
    told_.taken += static_cast<uint64_t>(count_ * kEach_s);
    told_.counted_s = clock_ < 0 ? told_.counted_s : clock_ * now;
    return told_;
  }

  static constexpr double kEach_s = 0.1, kHonest = 10;  // between reports; gradients a second

 private:
  void change() {
    constexpr double kTimes[] = {0, 0.3, 1, 3, 30, 1e6};
    count_ = kHonest * kTimes[random_.below(6)];
    told_.per_second = kHonest * kTimes[random_.below(6)];
    clock_ = static_cast<double>(random_.below(4)) - 1;  // -1: it stands still
    told_.is_live = random_.below(8) > 0;
  }

  Random random_;
  MemberWork told_ = member(9, 0, 0, kHonest);
  double count_ = kHonest, clock_ = 1;
};

}  // namespace

TEST_CASE(
    "of eight members one that lies leaves the others seven seventeenths of the work at least") {
  constexpr uint64_t kWork = 10'000;
  const Seeds seeds = seeds_wanted(200);
  for (uint64_t seed = seeds.first; seed <= seeds.last; ++seed) {
    LiarOfWork liar(seed);
    WorkPool pool(kWork, 0, 1);
    uint64_t honest = 0, number = 0;
    double now = 0;
    std::vector<MemberWork> silent;  // all members, before their first reports
    for (uint64_t id = 1; id <= 6; ++id)
      silent.push_back(member(id, 0, 0));
    silent.push_back(member(9, 0, 0));
    pool.hear(now, 0, 0, silent);
    for (; !pool.is_complete() && now < 1000; now += LiarOfWork::kEach_s, ++number) {
      std::vector<MemberWork> told;
      for (uint64_t other = 1; other <= 6; ++other) {
        told.push_back(member(other, number + 1, honest / 7, LiarOfWork::kHonest));
        told.back().counted_s = now;
      }
      told.push_back(liar.report(now));
      pool.hear(now, 0, 0, told);
      pool.tell(now);
      if (pool.is_enough(now)) continue;
      pool.took();
      honest += 7;
    }
    INFO("GRAPEVINE_SEED=" << seed);
    CHECK(pool.is_complete());
    CHECK(honest >= kWork * 7 / 17 - 70);  // but for the first second
    CHECK(now < 1.2 * kWork / (7 * LiarOfWork::kHonest));
  }
}

TEST_CASE("a report that was long on its way counts from when it was made") {
  WorkPool pool(100'000, 0, 1);
  MemberWork told = member(7, 2, 0, 50);
  told.counted_s = 500;  // its clock is 500 s ahead
  pool.hear(0, 0, 0, {told});
  for (int k = 1; k <= 40; ++k) {
    const double late_s = k < 20 ? 0 : 3;
    told.number++;
    told.taken = static_cast<uint64_t>(50 * k);
    told.counted_s = 500 + k;
    pool.hear(k + late_s, 0, 0, {told});
    INFO(k);
    CHECK_THAT(pool.taken(k + late_s), Catch::WithinAbs(50 * (k + late_s), 5));
  }
  told.number++;
  told.counted_s = 1;  // a new process of the member, with a new clock
  pool.hear(44, 0, 0, {told});
  CHECK(pool.taken(44) == 2000);
}

TEST_CASE("a member that reports a pace and does no work keeps no rank from its steps") {
  WorkPool pool(1000, 0, 1);
  uint64_t number = 0;
  for (double now = 0; now < 30; now += 0.25) {
    hear(pool, now, 0, {member(9, ++number, 0, 1e9), member(8, number, 0)});
    if (!pool.is_enough(now)) takes(pool, now, 50);
    pool.tell(now);
  }
  CHECK(pool.is_complete());
}

TEST_CASE("where many wait and few gradients are missing, few begin again at once") {
  constexpr uint64_t kMembers = 64, kEach = 10, kMissing = 3;
  const auto beginning = [&](double waited_s) {
    int count = 0;
    for (uint64_t self = 1; self <= kMembers; ++self) {
      WorkPool pool(kMembers * kEach + kMissing, 0, 1);
      pool.took(kEach);
      const auto others = [&](uint64_t number, double pace) {
        std::vector<MemberWork> all;
        for (uint64_t id = 1; id <= kMembers; ++id)
          if (id != self) all.push_back(member(id, number, kEach, pace));
        return all;
      };
      pool.hear(0, self, 0, others(2, 1));
      CHECK(pool.is_enough(0.5));
      pool.hear(0.5, self, 0, others(3, 0));
      count += !pool.is_enough(0.5 + waited_s);
    }
    return count;
  };
  CHECK(beginning(0) == kMissing + 8);
  CHECK(beginning(1.5) == kMissing + 16);
  CHECK(beginning(9) == kMembers);
}

TEST_CASE("members without ranks in the graph have no work that counts") {
  WorkPool pool(100, 0, 1);
  hear(pool, 0, 0, {member(7, 2, 100, 0, 0)});
  CHECK(takes(pool, 0) == 100);
}

TEST_CASE("a member that has told no pace yet is taken to be as fast as the ranks here") {
  WorkPool pool(100, 0, 1);
  hear(pool, 0, 0, {member(7, 1, 0, 0, 3)});
  CHECK(takes(pool, 0) == 25);
  CHECK_FALSE(pool.is_complete());
  hear(pool, 0.1, 0, {member(7, 2, 10, 0, 3)});
  CHECK(takes(pool, 0.1) == 65);
}

TEST_CASE("a member that comes later is as fast as the ranks here since then") {
  WorkPool pool(1000, 0, 1);
  takes(pool, 0, 600);
  hear(pool, 0, 0, {member(7, 0, 0, 0, 3)});
  CHECK(pool.progress(0) == Approx(0.6));
  CHECK(takes(pool, 0) == 100);
}

TEST_CASE("the earlier work of a member that joins with it counts at once") {
  for (const bool is_listed_before : {false, true}) {
    WorkPool pool(10'000, 3000, 1);
    takes(pool, 0, 10);
    pool.tell(0);
    hear(pool, 1, 0, {member(7, 3, 3000, 100)});
    pool.tell(1);
    if (is_listed_before) hear(pool, 2, 0, {member(7, 4, 3100, 100), member(8, 0, 0)});
    hear(pool, 2, 0, {member(7, 4, 3100, 100), member(8, 1, 3000)});
    CHECK(pool.told() == 9110);
    CHECK(pool.too_fast().empty());
  }
}

TEST_CASE("counts only grow, and old news say nothing") {
  WorkPool pool(100, 0, 1);
  hear(pool, 0, 0, {member(7, 5, 50)});
  hear(pool, 1, 0, {member(7, 4, 40)});
  hear(pool, 2, 0, {member(7, 6, 40)});
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
  hear(pool, 0, 0, others);
  takes(pool, 1, 50);
  CHECK(pool.tell(1).again_s == Approx(0.5));
}
