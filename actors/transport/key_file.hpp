// Files with a secret of 32 bytes, which only their owner may read.
#pragma once
#include <array>
#include <cstdint>
#include <string>

#include "kernels/base/result.hpp"

namespace grapevine {

using Secret = std::array<uint8_t, 32>;

/// The words for a file: its kind, for errors; the start of its line; the command that writes such
/// files.
struct SecretKind {
  const char* name;
  const char* prefix;
  const char* writer;
  bool is_guarded;  // a file that others may read is refused
};

/// From the system's randomness.
Secret random_secret();

/// One line: the prefix and 64 hexadecimal digits. Refuses, without quoting it, a file that is
/// missing, that others may read although it is guarded, that is cut, or that has other contents.
Result<Secret> read_secret(const SecretKind&, const std::string& path);
/// Only its owner may read it (mode 0600). Refuses a file that exists.
Status write_secret(const SecretKind&, const Secret&, const std::string& path);

}  // namespace grapevine
