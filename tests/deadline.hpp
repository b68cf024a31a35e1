// Ends the program with a sentence if an awaited event does not come within a minute. The test is
// not left in the usual way, because a hanging thread may use objects that would be destroyed.
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
