// Every CUDA twin against the CPU. Without a GPU these sentences say so and pass.
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <regex>
#include <string>
#include <thread>

#include "kernels/gpu/cuda_device.hpp"
#include "tests/eventually.hpp"
#include "tests/kernels/compressor_sentences.hpp"
#include "tests/kernels/device_sentences.hpp"
#include "tests/skipped.hpp"

using namespace grapevine;
using namespace grapevine::testing;

namespace {

constexpr size_t kMemoryBytes = size_t{256} << 20;

/// The first GPU; null without one, and that is said.
std::unique_ptr<Device> gpu() {
  if (cuda_device_count() == 0) {
    test::skipped("no CUDA device");
    return nullptr;
  }
  auto opened = open_cuda_device(0);
  REQUIRE(opened);
  return std::move(*opened);
}

}  // namespace

TEST_CASE("every CUDA pass gives the bits of the CPU, for odd sizes and misaligned views",
          "[gpu]") {
  const auto device = gpu();
  if (!device) return;
  OnDevice on(*device, kMemoryBytes, [] { std::this_thread::yield(); });
  for (const DType dtype : {DType::f32, DType::f64})
    for (const size_t shift : {0, 1, 3})
      for (const size_t extra : {0, 1})
        for (const size_t size : {0, 1, 3, 17, 1003})
          check_passes(on, dtype, size, shift, extra, all_cases());
}

TEST_CASE("every elementwise CUDA pass, made from its arguments, gives the bits of the CPU",
          "[gpu]") {
  const auto device = gpu();
  if (!device) return;
  OnDevice on(*device, kMemoryBytes, [] { std::this_thread::yield(); });
  for (const bool wide : {false, true})
    for (const size_t size : {1, 3, 17, 1003, 1000003})
      for (const size_t shift : {0, 1})
        check_each_pass(on, wide, size, shift);
}

TEST_CASE("every CUDA pass gives the bits of the CPU on long vectors, too", "[gpu][large]") {
  const auto device = gpu();
  if (!device) return;
  OnDevice on(*device, kMemoryBytes, [] { std::this_thread::yield(); });
  std::vector<Case> some;
  for (const Case& c : all_cases())
    if (c.with_v) some.push_back(c);
  for (const DType dtype : {DType::f32, DType::f64})
    for (const size_t shift : {0, 1})
      for (const size_t extra : {0, 1})
        check_passes(on, dtype, 1000003, shift, extra, some);
}

TEST_CASE("what a CUDA pass finds out is what the CPU finds, to the last bit", "[gpu]") {
  const auto device = gpu();
  if (!device) return;
  OnDevice on(*device, kMemoryBytes, [] { std::this_thread::yield(); });
  for (const DType dtype : {DType::f32, DType::f64})
    for (const size_t size : {0, 1, 15, 17, 8191, 8192, 8209, 1000003, 3000017})
      check_results(on, dtype, size);
}

TEST_CASE("a CUDA sum over more blocks than one row has the bits of the CPU", "[gpu][large]") {
  const auto device = gpu();
  if (!device) return;
  OnDevice on(*device, kMemoryBytes, [] { std::this_thread::yield(); });
  constexpr size_t kSize = 16'800'005;
  const Buffer x = random_buffer(kSize, DType::f32, 1), y = random_buffer(kSize, DType::f32, 2);
  const Vec blocks = on.make(reduction_blocks(kSize), DType::f64), sum = on.make(1, DType::f64);
  dot(on.execution(), on.upload(x), on.upload(y), blocks, sum);
  CHECK(on.number(sum) == dot({}, x, y));
}

TEST_CASE("CUDA passes over matrices have the bits of the CPU, products with a factor its rounding",
          "[gpu]") {
  const auto device = gpu();
  if (!device) return;
  OnDevice on(*device, kMemoryBytes, [] { std::this_thread::yield(); });
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const LowRank shape :
         {LowRank{1, 1, 1}, {3, 5, 2}, {17, 33, 4}, {64, 27, 6}, {300, 513, 4}, {1003, 140, 6}}) {
      const MatrixErrors errors = matrix_errors(on, dtype, shape);
      INFO(shape.rows << " x " << shape.columns << " fp" << 8 * size_of(dtype));
      CHECK(errors.others == 0);
      const double terms = static_cast<double>(shape.rows + shape.columns);
      CHECK(errors.times <= 100 * rounding(dtype) * terms);
    }
  }
}

TEST_CASE("every CUDA compressor gives the bytes and the numbers of the CPU, low-rank its rounding",
          "[gpu]") {
  const auto device = gpu();
  if (!device) return;
  OnDevice on(*device, kMemoryBytes, [] { std::this_thread::yield(); });
  for (const DType dtype : {DType::f32, DType::f64}) {
    check_compressors(on, awkward_and_long(dtype), false);
    check_compressors(on, ParameterLayout::flat(3000017, dtype), false);
    check_top_k_of_others(on, dtype);
  }
}

TEST_CASE("Moniqua's CUDA passes give the bytes and the numbers of the CPU", "[gpu]") {
  const auto device = gpu();
  if (!device) return;
  OnDevice on(*device, kMemoryBytes, [] { std::this_thread::yield(); });
  for (const DType dtype : {DType::f32, DType::f64})
    for (const size_t size : {0, 1, 3, 4, 7, 8, 9, 17, 1003, 1000003})
      for (const size_t shift : {0, 1})
        check_moniqua(on, dtype, size, shift);
}

TEST_CASE("a GPU tells when an event has come, and shares memory between two openings of it",
          "[gpu]") {
  const auto device = gpu();
  if (!device) return;
  OnDevice on(*device, kMemoryBytes, [] { std::this_thread::yield(); });
  Block block, opened, refused;
  Event event;
  REQUIRE(device->allocate(4096, Block::Kind::shared, block) == Fate::ok);
  REQUIRE(device->make_event(event) == Fate::ok);
  const Buffer sent = random_buffer(1024, DType::f32, 1);
  on.write(sent, {block.data, 1024, DType::f32});
  REQUIRE(device->record(event, on.execution().stream) == Fate::ok);
  std::atomic<int> told{0};
  device->when(event, [&](Fate fate) { told += fate == Fate::ok ? 1 : 100; });
  CHECK(eventually([&] { return told == 1; }));
  int descriptor = -1;
  REQUIRE(device->share(block, descriptor) == Fate::ok);
  REQUIRE(device->open(descriptor, 4096, opened) == Fate::ok);
  const size_t one = 1;
  for (const size_t bytes : {size_t{0}, one << 34, one << 46, one << 63, ~size_t{0}})
    CHECK(device->open(descriptor, bytes, refused) == Fate::out_of_memory);
  for (const int other : {-1, STDIN_FILENO})
    CHECK(device->open(other, 4096, refused) == Fate::out_of_memory);
  close(descriptor);
  REQUIRE(device->free(block) == Fate::ok);
  Buffer back(1024, DType::f32);
  on.read(Vec(opened.data, 1024, DType::f32), back);
  CHECK(numbers(back) == numbers(sent));
  CHECK(device->free(opened) == Fate::ok);
}

#ifdef GRAPEVINE_STORES
TEST_CASE("a pass that nvcc has compiled writes no vector number by number") {
  std::ifstream file(GRAPEVINE_STORES);
  const std::regex entry(R"(\.entry \w*run_pass)"), apart(R"(st\.global\.[fu]\d+\s*\[%\w+\+)");
  int passes = 0;
  for (std::string line; std::getline(file, line);) {
    passes += std::regex_search(line, entry);
    INFO(line);
    CHECK_FALSE(std::regex_search(line, apart));
  }
  CHECK(passes == 9);
}
#endif

TEST_CASE("asking for a GPU that is not there is one line with the reason") {
  const int number = cuda_device_count();
  for (const Error& error : {open_cuda_device(number).error(), cuda_facts(number).error()}) {
    CHECK(error.exit_status() == 2);
    CHECK(error.message.find("no GPU " + std::to_string(number) + ": ") == 0);
    CHECK(error.message.find('\n') == std::string::npos);
  }
}
