// Every: the interval between repeated actions of a run: "60s", "1000steps" or "0".
#pragma once
#include <cstdint>
#include <string>

#include "kernels/base/result.hpp"

namespace grapevine {

struct Every {
  double seconds = 0;  // of the run's clock; 0: not by time
  uint64_t steps = 0;  // gradients of each rank; 0: not by gradients

  explicit operator bool() const { return seconds > 0 || steps > 0; }
};

/// `option`: the name of the option. "" means "0": never. Error (user): the accepted values.
Result<Every> every_of(const char* option, const std::string& text);

}  // namespace grapevine
