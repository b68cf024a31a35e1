#include "tests/bench/gpu_facts/tools.hpp"

#include <poll.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <utility>

namespace grapevine::facts {

void give_up(const std::string& why, Where where) {
  const std::string file = where.file_name();
  throw NoAnswer(file.substr(file.rfind('/') + 1) + ":" + std::to_string(where.line()) + ": " +
                 why);
}

void say(const char* fact, const std::string& answer) {
  std::printf("fact %-22s %s\n", fact, answer.c_str());
  std::fflush(stdout);
}

void judge(const char* fact, bool as_supposed, const std::string& answer) {
  say(fact, (as_supposed ? "yes: " : "NO: ") + answer);
}

std::string text(const char* format, ...) {
  char buffer[512];
  va_list rest;
  va_start(rest, format);
  std::vsnprintf(buffer, sizeof buffer, format, rest);
  va_end(rest);
  return buffer;
}

void must(cudaError_t answer, Where where) {
  if (answer != cudaSuccess) give_up(cudaGetErrorString(answer), where);
}

void must(CUresult answer, Where where) {
  if (answer != CUDA_SUCCESS) give_up("driver error " + std::to_string(answer), where);
}

void* driver_address(const char* name, Where where) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult how;
  constexpr unsigned kVersion = 12000;
  must(cudaGetDriverEntryPointByVersion(name, &found, kVersion, cudaEnableDefault, &how), where);
  if (found == nullptr) give_up(std::string("the driver has no ") + name, where);
  return found;
}

cudaStream_t make_stream(int priority) {
  cudaStream_t stream = nullptr;
  must(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, priority));
  return stream;
}

cudaEvent_t make_event(unsigned flags) {
  cudaEvent_t event = nullptr;
  must(cudaEventCreateWithFlags(&event, flags));
  return event;
}

std::pair<int, int> priorities() {
  int lowest = 0, highest = 0;
  must(cudaDeviceGetStreamPriorityRange(&lowest, &highest));
  return {lowest, highest};
}

int processors() {
  int count = 0;
  must(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, 0));
  return count;
}

void* device_memory(size_t bytes) {
  void* memory = nullptr;
  must(cudaMalloc(&memory, bytes));
  must(cudaMemset(memory, 0, bytes));
  must(cudaDeviceSynchronize());
  return memory;
}

void* pinned_memory(size_t bytes) {
  void* memory = nullptr;
  must(cudaHostAlloc(&memory, bytes, cudaHostAllocDefault));
  std::fill_n(static_cast<char*>(memory), bytes, '\0');
  return memory;
}

size_t free_bytes() {
  size_t left = 0, all = 0;
  must(cudaMemGetInfo(&left, &all));
  return left;
}

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double on_stream_s(cudaStream_t stream, const std::function<void()>& queue) {
  constexpr int kRounds = 7;
  const cudaEvent_t begun = make_event(cudaEventDefault), ended = make_event(cudaEventDefault);
  std::vector<double> times;
  for (int round = -1; round < kRounds; ++round) {
    must(cudaEventRecord(begun, stream));
    queue();
    must(cudaEventRecord(ended, stream));
    must(cudaEventSynchronize(ended));
    float ms = 0;
    must(cudaEventElapsedTime(&ms, begun, ended));
    if (round >= 0) times.push_back(1e-3 * static_cast<double>(ms));
  }
  must(cudaEventDestroy(begun));
  must(cudaEventDestroy(ended));
  return median(times);
}

bool eventually(const std::function<bool()>& holds, double limit_s) {
  const double end = now_s() + limit_s;
  while (!holds()) {
    if (now_s() > end) return false;
    nap(1e-3);
  }
  return true;
}

void nap(double seconds) {
  const timespec time{
      static_cast<time_t>(seconds),
      static_cast<long>(1e9 * (seconds - static_cast<double>(static_cast<time_t>(seconds))))};
  ppoll(nullptr, 0, &time, nullptr);
}

}  // namespace grapevine::facts
