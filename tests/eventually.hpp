// Waiting without sleeping for what no event tells.
#pragma once
#include <chrono>
#include <thread>

namespace grapevine {

/// For what a machine gives late that is busy: its cores, and the disk that it syncs to.
constexpr std::chrono::seconds kBusyMachine{60};

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
