// Turns an exception in a thread's work into an error, so that the rest of the program continues.
#pragma once
#include <exception>
#include <new>
#include <string>
#include <system_error>

#include "kernels/base/result.hpp"

namespace grapevine {

/// The error for an exception of std::thread.
inline Error no_thread(const std::system_error& refused) {
  return world_error(
      std::string("cannot start a thread: ") + refused.what() +
      ", accepted: a larger limit of processes (ulimit -u, a container's pids) or of "
      "memory (ulimit -v)");
}

/// The Result of `work`, or its exception as an Error (world).
template <class Work>
auto caught(const Work& work) -> decltype(work()) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    return world_error(
        "memory has run out, or a limit of this process is too low (ulimit -v, a container's)");
  } catch (const std::system_error& thrown) {
    if (thrown.code() == std::errc::resource_unavailable_try_again) return no_thread(thrown);
    if (thrown.code() == std::errc::too_many_files_open)
      return world_error("too many files are open, accepted: a larger limit of them (ulimit -n)");
    return world_error(std::string("unexpected error: ") + thrown.what());
  } catch (const std::exception& thrown) {
    std::string line = thrown.what();
    for (char& c : line)
      if (c >= 0 && c < ' ') c = ' ';
    return world_error("unexpected error: " + line);
  } catch (...) {
    return world_error("unexpected error: the exception is not a std::exception");
  }
}

}  // namespace grapevine
