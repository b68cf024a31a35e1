// Passed descriptors: a message over a unix socket, and descriptors beside it.
#pragma once
#include <sys/uio.h>

#include <cstddef>
#include <span>

#include "kernels/base/descriptor.hpp"

namespace grapevine {

/// As ::sendmsg of the pieces in one message, but not interrupted, and no signal tells of a peer
/// that has gone. REQUIRES: at most 8 descriptors.
ssize_t send_passing(int socket, std::span<const iovec> pieces, std::span<const int> descriptors,
                     int flags = 0);

/// As ::recvmsg of so many bytes at most, but not interrupted. Of the descriptors that a peer has
/// passed the first is kept, if `kept` has none, and whatever else came is closed.
ssize_t receive_passed(int socket, void* to, size_t bytes, Descriptor& kept, int flags = 0);

}  // namespace grapevine
