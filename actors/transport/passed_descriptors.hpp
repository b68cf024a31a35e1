// Passed descriptors: a message over a unix socket, with descriptors.
#pragma once
#include <sys/uio.h>

#include <cstddef>
#include <span>

#include "kernels/base/descriptor.hpp"

namespace grapevine {

/// ::sendmsg of the pieces in one message, repeated after interrupts, without a signal if the peer
/// has gone. REQUIRES: at most 8 descriptors.
ssize_t send_passing(int socket, std::span<const iovec> pieces, std::span<const int> descriptors,
                     int flags = 0);

/// ::recvmsg of at most this many bytes, repeated after interrupts. Keeps the first passed
/// descriptor, if `kept` has none, and closes the others.
ssize_t receive_passed(int socket, void* to, size_t bytes, Descriptor& kept, int flags = 0);

}  // namespace grapevine
