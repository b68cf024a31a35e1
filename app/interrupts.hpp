// Ctrl+C and SIGTERM: the first asks for a drained and saved end, the second ends the process at
// once (status 130).
#pragma once
#include <atomic>

#include "app/options.hpp"

namespace grapevine {

/// The exit status of who was interrupted before there was anything to save, or twice.
inline constexpr int kInterrupted = 130;

/// Installs the handlers, which speak as the log does. A file that grows over its limit becomes a
/// failed write, not a signal.
void count_interrupts(LogFormat);

const std::atomic<int>& interrupts();  // so far
bool terminated();                     // the first of them was SIGTERM: somebody wants the machine

/// SIGUSR1: asks for a checkpoint.
const std::atomic<int>& checkpoint_requests();  // so far

}  // namespace grapevine
