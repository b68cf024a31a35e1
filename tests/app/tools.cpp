#include "tests/app/tools.hpp"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/catch.hpp"
#include "tests/deadline.hpp"

namespace grapevine::test {
namespace {

const char* const kProgram = GRAPEVINE_BINARY_DIR "/grapevine";

int plain(int status) { return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status); }

/// Of a command, which trains for some seconds where it says nothing.
constexpr std::chrono::milliseconds kSilent = 10 * kDeadline;

}  // namespace

void wait_for_bytes(int fd) {
  pollfd there{fd, POLLIN, 0};
  if (::poll(&there, 1, static_cast<int>(kSilent.count())) != 1)
    came_too_late("word of a command, nor its end");
}

Ran run_command(const std::string& command) {
  const Scratch scratch;
  const std::string err = scratch.path("err");
  std::FILE* pipe = popen((command + " 2>" + err).c_str(), "r");
  REQUIRE(pipe != nullptr);
  Ran ran;
  char block[4096];
  for (ssize_t n = 1; n > 0;) {
    wait_for_bytes(fileno(pipe));
    n = read(fileno(pipe), block, sizeof block);
    if (n > 0) ran.out.append(block, static_cast<size_t>(n));
  }
  ran.status = plain(pclose(pipe));
  ran.err = text_of(err);
  return ran;
}

Ran run_grapevine(const std::string& arguments, const std::string& before) {
  const bool runs = arguments.starts_with("node ") || arguments.starts_with("launch ");
  const bool kept =
      arguments.find("--out") != std::string::npos || arguments.find("--save") != std::string::npos;
  return run_command(before + " " + kProgram + " " + arguments +
                     (runs && !kept ? " --no-save" : ""));
}

nlohmann::json json_of(const std::string& arguments) {
  const Ran ran = run_grapevine(arguments + " --json");
  INFO(arguments << "\n" << ran.err);
  REQUIRE(ran.status == 0);
  nlohmann::json object = nlohmann::json::parse(ran.out, nullptr, false);
  REQUIRE(object.is_object());
  return object;
}

void check_refused(const std::string& arguments, int status, const std::vector<std::string>& words,
                   const std::string& before) {
  const Ran ran = run_grapevine(arguments, before);
  INFO("grapevine " << arguments << "\n" << ran.err);
  CHECK(ran.status == status);
  CHECK(ran.out == "");
  CHECK(std::count(ran.err.begin(), ran.err.end(), '\n') == 1);
  CHECK(ran.err.rfind("grapevine: ", 0) == 0);
  for (const std::string& word : words)
    CHECK_THAT(ran.err, Catch::Contains(word));
}

Running::Running(const std::string& arguments) {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  child_ = fork();
  if (child_ == 0) {
    dup2(ends[1], STDERR_FILENO);
    close(ends[0]);
    close(ends[1]);
    const std::string command = "exec " + std::string(kProgram) + " " + arguments + " >/dev/null";
    execl("/bin/sh", "sh", "-c", command.c_str(), static_cast<char*>(nullptr));
    _exit(127);
  }
  REQUIRE(child_ > 0);
  close(ends[1]);
  errors_ = ends[0];
}

Running::~Running() {
  if (child_ > 0) {
    kill(child_, SIGKILL);
    end();
  }
  close(errors_);
}

bool Running::wait_for(const std::string& text) {
  std::string seen;
  for (char c; seen.find(text) == seen.npos; seen += c) {
    wait_for_bytes(errors_);
    if (read(errors_, &c, 1) != 1) return false;
  }
  return true;
}

void Running::signal(int number) const { REQUIRE(kill(child_, number) == 0); }

int Running::end() {
  char some[4096];
  do
    wait_for_bytes(errors_);
  while (read(errors_, some, sizeof some) > 0);
  int status = 0;
  waitpid(child_, &status, 0);
  child_ = 0;
  return plain(status);
}

SmallFiles::SmallFiles(rlim_t bytes) {
  REQUIRE(getrlimit(RLIMIT_FSIZE, &before_) == 0);
  const rlimit now{bytes, before_.rlim_max};
  REQUIRE(setrlimit(RLIMIT_FSIZE, &now) == 0);
}

SmallFiles::~SmallFiles() { setrlimit(RLIMIT_FSIZE, &before_); }

std::string text_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

bool exists(const std::string& path) { return std::filesystem::exists(path); }

}  // namespace grapevine::test
