// Shared by the tests of kernels: filled vectors, their numbers, and a child process that is meant
// to die.
#pragma once
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "kernels/base/random.hpp"
#include "kernels/memory/vec.hpp"

namespace grapevine::testing {

/// A buffer of numbers in [-2, 2); `stream` tells vectors of one test apart.
inline Buffer random_buffer(size_t size, DType dtype, uint64_t stream) {
  Buffer buffer(size, dtype);
  Random random(7, 0, Purpose::test, stream);
  for (size_t i = 0; i < size; ++i) {
    const double value = random.uniform(-2, 2);
    if (dtype == DType::f32) {
      buffer.vec().as<float>()[i] = static_cast<float>(value);
    } else {
      buffer.vec().as<double>()[i] = value;
    }
  }
  return buffer;
}

inline double element(const ConstVec& v, size_t i) {
  return v.dtype == DType::f32 ? static_cast<double>(v.as<float>()[i]) : v.as<double>()[i];
}

inline std::vector<double> numbers(const ConstVec& v) {
  std::vector<double> out(v.size);
  for (size_t i = 0; i < v.size; ++i) out[i] = element(v, i);
  return out;
}

inline double rounding(DType dtype) { return dtype == DType::f32 ? 0x1p-24 : 0x1p-53; }

/// Runs `body` in a child process and returns what it wrote to stderr; empty unless it ended by
/// abort().
template <class Body> std::string last_words(const Body& body) {
  int ends[2];
  if (pipe(ends) != 0) return {};
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    close(ends[0]);
    signal(SIGABRT, SIG_DFL);  // the test program's own handler would report a failure
    body();
    _exit(0);
  }
  close(ends[1]);
  std::string words;
  char chunk[512];
  for (ssize_t n; (n = read(ends[0], chunk, sizeof chunk)) > 0;) {
    words.append(chunk, static_cast<size_t>(n));
  }
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT ? words : std::string();
}

}  // namespace grapevine::testing
