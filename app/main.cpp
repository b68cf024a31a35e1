// The program `grapevine`: runs the command of the command line and returns its exit status.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <string_view>

#include "app/commands/command_line.hpp"
#include "app/launch/guard.hpp"
#include "app/output/log.hpp"
#include "app/run/interrupts.hpp"
#include "kernels/base/caught.hpp"
#include "kernels/gpu/cuda_device.hpp"
#include "models/heap.hpp"

namespace {

using namespace grapevine;

int refuse(const LogOptions& log, const Error& error) {
  Log(log).refuse(error.message);
  return error.exit_status();
}

// For a command line that is refused: it has no options yet.
LogOptions log_wanted(int argc, char** argv) {
  constexpr std::string_view kOption = "--log-format", kJson = "json";
  LogOptions log;
  for (int k = 1; k < argc; ++k) {
    const std::string_view word = argv[k], next = k + 1 < argc ? argv[k + 1] : "";
    const bool joined = word.starts_with(kOption) && word.substr(kOption.size()) == "=json";
    if (joined || (word == kOption && next == kJson)) log.format = LogFormat::json;
  }
  return log;
}

Result<int> run(int argc, char** argv) {
  CommandLine line = read_command_line(argc, argv);
  if (const auto* text = std::get_if<std::string>(&line)) {
    std::fputs(text->c_str(), stdout);
    return 0;
  }
  if (const auto* error = std::get_if<Error>(&line)) return refuse(log_wanted(argc, argv), *error);
  auto& invocation = std::get<Invocation>(line);
  const LogOptions log = invocation.options.log;
  for (const std::string& warning : invocation.options.warnings)
    Log(log).warn(warning);
  if (invocation.drains) count_interrupts(log);
  const Result<int> status = caught([&] { return invocation.run(std::move(invocation.options)); });
  return status ? *status : refuse(log, status.error());
}

// Opens /dev/null in place of a closed standard stream. Otherwise a file of the run would get the
// stream's number, and messages would be written into it.
void open_closed_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (fcntl(stream, F_GETFD) < 0 && open("/dev/null", O_RDWR) < 0) return;
}

// Whether printed text was lost. It is not lost if the reader closed its pipe.
bool is_lost(std::FILE* printed) {
  struct stat about {};
  const bool failed = std::fflush(printed) != 0 || std::ferror(printed) != 0;
  return failed && fstat(fileno(printed), &about) == 0 && !S_ISFIFO(about.st_mode) &&
         !S_ISSOCK(about.st_mode);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 2 && std::string_view(argv[1]) == kGuard) return guard({argv + 2, argv + argc});
  open_closed_streams();
  let_writes_fail();
  prepare_heap();
  prepare_cuda();
  const Result<int> status = caught([&] { return run(argc, argv); });
  if (!status) return refuse(log_wanted(argc, argv), status.error());
  if (*status != 0 || !is_lost(stdout)) return *status;
  return refuse(log_wanted(argc, argv),
                world_error("standard output cannot be written, so the printed text is incomplete, "
                            "accepted: a disk with space"));
}
