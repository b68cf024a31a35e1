// Every pass on the adversary: declared right, and with the bits of the CPU.
#include "tests/device/adversary.hpp"
#include "tests/kernels/compressor_sentences.hpp"
#include "tests/kernels/device_sentences.hpp"
#include "tests/kernels/tools.hpp"

using namespace grapevine;
using namespace grapevine::testing;

namespace {

struct Adverse {
  AdverseWorld world{1};
  Adversary device{world, "A"};
  OnDevice on{device, size_t{1} << 20, [this] { REQUIRE(world.step()); }};

  void check_clean() {
    device.finish_all();
    CHECK(world.judge().findings() == std::set<std::string>());
  }
};

}  // namespace

TEST_CASE("every pass on a device gives the bits of the CPU, for odd sizes and misaligned views") {
  Adverse t;
  for (const DType dtype : {DType::f32, DType::f64})
    for (const size_t size : {0, 1, 3, 17, 1003})
      for (const size_t shift : {0, 1, 3})
        for (const size_t extra : {0, 1})
          check_passes(t.on, dtype, size, shift, extra, all_cases());
  t.check_clean();
}

TEST_CASE(
    "every elementwise pass on a device, made from its arguments, gives the bits of the CPU") {
  Adverse t;
  for (const bool wide : {false, true})
    for (const size_t size : {1, 3, 17, 1003})
      for (const size_t shift : {0, 1})
        check_each_pass(t.on, wide, size, shift);
  t.check_clean();
}

TEST_CASE("in place a pass on a device reads what it overwrites") {
  Adverse t;
  Buffer host = random_buffer(100, DType::f32, 1), back(100, DType::f32);
  const Vec x = t.on.upload(host);
  scale(t.on.execution(), -0.3, x, x);
  scale({}, -0.3, host, host);
  t.on.read(x, back);
  CHECK(numbers(back) == numbers(host));
  t.check_clean();
}

TEST_CASE("what a pass on a device finds out is what the CPU finds") {
  Adverse t;
  for (const DType dtype : {DType::f32, DType::f64})
    for (const size_t size : {0, 1, 15, 17, 8191, 8192, 8209})
      check_results(t.on, dtype, size);
  t.check_clean();
}

TEST_CASE("passes over matrices on a device give the bits of the CPU") {
  Adverse t;
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const LowRank shape : {LowRank{1, 1, 1}, {3, 5, 2}, {17, 33, 4}, {64, 27, 6}}) {
      const MatrixErrors errors = matrix_errors(t.on, dtype, shape);
      CHECK(errors.times == 0);
      CHECK(errors.others == 0);
    }
  }
  t.check_clean();
}

TEST_CASE("every compressor on a device gives the bytes and the numbers of the CPU") {
  Adverse t;
  for (const DType dtype : {DType::f32, DType::f64}) {
    check_compressors(t.on, awkward_and_long(dtype), true);
    check_top_k_of_others(t.on, dtype);
  }
  t.check_clean();
}

TEST_CASE("Moniqua on a device gives the bytes and the numbers of the CPU, in place too") {
  Adverse t;
  for (const DType dtype : {DType::f32, DType::f64})
    for (const size_t size : {0, 1, 3, 4, 7, 8, 9, 17, 1003, 5000})
      for (const size_t shift : {0, 1})
        check_moniqua(t.on, dtype, size, shift);
  t.check_clean();
}

TEST_CASE("on a device a compressor without its scratch is our bug") {
  Adverse t;
  Buffer host(100, DType::f32);
  const Vec v = t.on.upload(host), scratch = t.on.make(4096, DType::bytes);
  std::byte* const out = t.on.make(1000, DType::bytes).as<std::byte>();
  const Execution on = t.on.execution();
  const Compressor c = made("top-k:0.1", ParameterLayout::flat(100, DType::f32));
  const Vec small = scratch.part(0, c.scratch_bytes() - 8);
  CHECK(last_words([&] { c.encode(on, v, 0, 0, out); }) != "");
  CHECK(last_words([&] { c.encode(on, v, 0, 0, out, small); }) != "");
  CHECK(last_words([&] { c.encode(on, v, 0, 0, out, scratch.part(4, 4000)); }) != "");
  CHECK(last_words([&] { c.encode(on, v, 0, 0, out, scratch); }) == "");
}

TEST_CASE("on a device a pass that answers at once, or sums into a late term, is our bug") {
  Adverse t;
  Buffer host(100, DType::f32);
  const Vec x = t.on.upload(host), y = t.on.upload(host);
  const Execution on = t.on.execution();
  CHECK(last_words([&] { dot(on, x, y); }) != "");
  CHECK(last_words([&] { square_distance(on, x, y); }) != "");
  CHECK(last_words([&] { all_finite(on, x); }) != "");
  CHECK(last_words([&] { mix_and_take(on, 0, x, y, x, {}); }) != "");
  std::vector<Term> terms(9, {0.5, x});
  CHECK(last_words([&] { combine(on, terms, y); }) == "");
  terms.back().x = y;
  CHECK(last_words([&] { combine(on, terms, y); }) != "");
}
