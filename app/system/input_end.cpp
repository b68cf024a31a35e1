#include "app/system/input_end.hpp"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

namespace grapevine {

namespace {

constexpr size_t kLongestLine = 256;

}  // namespace

InputEnd::InputEnd(OnLine on_line, std::function<void()> then) {
  if (pipe2(stop_, O_CLOEXEC) != 0) throw std::system_error(errno, std::generic_category());
  thread_ = std::thread(
      [this, on_line = std::move(on_line), then = std::move(then)] { watch(on_line, then); });
}

InputEnd::~InputEnd() {
  close(stop_[1]);
  thread_.join();
  close(stop_[0]);
}

void InputEnd::watch(const OnLine& on_line, const std::function<void()>& then) {
  for (std::string line;;) {
    pollfd ends[] = {{STDIN_FILENO, POLLIN, 0}, {stop_[0], POLLIN, 0}};
    if (poll(ends, 2, -1) < 0 && errno == EINTR) continue;
    if (ends[1].revents != 0) return;
    char bytes[256];
    const ssize_t n = read(STDIN_FILENO, bytes, sizeof bytes);
    for (ssize_t k = 0; k < n; ++k) {
      if (bytes[k] == '\n')
        on_line(std::exchange(line, {}));
      else if (line.size() < kLongestLine)
        line += bytes[k];
    }
    if (n > 0 || (n < 0 && (errno == EINTR || errno == EAGAIN))) continue;
    return then();
  }
}

}  // namespace grapevine
