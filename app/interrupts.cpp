#include "app/interrupts.hpp"

#include <csignal>
#include <unistd.h>

namespace grapevine {
namespace {

std::atomic<int> count{0};  // a handler can reach nothing else
static_assert(std::atomic<int>::is_always_lock_free);

void on_signal(int) {
  if (++count > 1) _exit(130);
}

}  // namespace

void count_interrupts() {
  struct sigaction action = {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

const std::atomic<int>& interrupts() { return count; }

}  // namespace grapevine
