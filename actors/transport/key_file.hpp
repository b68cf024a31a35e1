// Files that hold a secret of 32 bytes, for their owner's eyes alone.
#pragma once
#include <array>
#include <cstdint>
#include <string>

#include "kernels/base/result.hpp"

namespace grapevine {

using Secret = std::array<uint8_t, 32>;

/// The texts about a file: its kind, for errors; the word at the beginning of its line; the command
/// that writes such files.
struct SecretKind {
  const char* name;
  const char* prefix;
  const char* writer;
  bool is_guarded;  // a file that others may read is refused
};

/// From the system's randomness.
Secret random_secret();

/// One line, the prefix and 64 hexadecimal digits. Refuses, without quoting it: a file that is not
/// there, that others may read where it is guarded, or that is cut or anything else.
Result<Secret> read_secret(const SecretKind&, const std::string& path);
/// For its owner alone (mode 0600). Refuses a file that exists.
Status write_secret(const SecretKind&, const Secret&, const std::string& path);

}  // namespace grapevine
