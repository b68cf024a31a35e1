// Says aloud what a test does not show here, and why. `./test` shows and counts these lines.
#pragma once
#include <iostream>
#include <string>

#include "tests/catch.hpp"

namespace grapevine::test {

/// One line, with the name of the test that runs. What is not shown has not been checked: the test
/// goes on with the rest, or returns.
inline void skipped(const std::string& why) {
  std::cout << "SKIPPED: " << Catch::getResultCapture().getCurrentTestName() << ": " << why
            << std::endl;
}

}  // namespace grapevine::test
