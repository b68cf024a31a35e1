// GB/s (bytes read + written) of the CUDA twins, beside a device-to-device copy of the same size.
//
//   bin/kernels_cuda_bench [MB...]
//
// MB: of a vector, 400 and 4 unless told. Each of 15 interleaved rounds queues every pass some
// times and asks until the last one has come; printed are medians. Without a GPU it says so and
// ends with status 77.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

#include "kernels/gpu/cuda_device.hpp"
#include "kernels/passes/ops.hpp"

using namespace grapevine;

namespace {

constexpr int kRounds = 15;
constexpr double kRoundBytes = 8e9;  // of a vector, all repeats of a round together

struct Row {
  const char* name;
  int words;
  std::function<void()> work;
};

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

void must(Fate fate) {
  if (fate == Fate::ok) return;
  std::fprintf(stderr, "the GPU has %s\n", fate == Fate::lost ? "failed" : "no memory for this");
  std::exit(1);
}

/// From the first call to the end of the work, some microseconds of the calls included.
double took_s(Device& device, Stream stream, Event event, int repeats,
              const std::function<void()>& work) {
  const auto begun = std::chrono::steady_clock::now();
  for (int r = 0; r < repeats; ++r)
    work();
  must(device.record(event, stream));
  Fate fate = device.query(event);
  while (fate == Fate::later)
    fate = device.query(event);
  must(fate);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
}

void measure(Device& device, Stream stream, size_t size, const std::vector<Row>& rows) {
  const double bytes = 4 * static_cast<double>(size);
  const int repeats = static_cast<int>(std::clamp(kRoundBytes / bytes, 1.0, 400.0));
  Event event;
  must(device.make_event(event));
  std::vector<std::vector<double>> rates(rows.size());
  for (int round = -1; round < kRounds; ++round) {  // the first is a warm-up
    for (size_t k = 0; k < rows.size(); ++k) {
      const double elapsed_s = took_s(device, stream, event, repeats, rows[k].work);
      if (round >= 0) rates[k].push_back(1e-9 * bytes * rows[k].words * repeats / elapsed_s);
    }
  }
  std::printf("pass                words     GB/s  of the copy\n");
  for (size_t k = 0; k < rows.size(); ++k) {
    std::printf("%-18s  %5d  %7.1f  %11.2f\n", rows[k].name, rows[k].words, median(rates[k]),
                median(rates[k]) / median(rates[0]));
  }
}

void measure(Device& device, Stream stream, size_t size) {
  const Execution on{nullptr, &device, stream};
  std::vector<Block> blocks;
  const auto vector = [&](size_t count, DType dtype) {
    must(device.allocate(count * size_of(dtype), Block::Kind::device, blocks.emplace_back()));
    return Vec(blocks.back().data, count, dtype);
  };
  const Vec g = vector(size, DType::f32), v = vector(size, DType::f32);
  const Vec x = vector(size, DType::f32), x_tilde = vector(size, DType::f32);
  const Vec out = vector(size, DType::f32), result = vector(1, DType::f64);
  const Vec sums = vector(reduction_blocks(size), DType::f64);
  for (const Vec& fresh : {g, v, x, x_tilde, out})
    scale(on, 0, fresh, fresh);
  const GradientStep step{1e-3, 0.9, true, 1e-4};
  measure(device, stream, size,
          {
              {"device copy", 2, [&] { must(device.copy(stream, out.data, g.data, g.bytes())); }},
              {"extrapolate, no x~", 2, [&] { extrapolate(on, 0, g, {}, out); }},
              {"extrapolate", 3, [&] { extrapolate(on, 0.2, x, x_tilde, out); }},
              {"mix_and_jump", 6, [&] { mix_and_jump(on, 0.2, 0.5, 0.7, g, v, x, x_tilde); }},
              {"jump, no x~", 4, [&] { mix_and_jump(on, 0, 0.5, 0, g, v, x, {}); }},
              {"mix_and_step", 8, [&] { mix_and_step(on, 0.2, step, g, v, x, x_tilde, out); }},
              {"step, no copy", 7, [&] { mix_and_step(on, 0.2, step, g, v, x, x_tilde, {}); }},
              {"mix_and_take", 8, [&] { mix_and_take(on, 0.2, g, v, x, x_tilde, result); }},
              {"axpy", 3, [&] { axpy(on, 1e-6, x, out); }},
              {"scale", 2, [&] { scale(on, 0.5, x, out); }},
              {"dot", 2, [&] { dot(on, x, x_tilde, sums, result); }},
              {"all_finite", 1, [&] { all_finite(on, x, result); }},
          });
  for (const Block& block : blocks)
    must(device.free(block));
}

}  // namespace

int main(int count, char** words) {
  if (cuda_device_count() == 0) {
    std::printf("SKIPPED: no CUDA device\n");
    return 77;
  }
  auto opened = open_cuda_device(0);
  if (!opened) {
    std::fprintf(stderr, "%s\n", opened.error().message.c_str());
    return opened.error().exit_status();
  }
  std::vector<double> sizes_mb;
  for (int k = 1; k < count; ++k)
    sizes_mb.push_back(std::atof(words[k]));
  if (sizes_mb.empty()) sizes_mb = {400, 4};
  Stream stream;
  must((*opened)->make_stream(false, stream));
  for (const double mb : sizes_mb) {
    std::printf("%s, %g MB a vector, fp32\n", cuda_facts(0)->name.c_str(), mb);
    measure(**opened, stream, static_cast<size_t>(mb * 1e6 / 4));
  }
  return 0;
}
