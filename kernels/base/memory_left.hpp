// The memory that a process may still allocate.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

namespace grapevine {

/// Bytes that this process may still allocate: the minimum of the machine's free memory, the limits
/// of its control groups (a container's limit) and the rest of its address space (ulimit -v).
uint64_t memory_left();

/// The smallest memory limit of the process's control groups, from its own to the root; empty:
/// there is none.
std::optional<uint64_t> group_memory_limit();

/// The smallest number of cores that those groups allow; empty: no limit.
std::optional<double> group_core_limit();

}  // namespace grapevine
