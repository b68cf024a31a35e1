// What the examples share: the value of a result, or its one line and the right exit status.
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
