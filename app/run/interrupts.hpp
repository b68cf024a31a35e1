// Ctrl+C, SIGTERM and SIGHUP (the terminal was closed). The first one asks for a drained and saved
// end, the second one ends the process at once (status 130). A SIGHUP after another signal does
// not, because closing a terminal or a session sends one more. A SIGTERM within 5 s of another one
// does not either, because a scheduler and its launcher send one each. SIGUSR2, by which some jobs
// are warned of their time limit, counts as SIGTERM.
#pragma once
#include <atomic>
#include <memory>
#include <string>

#include "app/options/options.hpp"

namespace grapevine {

/// The exit status of a process that was interrupted twice, or before it had anything to save.
inline constexpr int kInterrupted = 130;

/// If a file exceeds its limit, or the reader of an output is gone (| head), a write fails instead
/// of a signal.
void let_writes_fail();

/// Installs the handlers, which write in the format of the log, and nothing where it is quiet. A
/// process that was started to outlive its terminal (nohup) gets no SIGHUP.
void count_interrupts(const LogOptions&);

const std::atomic<int>& interrupts();  // so far
bool terminated();  // the first was SIGTERM or SIGHUP: the machine is needed, or the terminal is
                    // gone

/// The value of a signal that every node of a run gets: the run ends, with one mean of all. Without
/// it one node leaves the others, which continue.
inline constexpr int kToAllNodes = 1;
const std::atomic<bool>& interrupt_is_for_all();  // the first of them had it

/// While it exists, the first Ctrl+C writes `text` to a file, whole or not at all. The handler
/// itself writes it, because a second Ctrl+C may end the process before any other code runs. One at
/// a time.
class InterruptNote {
 public:
  InterruptNote(const std::string& path, std::string text);
  InterruptNote(const InterruptNote&) = delete;
  ~InterruptNote();  // nothing is written after this

  struct File {
    std::string path, part, text;
  };

 private:
  std::unique_ptr<const File> file_;
};

/// SIGUSR1: asks for a checkpoint.
const std::atomic<int>& checkpoint_requests();  // so far

}  // namespace grapevine
