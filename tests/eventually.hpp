// Waiting without sleeping for what no event tells.
#pragma once
#include <chrono>
#include <thread>

namespace grapevine {

/// Looks again and again, for ten seconds or as long as is said.
template <class Holds>
bool eventually(Holds holds, std::chrono::seconds patience = std::chrono::seconds(10)) {
  const auto end = std::chrono::steady_clock::now() + patience;
  while (!holds()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::yield();
  }
  return true;
}

}  // namespace grapevine
