// Turns an exception in a thread's work into an error that says so, so that the rest of the program
// continues.
#pragma once
#include <exception>
#include <new>
#include <string>

#include "kernels/base/result.hpp"

namespace grapevine {

/// The Result of `work`, or its exception as an error of the world.
template <class Work>
auto caught(const Work& work) -> decltype(work()) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    return world_error(
        "memory has run out, or a limit of this process is too low (ulimit -v, a container's)");
  } catch (const std::exception& thrown) {
    std::string line = thrown.what();
    for (char& c : line)
      if (c >= 0 && c < ' ') c = ' ';
    return world_error("something unforeseen has happened: " + line);
  } catch (...) {
    return world_error("something unforeseen has happened");
  }
}

}  // namespace grapevine
