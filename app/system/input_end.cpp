#include "app/system/input_end.hpp"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

namespace grapevine {

InputEnd::InputEnd(std::function<void()> then) {
  if (pipe2(stop_, O_CLOEXEC) != 0) throw std::system_error(errno, std::generic_category());
  thread_ = std::thread([this, then = std::move(then)] { watch(then); });
}

InputEnd::~InputEnd() {
  close(stop_[1]);
  thread_.join();
  close(stop_[0]);
}

void InputEnd::watch(const std::function<void()>& then) {
  for (;;) {
    pollfd ends[] = {{STDIN_FILENO, POLLIN, 0}, {stop_[0], POLLIN, 0}};
    if (poll(ends, 2, -1) < 0 && errno == EINTR) continue;
    if (ends[1].revents != 0) return;
    char thrown_away[256];
    const ssize_t n = read(STDIN_FILENO, thrown_away, sizeof thrown_away);
    if (n > 0 || (n < 0 && (errno == EINTR || errno == EAGAIN))) continue;
    return then();
  }
}

}  // namespace grapevine
