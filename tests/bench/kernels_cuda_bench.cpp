// GB/s (bytes read + written) of the CUDA twins at 400 MB a vector, beside a device-to-device copy.
//
// Each of 15 interleaved rounds times every pass by the GPU's own clock; printed are medians.
// Without a GPU it says so.
#include <algorithm>
#include <cstdio>
#include <functional>
#include <vector>

#include "kernels/device_buffer.hpp"

using namespace grapevine;

namespace {

constexpr size_t kSize = 100000000;  // fp32: 400 MB a vector
constexpr int kRounds = 15;
constexpr int kRepeats = 5;

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

void measure(const DeviceStream& stream, const std::vector<Row>& rows) {
  std::vector<std::vector<double>> rates(rows.size());
  for (int round = -1; round < kRounds; ++round) {  // the first is a warm-up
    for (size_t k = 0; k < rows.size(); ++k) {
      const double elapsed_s = stream.timed_s([&] {
        for (int r = 0; r < kRepeats; ++r) rows[k].work();
      });
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
  if (device_count() == 0) {
    std::printf("SKIPPED: no CUDA device\n");
    return 0;
  }
  std::printf("%s, 400 MB a vector, fp32\n", device_name().c_str());
  const DeviceStream stream;
  const Execution on = stream.execution();
  DeviceBuffer g(kSize, DType::f32), v(kSize, DType::f32), x(kSize, DType::f32),
      x_tilde(kSize, DType::f32), out(kSize, DType::f32);
  const GradientStep step{1e-3, 0.9, true, 1e-4};
  measure(stream, {
      {"copy", 2, [&] { extrapolate(on, 0, g, {}, out); }},
      {"extrapolate", 3, [&] { extrapolate(on, 0.2, x, x_tilde, out); }},
      {"mix_and_jump", 6, [&] { mix_and_jump(on, 0.2, 0.5, 0.7, g, v, x, x_tilde); }},
      {"jump, no x~", 4, [&] { mix_and_jump(on, 0, 0.5, 0, g, v, x, {}); }},
      {"mix_and_step", 8, [&] { mix_and_step(on, 0.2, step, g, v, x, x_tilde, out); }},
      {"step, no copy", 7, [&] { mix_and_step(on, 0.2, step, g, v, x, x_tilde, {}); }},
      {"mix_and_take", 8, [&] { mix_and_take(on, 0.2, g, v, x, x_tilde); }},
      {"axpy", 3, [&] { axpy(on, 1e-6, x, out); }},
      {"scale", 2, [&] { scale(on, 0.5, x, out); }},
      {"dot", 2, [&] { dot(on, x, x_tilde); }},
      {"all_finite", 1, [&] { all_finite(on, x); }},
  });
  return 0;
}
