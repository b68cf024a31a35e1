// Which seeds a test of many takes: GRAPEVINE_SEED=17 that one alone, GRAPEVINE_SEEDS=1000 the
// first so many, or as many from GRAPEVINE_FIRST_SEED on, else the usual number of them.
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
  const char* many = std::getenv("GRAPEVINE_SEEDS");
  const char* from = std::getenv("GRAPEVINE_FIRST_SEED");
  const uint64_t first = from != nullptr ? number(from) : 1;
  return {first, first + (many != nullptr ? number(many) : usual) - 1};
}

}  // namespace grapevine::test
