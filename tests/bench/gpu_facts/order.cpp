// Order, as the adversary of the tests takes CUDA to keep it (tests/device/), and what is left of a
// context after an error.
#include <atomic>
#include <cstring>

#include "tests/bench/gpu_facts/questions.hpp"
#include "tests/bench/gpu_facts/tools.hpp"
#include "tests/bench/gpu_facts/work.hpp"

namespace grapevine::facts {
namespace {

/// A wait captures what the event stands for at its call, so a later record delays nobody.
void ask_wait_captures() {
  const cudaStream_t first = make_stream(), waiting = make_stream(), later = make_stream();
  const cudaEvent_t event = make_event();
  auto* const flag = static_cast<int*>(pinned_memory(sizeof(int)));
  nothing(first);
  must(cudaEventRecord(event, first));
  must(cudaStreamWaitEvent(waiting, event, 0));
  stand_until(later, flag);
  must(cudaEventRecord(event, later));
  const bool came = eventually([&] { return cudaStreamQuery(waiting) == cudaSuccess; }, 5);
  const bool pending = cudaEventQuery(event) == cudaErrorNotReady;
  *static_cast<volatile int*>(flag) = 1;
  must(cudaDeviceSynchronize());
  judge("event.wait_captures", came && pending,
        text("a stream that waits for an event went on %s work on which it was recorded anew%s",
             came ? "beside" : "only after", pending ? "" : ", which had ended before: no proof"));
}

void ask_never_recorded() {
  const cudaStream_t stream = make_stream();
  const cudaEvent_t never = make_event();
  const cudaError_t query = cudaEventQuery(never);
  const cudaError_t wait = cudaStreamWaitEvent(stream, never, 0);
  const bool goes_on = eventually([&] { return cudaStreamQuery(stream) == cudaSuccess; }, 5);
  judge("event.never_recorded", query == cudaSuccess && wait == cudaSuccess && goes_on,
        text("the query says: %s; the wait: %s; the stream behind it %s", cudaGetErrorString(query),
             cudaGetErrorString(wait), goes_on ? "goes on" : "STANDS"));
}

}  // namespace

void ask_event() {
  ask_wait_captures();
  ask_never_recorded();
}

/// A copy of pageable memory after 100 ms of work: the product has no such copy.
void ask_pageable() {
  constexpr double kWork_s = 0.1;
  for (const size_t bytes : {size_t{4} << 10, size_t{64} << 20}) {
    const cudaStream_t stream = make_stream();
    std::vector<unsigned> host(bytes / sizeof(unsigned), 1);
    auto* const there = static_cast<unsigned*>(device_memory(bytes));
    const auto copy_behind_work = [&](void* to, const void* from, cudaMemcpyKind kind) {
      spin(stream, kWork_s);
      return 1e3 * took_s([&] { must(cudaMemcpyAsync(to, from, bytes, kind, stream)); });
    };
    const double in_ms = copy_behind_work(there, host.data(), cudaMemcpyHostToDevice);
    std::fill(host.begin(), host.end(), 2U);
    must(cudaStreamSynchronize(stream));
    const bool late = others(stream, there, host.size(), 1) != 0;
    const double out_ms = copy_behind_work(host.data(), there, cudaMemcpyDeviceToHost);
    must(cudaStreamSynchronize(stream));
    say(bytes < 65536 ? "pageable.4KiB" : "pageable.64MiB",
        text("behind 100 ms of work the call towards the GPU takes %.2f ms and reads the host's "
             "memory %s; the one back %.2f ms",
             in_ms, late ? "LATER" : "before it returns", out_ms));
  }
}

/// After an illegal address: whether a call still works, a host function is still called, and
/// anything leads back.
void ask_sticky() {
  const cudaStream_t stream = make_stream();
  const cudaEvent_t before = make_event(), after = make_event();
  constexpr size_t kBytes = 4096;
  auto* const pinned = static_cast<char*>(pinned_memory(kBytes));
  std::memset(pinned, 7, kBytes);
  must(cudaEventRecord(before, stream));
  must(cudaStreamSynchronize(stream));
  write_wildly(stream);
  std::atomic<int> calls{0};
  cudaEventRecord(after, stream);
  cudaLaunchHostFunc(
      stream, [](void* count) { ++*static_cast<std::atomic<int>*>(count); }, &calls);
  const cudaError_t found = cudaStreamSynchronize(stream);
  const bool called = eventually([&] { return calls != 0; }, 0.5);
  void* memory = nullptr;
  const cudaError_t old = cudaEventQuery(before), young = cudaEventQuery(after);
  const cudaError_t more = cudaMalloc(&memory, 16);
  const bool all_fail =
      found != cudaSuccess && old != cudaSuccess && young != cudaSuccess && more != cudaSuccess;
  judge("sticky", all_fail && !called,
        text("synchronise: %s; an event before it: %s, behind it: %s; malloc: %s; a host function "
             "behind it is %s; pinned memory is %s",
             cudaGetErrorName(found), cudaGetErrorName(old), cudaGetErrorName(young),
             cudaGetErrorName(more), called ? "CALLED" : "not called",
             pinned[kBytes - 1] == 7 ? "whole" : "GONE"));
  const cudaError_t reset = cudaDeviceReset();
  const cudaError_t then = cudaMalloc(&memory, 16);
  judge("sticky.reset", then != cudaSuccess,
        text("no way back: cudaDeviceReset: %s; malloc after it: %s", cudaGetErrorName(reset),
             cudaGetErrorName(then)));
}

}  // namespace grapevine::facts
