// Says that it is opened, and does no more.
#include <cstdio>

namespace {
const bool kSaid = std::puts(WHAT " is opened") >= 0 && std::fflush(stdout) == 0;
}  // namespace
