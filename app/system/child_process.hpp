// ChildProcess: another program on this machine, with its output. It is killed with the object and,
// by the kernel, with this process, however that ends. It has its own process group, so that Ctrl+C
// reaches only this process. Its standard input is empty and ends with the object or with this
// process: a program that it starts on another machine (ssh) notices that. Programs that it starts
// here are not ended with it; for that, start it under a guard (launch/guard.hpp).
//
// Written by hand, because Debian's Boost.Process neither ties a child to its parent's life nor
// gives it a process group without our code between fork and exec, and it needs Asio.
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

  /// arguments[0] is the program's path. Error (world): the system refuses a process or a pipe.
  static Result<std::unique_ptr<ChildProcess>> start(const std::vector<std::string>& arguments,
                                                     Input = Input::open);

  ChildProcess(const ChildProcess&) = delete;
  ~ChildProcess();

  /// Reads the output of these children; waits until there is some, for at most this time. A signal
  /// ends the wait.
  static void wait_any(const std::vector<ChildProcess*>&, int timeout_ms);

  /// Sends a signal to this process alone, with a value for programs that know it. Does nothing
  /// once it has ended.
  void signal(int number, int value = 0) const;
  void signal_group(int number) const;  // with the processes that it started in its group
  void end_input();

  bool ended() const { return child_ == 0; }
  int status() const { return status_; }     // once ended; 128 + the signal that ended it
  int killed_by() const { return signal_; }  // that signal; 0: no signal ended it
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
