// GB/s (bytes read + written) of the CUDA twins at 400 MB a vector, beside a device-to-device copy.
//
// Each of 15 interleaved rounds queues every pass 20 times and asks until the last one has come;
// printed are medians. Without a GPU it says so and ends with status 77.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

#include "kernels/cuda_device.hpp"
#include "kernels/ops.hpp"

using namespace grapevine;

namespace {

constexpr size_t kSize = 100000000;  // fp32: 400 MB a vector
constexpr int kRounds = 15;
constexpr int kRepeats = 20;

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
double took_s(Device& device, Stream stream, Event event, const std::function<void()>& work) {
  const auto begun = std::chrono::steady_clock::now();
  for (int r = 0; r < kRepeats; ++r)
    work();
  must(device.record(event, stream));
  Fate fate = device.query(event);
  while (fate == Fate::later)
    fate = device.query(event);
  must(fate);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
}

void measure(Device& device, Stream stream, const std::vector<Row>& rows) {
  Event event;
  must(device.make_event(event));
  std::vector<std::vector<double>> rates(rows.size());
  for (int round = -1; round < kRounds; ++round) {  // the first is a warm-up
    for (size_t k = 0; k < rows.size(); ++k) {
      const double elapsed_s = took_s(device, stream, event, rows[k].work);
      if (round >= 0) rates[k].push_back(4e-9 * kSize * rows[k].words * kRepeats / elapsed_s);
    }
  }
  std::printf("pass           words     GB/s  of the copy\n");
  for (size_t k = 0; k < rows.size(); ++k) {
    std::printf("%-13s  %5d  %7.1f  %11.2f\n", rows[k].name, rows[k].words, median(rates[k]),
                median(rates[k]) / median(rates[0]));
  }
}

}  // namespace

int main() {
  if (cuda_device_count() == 0) {
    std::printf("SKIPPED: no CUDA device\n");
    return 77;
  }
  auto opened = open_cuda_device(0);
  if (!opened) {
    std::fprintf(stderr, "%s\n", opened.error().message.c_str());
    return opened.error().exit_status();
  }
  Device& device = **opened;
  std::printf("%s, 400 MB a vector, fp32\n", cuda_facts(0)->name.c_str());
  Stream stream;
  must(device.make_stream(false, stream));
  const Execution on{nullptr, &device, stream};
  const auto vector = [&](size_t size, DType dtype) {
    Block block;
    must(device.allocate(size * size_of(dtype), Block::Kind::device, block));
    return Vec(block.data, size, dtype);
  };
  const Vec g = vector(kSize, DType::f32), v = vector(kSize, DType::f32);
  const Vec x = vector(kSize, DType::f32), x_tilde = vector(kSize, DType::f32);
  const Vec out = vector(kSize, DType::f32), result = vector(1, DType::f64);
  const Vec blocks = vector(reduction_blocks(kSize), DType::f64);
  for (const Vec& fresh : {g, v, x, x_tilde, out})
    scale(on, 0, fresh, fresh);
  const GradientStep step{1e-3, 0.9, true, 1e-4};
  measure(device, stream,
          {
              {"copy", 2, [&] { extrapolate(on, 0, g, {}, out); }},
              {"extrapolate", 3, [&] { extrapolate(on, 0.2, x, x_tilde, out); }},
              {"mix_and_jump", 6, [&] { mix_and_jump(on, 0.2, 0.5, 0.7, g, v, x, x_tilde); }},
              {"jump, no x~", 4, [&] { mix_and_jump(on, 0, 0.5, 0, g, v, x, {}); }},
              {"mix_and_step", 8, [&] { mix_and_step(on, 0.2, step, g, v, x, x_tilde, out); }},
              {"step, no copy", 7, [&] { mix_and_step(on, 0.2, step, g, v, x, x_tilde, {}); }},
              {"mix_and_take", 8, [&] { mix_and_take(on, 0.2, g, v, x, x_tilde, result); }},
              {"axpy", 3, [&] { axpy(on, 1e-6, x, out); }},
              {"scale", 2, [&] { scale(on, 0.5, x, out); }},
              {"dot", 2, [&] { dot(on, x, x_tilde, blocks, result); }},
              {"all_finite", 1, [&] { all_finite(on, x, result); }},
          });
  return 0;
}
