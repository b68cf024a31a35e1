#include "app/interrupts.hpp"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <utility>

namespace grapevine {
namespace {

std::atomic<int> count{0}, first{0}, requests{0};  // a handler can reach nothing else
std::atomic<int> handling{0};  // of the first signal, in some thread
std::atomic<const InterruptNote::File*> note{nullptr};
static_assert(std::atomic<int>::is_always_lock_free);
static_assert(decltype(note)::is_always_lock_free);

constexpr char kStopping[] = "\nstopping: drains, tests and saves; once more stops at once\n";

// open, write and rename, because a handler may call little else.
void write_note() {
  const InterruptNote::File* file = note.load();
  if (file == nullptr) return;
  const int fd = open(file->part.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return;
  const auto size = static_cast<ssize_t>(file->text.size());
  const bool is_whole = write(fd, file->text.data(), file->text.size()) == size;
  close(fd);
  if (is_whole && std::rename(file->part.c_str(), file->path.c_str()) == 0) return;
  unlink(file->part.c_str());
}

// The first may still be writing in another thread; a disk that hangs holds the second up no longer
// than a second.
void end_at_once() {
  constexpr int kMost_ms = 1000;
  for (int k = 0; handling > 0 && k < kMost_ms; ++k)
    poll(nullptr, 0, 1);
  _exit(kInterrupted);
}

void on_signal(int signal) {
  ++handling;
  if (++count > 1) {
    --handling;
    end_at_once();
  }
  first = signal;
  if (signal == SIGINT) write_note();
  --handling;
  if (write(STDERR_FILENO, kStopping, sizeof kStopping - 1) < 0) return;
}

void on_request(int) { ++requests; }

}  // namespace

void count_interrupts() {
  struct sigaction action = {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  sigaddset(&action.sa_mask, SIGINT);  // neither comes in the middle of the other
  sigaddset(&action.sa_mask, SIGTERM);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  action.sa_handler = on_request;
  sigaction(SIGUSR1, &action, nullptr);
  action.sa_handler = SIG_IGN;
  sigaction(SIGXFSZ, &action, nullptr);
}

const std::atomic<int>& interrupts() { return count; }

bool terminated() { return first == SIGTERM; }

InterruptNote::InterruptNote(const std::string& path, std::string text)
    : file_(std::make_unique<const File>(File{path, path + ".interrupt", std::move(text)})) {
  note = file_.get();
}

// A handler that has begun ends soon, in another thread.
InterruptNote::~InterruptNote() {
  note = nullptr;
  while (handling > 0)
    poll(nullptr, 0, 1);
}

const std::atomic<int>& checkpoint_requests() { return requests; }

}  // namespace grapevine
