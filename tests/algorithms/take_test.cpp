// Steps that somebody else has made (Rule::take), by every method.
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "actors/algorithms/a2cid2.hpp"
#include "tests/algorithms/rules_tools.hpp"
#include "tests/catch.hpp"

using namespace grapevine;
using namespace grapevine::test;

namespace {

bool same_bits(ConstVec a, ConstVec b) {
  return a.bytes() == b.bytes() && std::memcmp(a.data, b.data, a.bytes()) == 0;
}

/// Whether all of front was finite.
bool take(Rule& rule, double now, Vec front, Vec base) {
  Buffer finite(1, DType::f64);
  rule.take(now, front, base, finite);
  return *std::as_const(finite).vec().as<double>() == 1;
}

}  // namespace

TEST_CASE("a step taken from a front is a gradient's of length 1, by every method") {
  const ParameterLayout layout = three_tensors(DType::f64);
  const size_t size = layout.size();
  REQUIRE(all_methods().size() > 10);
  for (const Method& each : all_methods()) {
    const std::string method = each.name;
    INFO(method);
    Random random(6, 0, Purpose::test);
    const Buffer x = buffer_of(normal_row(random, size), DType::f64);
    auto taking = rule_of(method, layout, {}, x), stepping = rule_of(method, layout, {}, x);
    Row shown = row_of(x.vec());
    for (int step = 1; step <= 4; ++step) {
      const double now = 0.3 * step;
      const Row made = shown + 0.1 * normal_row(random, size);
      Buffer base = buffer_of(shown, DType::f64), front = buffer_of(made, DType::f64);
      CHECK(take(*taking, now, front, base));
      stepping->on_gradient(now, 1, buffer_of(shown - made, DType::f64), {});
      const Row halfway = x_of(*taking, now, size, DType::f64);
      CHECK(distance(row_of(std::as_const(front).vec()), halfway) == 0);
      CHECK(distance(row_of(std::as_const(base).vec()), halfway) == 0);
      for (Rule* rule : {taking.get(), stepping.get()})
        end_round_alone(*rule, now);
      shown = x_of(*taking, now, size, DType::f64);
      CHECK(distance(shown, x_of(*stepping, now, size, DType::f64)) < 1e-13);
      CHECK(distance(conserved_of(*taking, now, size), conserved_of(*stepping, now, size)) < 1e-13);
      CHECK(distance(shown, row_of(x.vec())) > 1e-3);
    }
  }
}

TEST_CASE("what is not finite in a front leaves its element alone, by every method") {
  const ParameterLayout layout = three_tensors(DType::f64);
  const size_t size = layout.size();
  for (const Method& each : all_methods()) {
    const std::string method = each.name;
    for (const double bad : {std::nan(""), HUGE_VAL, -HUGE_VAL}) {
      INFO(method << " " << bad);
      Random random(7, 0, Purpose::test);
      const Row start = normal_row(random, size);
      Row made = start + normal_row(random, size), harmless = made;
      for (const Eigen::Index k : {0, 7, static_cast<int>(size) - 1})
        made[k] = bad, harmless[k] = start[k];
      auto spoiled = rule_of(method, layout, {}, buffer_of(start, DType::f64));
      auto sound = rule_of(method, layout, {}, buffer_of(start, DType::f64));
      Buffer front = buffer_of(made, DType::f64), base = buffer_of(start, DType::f64);
      CHECK_FALSE(take(*spoiled, 0.5, front, base));
      front = buffer_of(harmless, DType::f64), base = buffer_of(start, DType::f64);
      CHECK(take(*sound, 0.5, front, base));
      for (Rule* rule : {spoiled.get(), sound.get()})
        end_round_alone(*rule, 0.5);
      const Row x = x_of(*sound, 0.5, size, DType::f64);
      CHECK(distance(x_of(*spoiled, 0.5, size, DType::f64), x) < 1e-15);
      CHECK(x.allFinite());
    }
  }
}

TEST_CASE("a guest that gossips with nobody keeps the bits that its own loop would have") {
  const ParameterLayout layout = three_tensors(DType::f32);
  const size_t size = layout.size();
  for (const std::string method : {"a2cid2", "ad_psgd"}) {
    INFO(method);
    Random random(8, 0, Purpose::test);
    Buffer front = buffer_of(normal_row(random, size), DType::f32);
    Buffer base = buffer_of(row_of(front.vec()), DType::f32);
    auto rule = rule_of(method, layout, {}, front);
    dynamic_cast<PairwiseRule&>(*rule).set_eta(0, 0.7);
    for (int step = 1; step <= 50; ++step) {
      Row made = row_of(std::as_const(front).vec()) - 0.01 * normal_row(random, size);
      made[step % 5] = step % 2 == 0 ? -0.0 : 1e-40;
      front = buffer_of(made, DType::f32);
      const Buffer kept = buffer_of(made, DType::f32);
      REQUIRE(take(*rule, 0.1 * step, front, base));
      REQUIRE(same_bits(front, kept));
      REQUIRE(same_bits(base, kept));
    }
  }
}

TEST_CASE("a step is measured as it is taken, although its script rewrites the front meanwhile") {
  constexpr size_t kSize = 1 << 18;
  void* const memory = ::mmap(nullptr, kSize * sizeof(double), PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  REQUIRE(memory != MAP_FAILED);
  const Vec front(memory, kSize, DType::f64);
  const pid_t script = ::fork();
  REQUIRE(script >= 0);
  for (double value = 1; script == 0; value = 4 - value)  // 1 and 3, without end
    std::fill_n(front.as<double>(), kSize, value);
  const ParameterLayout layout = ParameterLayout::flat(kSize, DType::f64);
  for (const std::string method : {"a2cid2", "ad_psgd"}) {
    INFO(method);
    Buffer before(kSize, DType::f64), after(kSize, DType::f64), finite(1, DType::f64);
    auto rule = rule_of(method, layout, {}, before);
    for (int step = 1; step <= 20; ++step) {
      Buffer base(kSize, DType::f64);
      scale({}, 1, before, base);
      const double length =
          dynamic_cast<PairwiseRule&>(*rule).measured_take(0.1 * step, front, base, finite);
      rule->read(0.1 * step, after);
      CHECK(length == Approx(std::sqrt(square_distance({}, after, before))).epsilon(1e-12));
      CHECK(same_bits(base, after));
      std::swap(before, after);
    }
  }
  ::kill(script, SIGKILL);
  ::waitpid(script, nullptr, 0);
  ::munmap(memory, kSize * sizeof(double));
}
