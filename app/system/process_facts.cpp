#include "app/system/process_facts.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>

namespace grapevine {
namespace {

// Field 22 of /proc/self/stat, after the program's name, which may have spaces: ticks after the
// machine's start.
double seconds_since_start() {
  std::ifstream file("/proc/self/stat");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  std::istringstream fields(text.substr(text.rfind(')') + 1));
  std::string field;
  for (int k = 3; k < 22; ++k)
    fields >> field;
  double ticks = 0, up_s = 0;
  fields >> ticks;
  std::ifstream("/proc/uptime") >> up_s;
  return up_s - ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
}

}  // namespace

ProcessFacts process_facts() {
  using std::chrono::duration;
  ProcessFacts facts;
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  facts.cpu_s = seconds(usage.ru_utime) + seconds(usage.ru_stime);
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  facts.started_s = duration<double>(now).count() - seconds_since_start();
  uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages >> pages;
  facts.resident_bytes = pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  std::error_code failed;
  std::filesystem::directory_iterator files("/proc/self/fd", failed);
  if (!failed) facts.open_files = static_cast<uint64_t>(std::distance(begin(files), end(files)));
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  facts.most_files = limit.rlim_cur;
  return facts;
}

}  // namespace grapevine
