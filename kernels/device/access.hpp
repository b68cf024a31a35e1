// The memory that a piece of work on a device uses. A plain struct: the sources for newer
// instruction sets read it, too (kernels/passes/passes.hpp).
#pragma once
#include <cstddef>
#include <cstdint>

namespace grapevine {

/// How a piece of work uses a range of memory.
struct Access {
  enum Mode : uint8_t {
    reads,
    writes,  // all of it, without reading the old content
    updates
  };
  const void* data = nullptr;  // null: an optional vector that is absent
  size_t bytes = 0;
  Mode mode = Mode::reads;
};

}  // namespace grapevine
