// The memory that a process may still allocate.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

namespace grapevine {

/// Bytes that this process may still allocate: the least of the machine's free memory, the limits
/// of its control groups (a container's limit) and the rest of its address space (ulimit -v).
uint64_t memory_left();

/// The least limit of memory among the control groups that this process is in, from its own to the
/// root's; nothing: there is none.
std::optional<uint64_t> group_memory_limit();

/// The least number of cores that those groups grant at a time; nothing: no limit.
std::optional<double> group_core_limit();

}  // namespace grapevine
