// What the examples share: an objective for some settings, or one line and the right exit status.
#pragma once
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "actors/run/run.hpp"

namespace grapevine::example {

template <class T>
T or_exit(Result<T> result) {
  if (result) return std::move(*result);
  std::fprintf(stderr, "%s\n", result.error().message.c_str());
  std::exit(result.error().exit_status());
}

inline std::shared_ptr<Objective> objective_for(const Settings& settings) {
  or_exit(check(settings));
  return or_exit(make_objective(settings));
}

}  // namespace grapevine::example
