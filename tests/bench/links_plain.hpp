// The baseline of the links' bench: blocking sockets on loopback; and the summary of times.
#pragma once
#include <cstddef>
#include <functional>
#include <vector>

namespace grapevine {

double now_s();
double cpu_s();  // of this process so far
double median(std::vector<double>);
double quantile(std::vector<double>, double q);

/// Seconds of each of `n` pings of 64 bytes.
std::vector<double> plain_pings(int n);
/// Round trips per second with `window` in flight.
double plain_rate(int n, int window);
/// One payload after another, each answered by a byte; `both`: as many the other way at once, on a
/// connection of their own. Payload bytes per second and direction.
double plain_bulk(size_t bytes, int n, bool both);

/// Two threads copy a vector and mix another into it, `n` times, and nothing travels: the floor of
/// an exchange. Seconds each.
double copy_and_mix(size_t elements, int n);

/// Prints the medians of interleaved rounds, the median of their ratios, and whether it is what is
/// `wanted`: at most that for a time, at least that for a rate. The ratio of the processor time of
/// the whole process; where `gigabytes` travel in one call, that time for each of them, too.
void compare(const char* what, const char* unit, double scale, bool time, double wanted, int rounds,
             const std::function<double()>& plain, const std::function<double()>& link,
             double gigabytes = 0);

}  // namespace grapevine
