// Facts about this process from the system, for monitoring.
#pragma once
#include <cstdint>

namespace grapevine {

struct ProcessFacts {
  double cpu_s = 0;      // of all threads together
  double started_s = 0;  // seconds since 1970
  uint64_t resident_bytes = 0;
  uint64_t open_files = 0, most_files = 0;
};

ProcessFacts process_facts();

}  // namespace grapevine
