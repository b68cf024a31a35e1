#include "app/system/child_process.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

namespace grapevine {
namespace {

struct Pipe {
  int ends[2] = {-1, -1};
  bool open() { return pipe2(ends, O_CLOEXEC) == 0; }
  int keep(int end) { return std::exchange(ends[end], -1); }
  ~Pipe() {
    for (const int end : ends)
      if (end >= 0) close(end);
  }
};

// Runs in the child, where few functions are safe.
[[noreturn]] void become(char* const* arguments, int in, int out, int err, pid_t parent) {
  setpgid(0, 0);
  std::signal(SIGPIPE, SIG_DFL);  // this process ignores it
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);  // it died before prctl()
  dup2(in, STDIN_FILENO);
  dup2(out, STDOUT_FILENO);
  dup2(err, STDERR_FILENO);
  execv(arguments[0], arguments);
  _exit(127);
}

int plain(int status) { return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status); }

}  // namespace

Result<std::unique_ptr<ChildProcess>> ChildProcess::start(const std::vector<std::string>& arguments,
                                                          Input input) {
  std::vector<char*> words;
  for (const std::string& argument : arguments)
    // For execv's signature; it does not write.
    words.push_back(const_cast<char*>(argument.c_str()));
  words.push_back(nullptr);
  Pipe in, out, err;
  const pid_t parent = getpid();
  const pid_t child = in.open() && out.open() && err.open() ? fork() : -1;
  if (child == 0) become(words.data(), in.ends[0], out.ends[1], err.ends[1], parent);
  if (child < 0) {
    const char* few = errno == EAGAIN   ? ", accepted: a larger limit of processes (ulimit -u)"
                      : errno == EMFILE ? ", accepted: a larger limit of open files (ulimit -n)"
                                        : "";
    return world_error(fmt::format("cannot start a process: {}{}", std::strerror(errno), few));
  }
  std::unique_ptr<ChildProcess> made(new ChildProcess);
  setpgid(child, child);  // both do it, so that the order does not matter
  made->child_ = made->group_ = child;
  if (input == Input::open) made->in_end_ = in.keep(1);
  made->out_end_ = out.keep(0);
  made->err_end_ = err.keep(0);
  made->life_ = static_cast<int>(syscall(SYS_pidfd_open, child, 0u));
  return made;
}

ChildProcess::~ChildProcess() {
  if (child_ > 0) {
    kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
  }
  for (const int end : {in_end_, out_end_, err_end_, life_})
    if (end >= 0) close(end);
}

void ChildProcess::signal(int number, int value) const {
  if (child_ > 0) sigqueue(child_, number, {.sival_int = value});
}

void ChildProcess::signal_group(int number) const {
  if (child_ > 0) kill(-group_, number);
}

void ChildProcess::end_input() {
  if (in_end_ >= 0) close(std::exchange(in_end_, -1));
}

void ChildProcess::take(int& end, std::string& text) const {
  char block[1 << 16];
  const ssize_t n = read(end, block, sizeof block);
  if (n > 0) {
    text.append(block, static_cast<size_t>(n));
    return;
  }
  if (n < 0 && (errno == EINTR || errno == EAGAIN)) return;
  close(end);
  end = -1;
}

// Waits until the output has ended; the process may continue for long after that.
void ChildProcess::look_for_end() {
  int status = 0;
  if (out_end_ >= 0 || err_end_ >= 0 || waitpid(child_, &status, WNOHANG) != child_) return;
  status_ = plain(status);
  signal_ = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  child_ = 0;
}

void ChildProcess::wait_any(const std::vector<ChildProcess*>& children, int timeout_ms) {
  std::vector<pollfd> ends;
  for (const ChildProcess* child : children)
    for (const int end : {child->out_end_, child->err_end_,
                          child->out_end_ < 0 && child->err_end_ < 0 ? child->life_ : -1})
      ends.push_back({end, POLLIN, 0});  // poll skips negative descriptors
  if (poll(ends.data(), ends.size(), timeout_ms) < 0) return;
  for (size_t k = 0; k < children.size(); ++k) {
    ChildProcess& child = *children[k];
    if (ends[3 * k].revents != 0) child.take(child.out_end_, child.out_);
    if (ends[3 * k + 1].revents != 0) child.take(child.err_end_, child.err_);
    child.look_for_end();
  }
}

}  // namespace grapevine
