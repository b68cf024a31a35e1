#include "tests/bench/gpu_facts/processes.hpp"

#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>

#include "tests/bench/gpu_facts/tools.hpp"

namespace grapevine::facts {
namespace {

constexpr size_t kLongestWord = 64;
constexpr int kPatience_ms = 15000;

bool send_word(int socket, const std::string& word, int descriptor) {
  char bytes[kLongestWord] = {};
  word.copy(bytes, sizeof bytes - 1);
  iovec part{bytes, sizeof bytes};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (descriptor >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* const head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(head), &descriptor, sizeof descriptor);
  }
  return sendmsg(socket, &message, MSG_NOSIGNAL) == static_cast<ssize_t>(sizeof bytes);
}

bool receive_word(int socket, std::string& word, int* descriptor, int patience_ms) {
  pollfd ready{socket, POLLIN, 0};
  if (poll(&ready, 1, patience_ms) != 1) return false;
  char bytes[kLongestWord] = {};
  iovec part{bytes, sizeof bytes};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  if (recvmsg(socket, &message, MSG_CMSG_CLOEXEC) != static_cast<ssize_t>(sizeof bytes)) {
    return false;
  }
  const cmsghdr* const head = CMSG_FIRSTHDR(&message);
  if (head != nullptr && descriptor != nullptr) {
    std::memcpy(descriptor, CMSG_DATA(head), sizeof *descriptor);
  }
  word = bytes;
  return true;
}

}  // namespace

pid_t start_again(const std::vector<std::string>& arguments, bool own_group, int socket) {
  std::vector<std::string> words{"gpu_facts"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  for (std::string& word : words)
    pointers.push_back(word.data());
  pointers.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawnattr_t how;
  posix_spawn_file_actions_init(&files);
  posix_spawnattr_init(&how);
  if (socket >= 0) posix_spawn_file_actions_adddup2(&files, socket, kSocket);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&how, &none);
  posix_spawnattr_setflags(
      &how, static_cast<short>(POSIX_SPAWN_SETSIGMASK | (own_group ? POSIX_SPAWN_SETPGROUP : 0)));
  pid_t child = -1;
  const int failed = posix_spawn(&child, "/proc/self/exe", &files, &how, pointers.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&how);
  if (failed != 0) give_up(std::string("no process: ") + std::strerror(failed));
  return child;
}

int await_end(pid_t child, double limit_s) {
  int status = 0;
  const auto is_over = [&] { return waitpid(child, &status, WNOHANG) == child; };
  if (eventually(is_over, limit_s)) return status;
  ::kill(-child, SIGKILL);
  constexpr double kLastWait_s = 5;
  static_cast<void>(eventually(is_over, kLastWait_s));  // a call of the driver may hold it longer
  return kLate;
}

Partner::Partner(const std::string& role) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) give_up("no socket");
  socket_ = ends[0];
  child_ = start_again({"--role", role}, false, ends[1]);
  close(ends[1]);
}

Partner::~Partner() {
  kill();
  close(socket_);
}

void Partner::tell(const std::string& word) const {
  if (!send_word(socket_, word, -1)) give_up("the other process is gone before \"" + word + '"');
}

std::string Partner::hear(int* descriptor) const {
  std::string word;
  if (!receive_word(socket_, word, descriptor, kPatience_ms)) {
    give_up("the other process does not answer");
  }
  return word;
}

void Partner::kill() {
  if (child_ < 0) return;
  ::kill(child_, SIGKILL);
  waitpid(child_, nullptr, 0);
  child_ = -1;
}

bool told(std::string& word) { return receive_word(kSocket, word, nullptr, -1); }

void answer(const std::string& word, int descriptor) { send_word(kSocket, word, descriptor); }

bool is_quiet() {
  pollfd ready{kSocket, POLLIN, 0};
  return poll(&ready, 1, 0) == 0;
}

}  // namespace grapevine::facts
