// Whole files into memory, unpacked on the way.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/base/result.hpp"

namespace grapevine {

using Bytes = std::vector<uint8_t>;

/// The file's content; gzip and xz are told by their first bytes, not by the name, and unpacked.
/// Errors (world): it cannot be opened, the packed stream is cut or damaged, or it holds more than
/// `limit_bytes`.
Result<Bytes> read_whole_file(const std::string& path, size_t limit_bytes = size_t{1} << 30);

/// `folder`/`name`, or the same with .gz or .xz, whichever exists first; empty when none does.
std::string find_packed(const std::string& folder, const std::string& name);

/// 1234567 as 1,234,567.
std::string with_commas(size_t value);

/// 0.5 as 0.5, in six digits.
std::string in_digits(double value);

}  // namespace grapevine
