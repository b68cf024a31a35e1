// Shared by all questions to a GPU: the wording of answers, calls that must work, and time.
#pragma once
#include <cuda.h>
#include <cuda_runtime.h>

#include <chrono>
#include <functional>
#include <source_location>
#include <stdexcept>
#include <string>
#include <vector>

namespace grapevine::facts {

using Where = std::source_location;

/// Ends a question without an answer: a call failed that has to work, or a process is gone.
struct NoAnswer : std::runtime_error {
  using std::runtime_error::runtime_error;
};
[[noreturn]] void give_up(const std::string& why, Where = Where::current());

/// One line of the program: `fact NAME  answer`.
void say(const char* fact, const std::string& answer);
/// The same, of something that the design takes for granted: the answer begins with yes or NO.
void judge(const char* fact, bool as_supposed, const std::string& answer);
std::string text(const char* format, ...) __attribute__((format(printf, 1, 2)));

/// The call has to work: where it did not, there is no answer.
void must(cudaError_t, Where = Where::current());
void must(CUresult, Where = Where::current());

/// A call of the driver, looked up by name: the program starts where no driver is.
void* driver_address(const char* name, Where = Where::current());
#define GV_FACTS_DRIVER(name) \
  (reinterpret_cast<decltype(&::name)>(::grapevine::facts::driver_address(#name)))

cudaStream_t make_stream(int priority = 0);
cudaEvent_t make_event(unsigned flags = cudaEventDisableTiming);
/// The lowest and the highest priority of a stream.
std::pair<int, int> priorities();
int processors();
void* device_memory(size_t bytes);
void* pinned_memory(size_t bytes);
size_t free_bytes();

double now_s();
template <class Work>
double took_s(Work&& work) {
  const double begun = now_s();
  work();
  return now_s() - begun;
}
double median(std::vector<double>);
/// By the stream's own events: the median of some rounds, after one that is not counted.
double on_stream_s(cudaStream_t, const std::function<void()>& queue);
/// Asks until it holds; whether it did before the time was over.
bool eventually(const std::function<bool()>& holds, double limit_s);
/// Gives the processor away for so long.
void nap(double seconds);

}  // namespace grapevine::facts
