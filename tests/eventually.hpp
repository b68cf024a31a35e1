// Waiting without sleeping for what no event tells.
#pragma once
#include <chrono>
#include <thread>

namespace grapevine {

/// Looks again and again, for ten seconds.
template <class Holds>
bool eventually(Holds holds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!holds()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::yield();
  }
  return true;
}

}  // namespace grapevine
