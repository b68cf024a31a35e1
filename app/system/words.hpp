// Numbers and times for people.
#pragma once
#include <cstdint>
#include <string>

namespace grapevine {

std::string with_commas(double);          // 12,642: rounded to a whole number
std::string as_percent(double fraction);  // 91.32 %; n/a if it is not finite
std::string as_seconds(double seconds);   // 84 ms, 12.3 s, 2 min 05 s
std::string as_bytes(double bytes);       // 3.4 GB
std::string as_short(double value);       // 1.2e-7, 0.31, 42; n/a
std::string as_hex(uint64_t hash);        // 16 digits
std::string as_epoch(uint64_t epoch);     // 3, or 257-c0c2: the number of changes, and a hash

/// The present time: 2024-03-01T12:00:00Z, or in strftime's `format`.
std::string utc_now(const char* format = "%Y-%m-%dT%H:%M:%SZ");

}  // namespace grapevine
