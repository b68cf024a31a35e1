// Passes of exchanges: beside gradients that fill the GPU, and many short ones at once.
#include <algorithm>

#include "tests/bench/gpu_facts/questions.hpp"
#include "tests/bench/gpu_facts/tools.hpp"
#include "tests/bench/gpu_facts/work.hpp"

namespace grapevine::facts {
namespace {

constexpr double kMicro = 1e6;

unsigned full() { return static_cast<unsigned>(processors()) * 8; }

/// The k-th of several jumps in one block of memory, of `fours` times four numbers each.
Jump jump_in(void* memory, size_t fours, int k) {
  float4* const at = static_cast<float4*>(memory) + 4 * fours * static_cast<size_t>(k);
  return {at, at + fours, at + 2 * fours, at + 3 * fours, 0.1F, 0.5F, 0.7F};
}

struct BatchTimes {
  double apart = 0, host = 0, table = 0, graph = 0;
};

BatchTimes time_batch(size_t bytes, int ranks) {
  const size_t fours = bytes / sizeof(float4);
  void* const memory = device_memory(4 * bytes * static_cast<size_t>(ranks));
  JumpTable table{};
  for (int k = 0; k < ranks; ++k)
    table.entry[k] = jump_in(memory, fours, k);
  const cudaStream_t stream = make_stream();
  const auto needed = static_cast<unsigned>((fours + 255) / 256);
  const unsigned wide = std::min(full(), needed);
  const unsigned narrow = std::min(wide, full() / static_cast<unsigned>(ranks) + 1);
  const auto apart = [&] {
    for (int k = 0; k < ranks; ++k)
      jump(stream, table.entry[k], fours, wide);
  };
  BatchTimes times;
  times.apart = on_stream_s(stream, apart);
  times.host = took_s(apart);
  must(cudaStreamSynchronize(stream));
  times.table = on_stream_s(stream, [&] { jump(stream, table, ranks, fours, narrow); });
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t ready = nullptr;
  must(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  apart();
  must(cudaStreamEndCapture(stream, &graph));
  must(cudaGraphInstantiate(&ready, graph, 0));
  times.graph = on_stream_s(stream, [&] { must(cudaGraphLaunch(ready, stream)); });
  must(cudaFree(memory));
  return times;
}

}  // namespace

void ask_batch() {
  struct Size {
    const char* fact;
    size_t bytes;
    int ranks;
  };
  // LeNet and ResNet-18; 16 of the large ones, 2.9 GB, are as good as 64.
  for (const Size& size : {Size{"batch.0.16MB", size_t{160} << 10, kTable},
                           Size{"batch.1.7MB", size_t{1690} << 10, kTable},
                           Size{"batch.44.7MB", size_t{43652} << 10, 16}}) {
    const BatchTimes t = time_batch(size.bytes, size.ranks);
    const double moved = 6.0 * static_cast<double>(size.bytes) * size.ranks;
    const double gain = t.apart / t.table;
    const std::string answer = text(
        "%d jumps: apart %.0f us (%.0f GB/s; their calls %.0f us), as one table %.0f us (%.0f "
        "GB/s): %.1f times as fast; as a graph %.0f us",
        size.ranks, t.apart * kMicro, moved / t.apart * 1e-9, t.host * kMicro, t.table * kMicro,
        moved / t.table * 1e-9, gain, t.graph * kMicro);
    if (size.bytes < size_t{1} << 20) {
      say(size.fact, answer);
    } else {
      judge(size.fact, size.ranks == kTable ? gain >= 3 : gain <= 1.1,
            answer + (size.ranks == kTable ? " (3 or more)" : " (no gain)"));
    }
  }
}

/// A jump of 44.7 MB while kernels of 100 us fill the GPU twice over.
void ask_priority() {
  constexpr double kMost = 3;
  const size_t bytes = size_t{43652} << 10, fours = bytes / sizeof(float4);
  const Jump j = jump_in(device_memory(4 * bytes), fours, 0);
  const auto [lowest, highest] = priorities();
  const cudaStream_t gradients = make_stream(lowest);
  const auto time_jump = [&](int priority, int kernels) {
    const cudaStream_t stream = make_stream(priority);
    std::vector<double> times;
    for (int round = 0; round < 9; ++round) {
      for (int k = 0; k < kernels; ++k)
        spin(gradients, 100e-6, 2 * full());
      if (kernels > 0) nap(2e-3);
      times.push_back(took_s([&] {
        jump(stream, j, fours, full());
        must(cudaStreamSynchronize(stream));
      }));
      must(cudaDeviceSynchronize());
    }
    return median(times);
  };
  constexpr int kGradient = 40;
  const double alone = time_jump(highest, 0);
  const double urgent = time_jump(highest, kGradient), patient = time_jump(lowest, kGradient);
  judge("priority", urgent < kMost * alone,
        text("a jump of 44.7 MB: alone %.0f us; beside a full GPU %.0f us where it is urgent (3 "
             "times at most), %.0f us where it is not; priorities %d to %d",
             alone * kMicro, urgent * kMicro, patient * kMicro, lowest, highest));
}

}  // namespace grapevine::facts
