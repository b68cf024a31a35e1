#include "app/run/interrupts.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <string_view>
#include <utility>

namespace grapevine {
namespace {

// A handler can use only globals. `count`: signals that were counted as requests.
std::atomic<int> signals{0}, count{0}, first{0}, requests{0};  // count: of those that are noted
std::atomic<bool> to_all{false};
std::atomic<int> handling{0};              // the number of running handlers
std::atomic<int64_t> terminated_at_ms{0};  // the last SIGTERM that was a new request; 0: none
std::atomic<const InterruptNote::File*> note{nullptr};
static_assert(std::atomic<int>::is_always_lock_free);
static_assert(decltype(note)::is_always_lock_free);
static_assert(decltype(terminated_at_ms)::is_always_lock_free);

constexpr std::string_view kStopping =
    "stopping: finishes what is open; a second signal ends at once";

// The form of the log's lines, set before any signal: a handler may call few functions.
struct Manner {
  bool quiet = false, json = false, terminal = false;
  long east_of_utc_s = 0;
} manner;

// A line of the log, built without heap, lock or locale.
class Line {
 public:
  void add(std::string_view text) {
    for (const char c : text)
      if (size_ < sizeof text_) text_[size_++] = c;
  }
  void add(unsigned number, unsigned digits) {
    unsigned unit = 1;
    for (unsigned k = 1; k < digits; ++k)
      unit *= 10;
    for (; unit > 0; unit /= 10) {
      const char digit = static_cast<char>('0' + number / unit % 10);
      add({&digit, 1});
    }
  }
  void add_time(long seconds_of_day) {
    const auto s = static_cast<unsigned>(seconds_of_day);
    add(s / 3600, 2);
    add(":");
    add(s / 60 % 60, 2);
    add(":");
    add(s % 60, 2);
  }
  void put() const {
    if (write(STDERR_FILENO, text_, size_) < 0) return;
  }

 private:
  char text_[256];
  size_t size_ = 0;
};

void tell_stopping() {
  if (manner.quiet) return;
  constexpr long kDay_s = 86400;
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  Line line;
  if (manner.json) {
    const std::chrono::year_month_day date{
        std::chrono::sys_days(std::chrono::days(now.tv_sec / kDay_s))};
    line.add("{\"time\":\"");
    line.add(static_cast<unsigned>(static_cast<int>(date.year())), 4);
    line.add("-");
    line.add(static_cast<unsigned>(date.month()), 2);
    line.add("-");
    line.add(static_cast<unsigned>(date.day()), 2);
    line.add("T");
    line.add_time(now.tv_sec % kDay_s);
    line.add(".");
    line.add(static_cast<unsigned>(now.tv_nsec / 1000000), 3);
    line.add("Z\",\"level\":\"info\",\"event\":\"");
    line.add(kStopping);
    line.add("\"}\n");
  } else {
    if (manner.terminal) line.add("\n");  // after ^C and the line of progress
    line.add_time((now.tv_sec + manner.east_of_utc_s) % kDay_s);
    line.add(" ");
    line.add(kStopping);
    line.add("\n");
  }
  line.put();
}

// Uses open, write and rename, because a handler may call few other functions.
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

// The first handler may still be writing in another thread. The wait is limited to a second,
// because a disk may hang.
void end_at_once() {
  constexpr int kMost_ms = 1000;
  for (int k = 0; handling > 0 && k < kMost_ms; ++k)
    poll(nullptr, 0, 1);
  // Like _exit(), for which the thread sanitizer reports each thread that is not joined.
  syscall(SYS_exit_group, kInterrupted);
}

// Slurm and srun, as a scheduler and its launcher, each send a SIGTERM.
bool is_sent_again(int signal) {
  constexpr int64_t kTogether_ms = 5000;
  if (signal != SIGTERM) return false;
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  const int64_t now_ms = int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1000000;
  int64_t before_ms = terminated_at_ms;
  if (before_ms != 0 && now_ms < before_ms + kTogether_ms) return true;
  return !terminated_at_ms.compare_exchange_strong(before_ms, now_ms);
}

void on_signal(int signal, siginfo_t* how, void*) {
  if (signal == SIGUSR2) signal = SIGTERM;
  if (signal == SIGHUP && count > 0) return;
  if (is_sent_again(signal)) return;
  ++handling;
  if (signal != SIGHUP && ++signals > 1) {
    --handling;
    end_at_once();
  }
  if (count == 0) first = signal;
  to_all = how->si_code == SI_QUEUE && how->si_value.sival_int == kToAllNodes;
  ++count;  // after the two above, which a reader of count may use
  if (signal == SIGINT) write_note();
  --handling;
  tell_stopping();
}

void on_request(int) { ++requests; }

}  // namespace

void let_writes_fail() {
  std::signal(SIGXFSZ, SIG_IGN);
  std::signal(SIGPIPE, SIG_IGN);
}

void count_interrupts(const LogOptions& log) {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  manner = {log.quiet || log.level != LogLevel::info, log.format == LogFormat::json,
            isatty(STDERR_FILENO) == 1, local.tm_gmtoff};
  struct sigaction action = {};
  action.sa_sigaction = on_signal;
  action.sa_flags = SA_RESTART | SA_SIGINFO;
  sigaddset(&action.sa_mask, SIGINT);  // neither interrupts the other
  sigaddset(&action.sa_mask, SIGTERM);
  sigaddset(&action.sa_mask, SIGHUP);
  sigaddset(&action.sa_mask, SIGUSR2);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  sigaction(SIGUSR2, &action, nullptr);
  struct sigaction hang_up = {};
  sigaction(SIGHUP, nullptr, &hang_up);
  if (hang_up.sa_handler != SIG_IGN) sigaction(SIGHUP, &action, nullptr);
  action.sa_flags = SA_RESTART;
  action.sa_handler = on_request;
  sigaction(SIGUSR1, &action, nullptr);
}

const std::atomic<int>& interrupts() { return count; }

bool terminated() { return first == SIGTERM || first == SIGHUP; }

const std::atomic<bool>& interrupt_is_for_all() { return to_all; }

InterruptNote::InterruptNote(const std::string& path, std::string text)
    : file_(std::make_unique<const File>(File{path, path + ".interrupt", std::move(text)})) {
  note = file_.get();
}

// A running handler ends soon, in another thread.
InterruptNote::~InterruptNote() {
  note = nullptr;
  while (handling > 0)
    poll(nullptr, 0, 1);
}

const std::atomic<int>& checkpoint_requests() { return requests; }

}  // namespace grapevine
