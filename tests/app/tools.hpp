// Shared by the tests of app/: the program, run as its users run it.
#pragma once
#include <sys/resource.h>
#include <sys/types.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/models/tools.hpp"

namespace grapevine::test {

struct Ran {
  int status = -1;  // the exit status; 128 + the signal that ended it
  std::string out, err;
};

/// Until a command has said something, or ended. Ends the program where that does not come.
void wait_for_bytes(int fd);

/// Through the shell; what it says is caught.
Ran run_command(const std::string& command);

/// Runs `grapevine ARGUMENTS` through the shell, after `before` ("ulimit -f 100;", "cd DIR;"). A
/// node or a launch leaves no run directory that was not asked for.
Ran run_grapevine(const std::string& arguments, const std::string& before = "");

/// The one JSON object that a command printed; fails the test where there is more or less.
nlohmann::json json_of(const std::string& arguments);

/// Whether it was refused as everything must be: this status, nothing on standard output, one line
/// on standard error that holds all the words.
void check_refused(const std::string& arguments, int status, const std::vector<std::string>& words,
                   const std::string& before = "");

/// A `grapevine ARGUMENTS` that goes on while the test looks at it.
class Running {
 public:
  explicit Running(const std::string& arguments);
  ~Running();

  pid_t process() const { return child_; }
  bool wait_for(const std::string& text);  // on standard error; false: it ended without
  void signal(int number) const;
  int end();  // waits; as Ran::status

 private:
  pid_t child_ = 0;
  int errors_ = -1;
};

/// Processes started meanwhile cannot write larger files: imitates a full disk.
class SmallFiles {
 public:
  explicit SmallFiles(rlim_t bytes);
  ~SmallFiles();
  SmallFiles(const SmallFiles&) = delete;

 private:
  rlimit before_{};
};

std::string text_of(const std::string& path);
bool exists(const std::string& path);

}  // namespace grapevine::test
