// RunKey: the one secret that the nodes of a run share. A value.
//
// Whoever holds it can be any node of the run: it makes every node's certificate (see tls.hpp). It
// never appears in a message of ours, and a file with it is for its owner's eyes alone.
#pragma once
#include <array>
#include <cstdint>
#include <string>

#include "kernels/base/result.hpp"

namespace grapevine {

class RunKey {
 public:
  /// From the system's randomness.
  static RunKey generate();
  /// One line, "grapevine-run-key-1 " and 64 hexadecimal digits. Refuses, without quoting it: a
  /// file that is not there, that others may read, or that is cut or anything else.
  static Result<RunKey> read(const std::string& path);
  /// For its owner alone (mode 0600). Refuses a file that exists.
  Status write(const std::string& path) const;

  const std::array<uint8_t, 32>& secret() const { return secret_; }
  bool operator==(const RunKey&) const = default;

 private:
  explicit RunKey(const std::array<uint8_t, 32>& secret) : secret_(secret) {}
  std::array<uint8_t, 32> secret_;
};

}  // namespace grapevine
