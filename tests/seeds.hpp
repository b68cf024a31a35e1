// Which seeds a test of many takes: GRAPEVINE_SEED=17 that one alone, GRAPEVINE_SEEDS=1000 the
// first so many, else the usual number of them.
#pragma once
#include <cstdint>
#include <cstdlib>

namespace grapevine::test {

struct Seeds {
  uint64_t first = 1, last = 0;
  bool alone = false;
};

inline Seeds seeds_wanted(uint64_t usual) {
  const auto number = [](const char* text) { return uint64_t{std::strtoull(text, nullptr, 10)}; };
  if (const char* one = std::getenv("GRAPEVINE_SEED")) return {number(one), number(one), true};
  if (const char* many = std::getenv("GRAPEVINE_SEEDS")) return {1, number(many)};
  return {1, usual};
}

}  // namespace grapevine::test
