#include "kernels/base/cores.hpp"

#include <sched.h>
#include <time.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <string>
#include <thread>

namespace grapevine {
namespace {

int cores_of_mask() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  if (::sched_getaffinity(0, sizeof mask, &mask) == 0) return CPU_COUNT(&mask);
  return static_cast<int>(std::thread::hardware_concurrency());  // more cores than a mask has bits
}

// "200000 100000": microseconds of quota and period; "max 100000": no limit.
int cores_of_quota(const std::string& file, int none) {
  std::ifstream text(file);
  double quota = 0, period = 0;
  if (!(text >> quota >> period) || !(quota > 0) || !(period > 0)) return none;
  return static_cast<int>(std::clamp(std::ceil(quota / period), 1.0, double{1 << 20}));
}

// With control groups of version 2, the line "0::/path" names our group. Each group above it has a
// limit, too.
std::string own_group() {
  std::ifstream lines("/proc/self/cgroup");
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with("0::/")) return line.substr(3);
  return {};
}

}  // namespace

int usable_cores() {
  int cores = cores_of_mask();
  for (std::string group = own_group();;) {
    cores = std::min(cores, cores_of_quota("/sys/fs/cgroup" + group + "/cpu.max", cores));
    if (group.empty()) break;
    group.resize(group.rfind('/'));
  }
  return std::max(1, cores);
}

double thread_cpu_s() {
  timespec at{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &at);
  return static_cast<double>(at.tv_sec) + 1e-9 * static_cast<double>(at.tv_nsec);
}

}  // namespace grapevine
