// Helper of the examples: the value of a result; on an error, prints its line and exits with its
// status.
#pragma once
#include <grapevine/grapevine.hpp>

#include <cstdio>
#include <cstdlib>

namespace grapevine::example {

template <class T>
T or_exit(Result<T> result) {
  if (result) return std::move(*result);
  std::fprintf(stderr, "%s\n", result.error().message.c_str());
  std::exit(result.error().exit_status());
}

}  // namespace grapevine::example
