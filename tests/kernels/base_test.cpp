// Checks, results, random numbers, layouts, cores and memory of this process.
#include <fcntl.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "kernels/base/check.hpp"
#include "kernels/base/cores.hpp"
#include "kernels/base/descriptor.hpp"
#include "kernels/base/random.hpp"
#include "kernels/base/result.hpp"
#include "kernels/memory/layout.hpp"
#include "tests/catch.hpp"
#include "tests/kernels/tools.hpp"

using namespace grapevine;
using grapevine::testing::last_words;

TEST_CASE("a broken check ends the process with the sentence and both values") {
  const std::string words = last_words([] {
    const int ranks = 17;
    const double limit = 16.5;
    GV_CHECK(ranks < limit);
  });
  CHECK_THAT(words, Catch::Contains("ranks < limit") && Catch::Contains("17 < 16.5") &&
                        Catch::Contains("base_test.cpp"));
  CHECK_THAT(last_words([] { GV_CHECK(static_cast<bool>(std::string().size())); }),
             Catch::Contains("broken invariant"));
}

TEST_CASE("a check that holds costs nothing visible and evaluates its sides once") {
  int calls = 0;
  auto next = [&calls] { return ++calls; };
  GV_CHECK(next() == 1);
  GV_CHECK(next() >= 2);
  GV_CHECK(calls != 3);
  CHECK(calls == 2);
}

TEST_CASE("a result holds a value or one line, and reading the wrong one is our bug") {
  Result<std::string> good = std::string("ring");
  REQUIRE(good);
  CHECK(*good == "ring");
  CHECK(good->size() == 4);
  const std::string moved = *std::move(good);
  CHECK(moved == "ring");

  const Result<int> asked = user_error("ranks = 0, accepted: 1 and more");
  REQUIRE_FALSE(asked);
  CHECK(asked.error().exit_status() == 2);
  CHECK(asked.error().message == "ranks = 0, accepted: 1 and more");
  const Status broke = world_error("peer gone");
  CHECK(broke.error().exit_status() == 1);
  CHECK(static_cast<bool>(Status(Done{})));

  CHECK_THAT(last_words([&] { (void)*asked; }), Catch::Contains("ranks = 0"));
  CHECK_THAT(last_words([] { (void)Result<int>(3).error(); }), Catch::Contains("0 == 1"));
}

TEST_CASE("the generator is Philox4x32-10: the known answers of its authors") {
  using Four = std::array<uint32_t, 4>;
  CHECK(Random::philox({0, 0, 0, 0}, {0, 0}) ==
        Four{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  constexpr uint32_t ones = 0xffffffff;
  CHECK(Random::philox({ones, ones, ones, ones}, {ones, ones}) ==
        Four{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(
      Random::philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
      Four{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
  Random zero(0, 0, static_cast<Purpose>(0));
  CHECK(zero.bits() == 0x9b00dbd8bc57ac4c);
  CHECK(zero.bits() == 0xe169c58d6627e8d5);
}

TEST_CASE("streams of different seed, rank, purpose or index differ; equal ones are equal") {
  std::set<uint64_t> first;
  for (const uint64_t seed : {0ull, 1ull, 1ull << 32}) {
    for (const uint32_t rank : {0u, 1u, 16384u}) {
      for (const auto purpose : {Purpose::data_order, Purpose::test}) {
        for (const uint64_t index : {0ull, 1ull, 1ull << 32, 1ull << 40}) {
          first.insert(Random(seed, rank, purpose, index).bits());
          CHECK(Random(seed, rank, purpose, index).bits() ==
                Random(seed, rank, purpose, index).bits());
        }
      }
    }
  }
  CHECK(first.size() == 3 * 3 * 2 * 4);
}

TEST_CASE("draws have the moments of their distributions, within five standard errors") {
  constexpr int n = 200000;
  const double sqrt_n = std::sqrt(static_cast<double>(n));
  Random random(3, 1, Purpose::test);
  double uniform = 0, exponential = 0, normal = 0, square = 0, low = 1, high = 0;
  int tail = 0;
  for (int i = 0; i < n; ++i) {
    const double u = random.uniform();
    low = std::min(low, u);
    high = std::max(high, u);
    uniform += u;
    exponential += random.exponential();
    const double z = random.normal();
    normal += z;
    square += z * z;
    tail += std::abs(z) > 1.959963984540054;
  }
  CHECK(low >= 0);
  CHECK(high < 1);
  CHECK(std::abs(uniform / n - 0.5) < 5 * std::sqrt(1. / 12) / sqrt_n);
  CHECK(std::abs(exponential / n - 1) < 5 / sqrt_n);
  CHECK(std::abs(normal / n) < 5 / sqrt_n);
  CHECK(std::abs(square / n - 1) < 5 * std::sqrt(2.) / sqrt_n);
  CHECK(std::abs(tail - 0.05 * n) < 5 * std::sqrt(0.05 * 0.95 * n));
}

TEST_CASE("below(n) reaches every value alike, and a shuffle is a permutation") {
  Random random(5, 2, Purpose::test);
  std::vector<int> count(10);
  for (int i = 0; i < 100000; ++i)
    ++count[random.below(10)];
  for (const int c : count)
    CHECK(std::abs(c - 10000) < 5 * std::sqrt(9000.));
  CHECK(random.below(1) == 0);

  std::vector<int> order(1000);
  std::iota(order.begin(), order.end(), 0);
  shuffle(order.begin(), 1000, random);
  CHECK_FALSE(std::is_sorted(order.begin(), order.end()));
  std::sort(order.begin(), order.end());
  for (int i = 0; i < 1000; ++i)
    REQUIRE(order[static_cast<size_t>(i)] == i);
  std::vector<int> firsts(3);
  for (int i = 0; i < 30000; ++i) {
    int three[] = {0, 1, 2};
    shuffle(three, 3, random);
    ++firsts[static_cast<size_t>(three[0])];
  }
  for (const int c : firsts)
    CHECK(std::abs(c - 10000) < 5 * std::sqrt(30000 * 2. / 9));
}

TEST_CASE("a layout places its entries without gaps and two layouts agree by hash") {
  auto made = [](bool bias_decays) {
    ParameterLayout layout(DType::f32);
    layout.add("conv.weight", {8, 1, 3, 3}, true);
    layout.add("conv.bias", {8}, bias_decays);
    layout.add("scale", {}, false);
    return layout;
  };
  const ParameterLayout layout = made(false);
  REQUIRE(layout.entries().size() == 3);
  CHECK(layout.entries()[0].rows() == 8);
  CHECK(layout.entries()[0].columns() == 9);
  CHECK(layout.entries()[1].offset == 72);
  CHECK(layout.entries()[2].offset == 80);
  CHECK(layout.entries()[2].size() == 1);
  CHECK(layout.size() == 81);
  CHECK(layout.bytes() == 324);
  CHECK(layout.hash() == made(false).hash());
  CHECK(layout.hash() != made(true).hash());
  CHECK(ParameterLayout::flat(9, DType::f64).hash() != ParameterLayout::flat(9, DType::f32).hash());
  CHECK(ParameterLayout::flat(9, DType::f64).bytes() == 72);
}

TEST_CASE(
    "a tensor with a side of 0 has a place, no elements, and no columns where it has no rows") {
  ParameterLayout layout(DType::f32);
  layout.add("a", {0, 4}, true);
  layout.add("b", {4, 0, 2}, true);
  layout.add("c", {0}, true);
  layout.add("d", {3}, true);
  CHECK(layout.size() == 3);
  CHECK(layout.entries()[3].offset == 0);
  CHECK((layout.entries()[0].rows() == 0 && layout.entries()[0].columns() == 0));
  CHECK((layout.entries()[1].rows() == 4 && layout.entries()[1].columns() == 0));
  CHECK(layout.entries()[2].columns() == 0);
}

TEST_CASE("a part of a view starts where it says, and cannot reach beyond the end") {
  Buffer buffer(10, DType::f64);
  buffer.vec().as<double>()[7] = 3;
  const ConstVec part = buffer.vec().part(7, 3);
  CHECK(part.size == 3);
  CHECK(part.bytes() == 24);
  CHECK(part.as<double>()[0] == 3);
  CHECK(buffer.vec().part(10, 0).size == 0);
  CHECK_THAT(last_words([&] { (void)buffer.vec().part(8, 3); }), Catch::Contains("11 <= 10"));
  CHECK_THAT(last_words([&] { (void)buffer.vec().as<float>(); }),
             Catch::Contains("dtype_of<T>() == dtype"));
}

TEST_CASE("a process may use as many cores as its affinity mask has") {
  cpu_set_t before, one;
  REQUIRE(sched_getaffinity(0, sizeof before, &before) == 0);
  CHECK(usable_cores() <= CPU_COUNT(&before));
  CPU_ZERO(&one);
  for (int core = 0; CPU_COUNT(&one) == 0; ++core)
    if (CPU_ISSET(core, &before)) CPU_SET(core, &one);
  REQUIRE(sched_setaffinity(0, sizeof one, &one) == 0);
  const int alone = usable_cores();
  REQUIRE(sched_setaffinity(0, sizeof before, &before) == 0);
  CHECK(alone == 1);
}

TEST_CASE("memory for others can be sealed, and is not executable where the system knows of that") {
  const Descriptor memory = make_memory("test");
  REQUIRE(memory);
  CHECK(ftruncate(memory.fd(), 4096) == 0);
  CHECK(fcntl(memory.fd(), F_ADD_SEALS, F_SEAL_GROW) == 0);
  constexpr int kNoExec = 0x20;  // newer than some systems' headers
  struct stat about {};
  REQUIRE(fstat(memory.fd(), &about) == 0);
  if ((fcntl(memory.fd(), F_GET_SEALS) & kNoExec) != 0) CHECK((about.st_mode & 0111) == 0);
}
