// Ctrl+C and SIGTERM: the first asks for a drained and saved end, the second ends the process at
// once (status 130).
#pragma once
#include <atomic>

namespace grapevine {

void count_interrupts();               // installs the handlers
const std::atomic<int>& interrupts();  // so far

}  // namespace grapevine
