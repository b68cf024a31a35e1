// ChildProcess: another program of this machine, its output collected. It is killed with the object
// and, by the kernel, with this process, however that ends. Its process group is its own, so that
// Ctrl+C reaches us alone. Its standard input stays empty and ends with the object, or with this
// process: what it starts on another machine (ssh) can tell by that. What it starts here is not
// ours: who wants that ended, too, starts it under a guard (launch/guard.hpp).
//
// By hand: of what Debian has, Boost.Process neither ties a child to its parent's life nor gives it
// a group without code of ours between fork and exec, and it brings Asio along.
#pragma once
#include <sys/types.h>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/base/result.hpp"

namespace grapevine {

class ChildProcess {
 public:
  enum class Input { open, none };  // none: it ends at once

  /// arguments[0] is the program's path. Error (world): no process or no pipe to be had.
  static Result<std::unique_ptr<ChildProcess>> start(const std::vector<std::string>& arguments,
                                                     Input = Input::open);

  ChildProcess(const ChildProcess&) = delete;
  ~ChildProcess();

  /// Takes in what these have written, waiting for at most so long until there is something. A
  /// signal ends the wait.
  static void wait_any(const std::vector<ChildProcess*>&, int timeout_ms);

  /// To it alone, with a value where the two know one; nothing once it has ended.
  void signal(int number, int value = 0) const;
  void signal_group(int number) const;  // with what it has started and left in its group
  void end_input();

  bool ended() const { return child_ == 0; }
  int status() const { return status_; }     // once ended; 128 + the signal that ended it
  int killed_by() const { return signal_; }  // that signal; 0: it has not ended so
  pid_t group() const { return group_; }     // of processes
  const std::string& out() const { return out_; }
  const std::string& err() const { return err_; }
  /// Its output since the last call; out() and err() are then empty.
  std::string take_out() { return std::exchange(out_, {}); }
  std::string take_err() { return std::exchange(err_, {}); }

 private:
  ChildProcess() = default;
  void take(int& end, std::string& text) const;
  void look_for_end();

  pid_t child_ = 0, group_ = 0;
  int status_ = -1, signal_ = 0;
  int in_end_ = -1, out_end_ = -1, err_end_ = -1;  // of the pipes; -1: closed
  int life_ = -1;                                  // a pidfd; -1: the system has none
  std::string out_, err_;
};

}  // namespace grapevine
