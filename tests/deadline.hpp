// What a test waits for comes within a minute, or the program ends with a sentence that says what
// did not: what hangs may hold whatever would have to be destroyed on the way out of the test.
#pragma once
#include <chrono>
#include <cstdlib>
#include <future>
#include <iostream>

namespace grapevine::test {

constexpr std::chrono::minutes kDeadline{1};

[[noreturn]] inline void came_too_late(const char* what) {
  std::cerr << "within a minute there was no " << what << std::endl;
  std::abort();  // Catch2 names the test
}

template <class Future>
auto awaited(Future&& future, const char* what) {
  if (future.wait_for(kDeadline) != std::future_status::ready) came_too_late(what);
  return future.get();
}

}  // namespace grapevine::test
