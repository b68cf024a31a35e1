// Ctrl+C, SIGTERM and SIGHUP (the terminal was closed): the first asks for a drained and saved end,
// the second ends the process at once (status 130). A SIGHUP behind another signal does not: who
// closes a terminal or a session sends it once more.
#pragma once
#include <atomic>
#include <memory>
#include <string>

#include "app/options/options.hpp"

namespace grapevine {

/// The exit status of who was interrupted before there was anything to save, or twice.
inline constexpr int kInterrupted = 130;

/// Installs the handlers, which speak as the log does. A file that grows over its limit, and an
/// output whose reader is gone (| head), become failed writes, not signals. Who was started to
/// outlive its terminal (nohup) gets no SIGHUP.
void count_interrupts(LogFormat);

const std::atomic<int>& interrupts();  // so far
bool terminated();  // the first of them was SIGTERM or SIGHUP: somebody wants the machine, or is
                    // gone

/// The value of a signal that every node of a run gets: the run ends, with one mean of all. Without
/// it a node leaves the others, who go on.
inline constexpr int kToAllNodes = 1;
const std::atomic<bool>& interrupt_is_for_all();  // the first of them had it

/// While it lives the first Ctrl+C makes a file say `text`, whole or not at all. The handler writes
/// it, because a second Ctrl+C may end the process before anything else has come to it. One at a
/// time.
class InterruptNote {
 public:
  InterruptNote(const std::string& path, std::string text);
  InterruptNote(const InterruptNote&) = delete;
  ~InterruptNote();  // nothing is written any more

  struct File {
    std::string path, part, text;
  };

 private:
  std::unique_ptr<const File> file_;
};

/// SIGUSR1: asks for a checkpoint.
const std::atomic<int>& checkpoint_requests();  // so far

}  // namespace grapevine
