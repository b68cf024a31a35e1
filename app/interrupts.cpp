#include "app/interrupts.hpp"

#include <unistd.h>
#include <csignal>

namespace grapevine {
namespace {

std::atomic<int> count{0}, first{0}, requests{0};  // a handler can reach nothing else
static_assert(std::atomic<int>::is_always_lock_free);

constexpr char kStopping[] = "\nstopping: drains, tests and saves; once more stops at once\n";

// write, because a handler may call little else.
void on_signal(int signal) {
  if (++count > 1) _exit(kInterrupted);
  first = signal;
  if (write(STDERR_FILENO, kStopping, sizeof kStopping - 1) < 0) return;
}

void on_request(int) { ++requests; }

}  // namespace

void count_interrupts() {
  struct sigaction action = {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  action.sa_handler = on_request;
  sigaction(SIGUSR1, &action, nullptr);
  action.sa_handler = SIG_IGN;
  sigaction(SIGXFSZ, &action, nullptr);
}

const std::atomic<int>& interrupts() { return count; }

bool terminated() { return first == SIGTERM; }

const std::atomic<int>& checkpoint_requests() { return requests; }

}  // namespace grapevine
