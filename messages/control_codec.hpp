// The control codec: ControlMessage to bytes and back, by the Cap'n Proto schema in control.capnp.
//
// A message is validated here, once: what decode_control returns needs no further check. Both
// directions judge by the same rules, so nothing is sent that a peer would refuse.
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

/// `bytes` is one whole message. Refuses, with one line that quotes nothing of the message but
/// numbers: more than kControlBytes, a malformed or cut message or one with something after it, an
/// unknown kind or enumerator, a string or list above its bound, a string that is not printable
/// ASCII, a number that is not finite or negative where a rate is meant, a frame's header that
/// decode refuses or that announces a payload. Never throws, and allocates nothing before the
/// bounds hold.
Result<ControlMessage> decode_control(std::span<const std::byte> bytes);

/// The bounds of the strings, lists and numbers of a message that exists as a value.
Status validate(const ControlMessage&);

/// "hello", "membership", ...: for counters and refusals.
const char* name_of(const ControlMessage&);

}  // namespace grapevine
