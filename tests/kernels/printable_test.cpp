// Text from anybody, and what of the machine's memory is left.
#include "kernels/base/printable.hpp"

#include <sys/resource.h>

#include "kernels/base/memory_left.hpp"
#include "tests/catch.hpp"

using namespace grapevine;

TEST_CASE("text that is UTF-8 is printed as it is, and nothing else reaches a terminal") {
  for (const std::string good :
       {"", "plain", "caf\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x8d\x87", "a b~"})
    CHECK(printable(good) == good);
  CHECK(printable("caf\xe9.csv") == "caf\\xe9.csv");
  CHECK(printable("\x1b[2J\a\r\n\t\x7f") == "\\x1b[2J\\x07\\x0d\\x0a\\x09\\x7f");
  CHECK(printable("\xc2\x9b"
                  "2J") ==
        "\\xc2\\x9b"
        "2J");  // a control character of two bytes
  CHECK(printable(std::string("a\0b", 3)) == "a\\x00b");
  for (const std::string bad : {"\xff", "\x80", "\xc3", "\xc0\xaf", "\xe0\x80\x80", "\xed\xa0\x80",
                                "\xf4\x90\x80\x80", "\xf8\x88\x80\x80\x80", "\xe2\x82"}) {
    INFO(printable(bad));
    CHECK(utf8_length(bad) == 0u);
    CHECK(printable(bad).find_first_not_of("\\x0123456789abcdef") == std::string::npos);
  }
}

TEST_CASE("memory that is left is no more than the machine has, and than a limit of this process") {
  const uint64_t left = memory_left();
  CHECK(left > 0u);
  CHECK(left < uint64_t{1} << 50);
  rlimit before{};
  getrlimit(RLIMIT_AS, &before);
  constexpr uint64_t kMost = uint64_t{3} << 30;
  const rlimit now{kMost, before.rlim_max};
  REQUIRE(setrlimit(RLIMIT_AS, &now) == 0);
  const uint64_t limited = memory_left();
  setrlimit(RLIMIT_AS, &before);
  CHECK(limited < kMost);
  if (const auto cores = group_core_limit()) CHECK(*cores > 0);
  if (const auto limit = group_memory_limit()) CHECK(*limit > 0u);
}
