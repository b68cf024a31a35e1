#include "app/launch/guard.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <fstream>
#include <iterator>
#include <vector>

#include "kernels/base/printable.hpp"

namespace grapevine {
namespace {

constexpr int kGrace_s = 5;  // between TERM and KILL
constexpr int kNoCommand = 127;
constexpr timespec kSoon{0, 20'000'000};

double now_s() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

sigset_t awaited_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGCHLD, end_all_signal()})
    sigaddset(&set, signal);
  return set;
}

using Handler = void (*)(int);

/// Signals of a scheduler to all processes of its job, which the command may handle.
constexpr int kNotices[] = {SIGHUP, SIGUSR1, SIGUSR2};
using Notices = std::array<Handler, std::size(kNotices)>;

Notices ignore_notices() {
  Notices before{};
  for (size_t k = 0; k < before.size(); ++k)
    before[k] = std::signal(kNotices[k], SIG_IGN);
  return before;
}

[[noreturn]] void become(const std::vector<std::string>& command, const sigset_t& mask,
                         const Notices& notices) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // when the guard dies
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
  for (size_t k = 0; k < notices.size(); ++k)
    std::signal(kNotices[k], notices[k]);
  sigprocmask(SIG_SETMASK, &mask, nullptr);
  std::vector<char*> words;
  for (const std::string& word : command)
    words.push_back(const_cast<char*>(word.c_str()));  // for execvp's signature; it does not write
  words.push_back(nullptr);
  execvp(words[0], words.data());
  std::fprintf(stderr, "cannot start %s: %s\n", printable(words[0]).c_str(), std::strerror(errno));
  _exit(kNoCommand);
}

/// The children of the guard: the command, and processes that were left to it.
std::vector<pid_t> children() {
  std::vector<pid_t> all;
  std::ifstream list("/proc/thread-self/children");
  for (pid_t child = 0; list >> child;)
    all.push_back(child);
  return all;
}

/// Waits for those that have ended. True: none is left.
bool none_left(pid_t command, int& status) {
  for (;;) {
    int how = 0;
    const pid_t ended = waitpid(-1, &how, WNOHANG);
    if (ended < 0 && errno != EINTR) return true;
    if (ended == 0) return false;
    if (ended == command) status = WIFSIGNALED(how) ? 128 + WTERMSIG(how) : WEXITSTATUS(how);
  }
}

/// Sends TERM, waits, then sends KILL; also to processes that become the guard's when their parents
/// end.
void end_all(pid_t command, int& status) {
  kill(0, SIGTERM);  // the group; the guard ignores TERM
  for (const pid_t child : children())
    kill(child, SIGTERM);
  const double until = now_s() + kGrace_s;
  while (!none_left(command, status)) {
    nanosleep(&kSoon, nullptr);
    if (now_s() < until) continue;
    for (const pid_t child : children())
      kill(child, SIGKILL);
  }
}

}  // namespace

int end_all_signal() { return SIGRTMIN + 5; }

int guard(const std::vector<std::string>& command) {
  const sigset_t awaited = awaited_signals();
  sigset_t before;
  sigprocmask(SIG_BLOCK, &awaited, &before);
  std::signal(SIGINT, SIG_IGN);
  std::signal(SIGTERM, SIG_IGN);
  const Notices notices = ignore_notices();
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  const pid_t parent = getppid();
  prctl(PR_SET_PDEATHSIG, end_all_signal());
  if (getppid() != parent) return kNoCommand;  // it died before prctl()
  const pid_t child = fork();
  if (child == 0) become(command, before, notices);
  if (child < 0) {
    std::fprintf(stderr, "cannot start %s: %s\n", printable(command.front()).c_str(),
                 std::strerror(errno));
    return kNoCommand;
  }
  for (const int end : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    close(end);  // so that readers of the command's output see its end
  int status = -1;
  while (status < 0) {
    const int signal = sigwaitinfo(&awaited, nullptr);
    if (signal == end_all_signal()) break;
    none_left(child, status);
  }
  end_all(child, status);
  return status;
}

}  // namespace grapevine
