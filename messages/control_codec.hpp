// The control codec: ControlMessage to bytes and back, by the Cap'n Proto schema in control.capnp.
//
// A message is validated once: the result of decode_control needs no further check. Both directions
// use the same rules, so no message is sent that a peer would refuse.
#pragma once
#include <cstddef>
#include <span>
#include <vector>

#include "kernels/base/result.hpp"
#include "messages/control.hpp"

namespace grapevine {

/// At most kControlBytes, in Cap'n Proto's stream framing: a multiple of eight bytes. Refuses, with
/// one line, what decode_control would refuse.
Result<std::vector<std::byte>> encode_control(const ControlMessage&);

/// `bytes` is one complete message. Refuses, with one line that quotes only numbers of the message:
/// more than kControlBytes; a malformed or cut message, or one with bytes after it; an unknown kind
/// or enumerator; a string or list above its bound; a string that is not printable ASCII; a rate
/// that is negative or not finite; a frame's header that decode() refuses or that announces a
/// payload. Never throws, and allocates nothing before the bounds are checked.
Result<ControlMessage> decode_control(std::span<const std::byte> bytes);

/// Checks the strings, lists and numbers of a message against their bounds.
Status validate(const ControlMessage&);

/// "hello", "membership", ...: for counters and refusals.
const char* name_of(const ControlMessage&);

}  // namespace grapevine
