#include "kernels/base/memory_left.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <sstream>
#include <vector>

namespace grapevine {
namespace {

constexpr uint64_t kUnlimited = std::numeric_limits<uint64_t>::max();
constexpr uint64_t kNoLimit = uint64_t{1} << 62;  // version 1 writes a number of this size

/// The folders of the process's control groups for one controller, from the root down. For both
/// versions: /proc/self/cgroup has "0::/path" for version 2, "4:memory:/path" for version 1.
std::vector<std::string> group_folders(const std::string& controller) {
  std::vector<std::string> folders;
  std::ifstream file("/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == line.npos) continue;
    const std::string names = "," + line.substr(first + 1, second - first - 1) + ",";
    const bool is_second_version = names == ",,";
    if (!is_second_version && names.find("," + controller + ",") == names.npos) continue;
    const std::string root = is_second_version ? "/sys/fs/cgroup" : "/sys/fs/cgroup/" + controller;
    folders.push_back(root);
    const std::string path = line.substr(second + 1);
    for (size_t at = path.find('/', 1); path.size() > 1; at = path.find('/', at + 1)) {
      folders.push_back(root + path.substr(0, at));
      if (at == path.npos) break;
    }
  }
  return folders;
}

std::optional<uint64_t> number_in(const std::string& path) {
  uint64_t value = 0;
  return std::ifstream(path) >> value ? std::optional(value) : std::nullopt;
}

/// The number after a name in a file whose lines are "name number"; 0: there is none.
uint64_t number_named(const std::string& path, const std::string& name) {
  std::ifstream file(path);
  std::string word;
  for (uint64_t value = 0; file >> word >> value; file.ignore(64, '\n'))
    if (word == name) return value;
  return 0;
}

struct GroupMemory {
  uint64_t limit, left;
};

/// Nothing: the group has no limit. What the group's files keep in memory can be given back.
std::optional<GroupMemory> memory_of_group(const std::string& folder) {
  auto limit = number_in(folder + "/memory.max");
  auto used = number_in(folder + "/memory.current");
  if (!limit) limit = number_in(folder + "/memory.limit_in_bytes");
  if (!used) used = number_in(folder + "/memory.usage_in_bytes");
  if (!limit || *limit >= kNoLimit) return std::nullopt;
  const uint64_t files = std::max(number_named(folder + "/memory.stat", "inactive_file"),
                                  number_named(folder + "/memory.stat", "total_inactive_file"));
  const uint64_t taken = used.value_or(0) - std::min(used.value_or(0), files);
  return GroupMemory{*limit, *limit - std::min(*limit, taken)};
}

uint64_t left_of_address_space() {
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return kUnlimited;
  const uint64_t taken =
      number_in("/proc/self/statm").value_or(0) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  return limit.rlim_cur - std::min<uint64_t>(limit.rlim_cur, taken);
}

}  // namespace

uint64_t memory_left() {
  uint64_t left = left_of_address_space();
  if (const uint64_t kib = number_named("/proc/meminfo", "MemAvailable:"); kib > 0)
    left = std::min(left, kib << 10);
  for (const std::string& folder : group_folders("memory"))
    if (const auto group = memory_of_group(folder)) left = std::min(left, group->left);
  return left;
}

std::optional<uint64_t> group_memory_limit() {
  std::optional<uint64_t> least;
  for (const std::string& folder : group_folders("memory"))
    if (const auto group = memory_of_group(folder))
      least = std::min(least.value_or(kUnlimited), group->limit);
  return least;
}

std::optional<double> group_core_limit() {
  std::optional<double> least;
  const auto see = [&least](double quota, double period) {
    if (quota > 0 && period > 0) least = std::min(least.value_or(quota / period), quota / period);
  };
  for (const std::string& folder : group_folders("cpu")) {
    double quota = 0, period = 0;
    if (std::ifstream(folder + "/cpu.max") >> quota >> period) see(quota, period);
    const bool first_version = std::ifstream(folder + "/cpu.cfs_quota_us") >> quota &&
                               std::ifstream(folder + "/cpu.cfs_period_us") >> period;
    if (first_version) see(quota, period);
  }
  return least;
}

}  // namespace grapevine
