// RunKey: the secret that the nodes of a run share. A value.
//
// A process with this key can act as any node of the run: it can make every node's certificate (see
// tls.hpp). The key is in no message of ours, and only its owner may read its file.
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
  /// One line: "grapevine-run-key-1 " and 64 hexadecimal digits. Refuses, without quoting it, a
  /// file that is missing, that others may read, that is cut, or that has other contents.
  static Result<RunKey> read(const std::string& path);
  /// Only its owner may read it (mode 0600). Refuses a file that exists.
  Status write(const std::string& path) const;

  const std::array<uint8_t, 32>& secret() const { return secret_; }
  bool operator==(const RunKey&) const = default;

 private:
  explicit RunKey(const std::array<uint8_t, 32>& secret) : secret_(secret) {}
  std::array<uint8_t, 32> secret_;
};

}  // namespace grapevine
