// Streams: connections that we dial, and what every TCP stream of ours is set to.
#pragma once
#include <kj/async-io.h>
#include <kj/compat/tls.h>

#include <string>

#include "actors/transport/loop.hpp"

namespace grapevine {

/// "host:port" or "unix:/path"; with `tls`, a TCP stream is encrypted, and without it only loopback
/// is dialled.
kj::Promise<kj::AuthenticatedStream> connect_stream(Loop&, kj::TlsContext* tls,
                                                    const std::string& address);

inline bool is_path(const std::string& address) { return address.starts_with("unix:"); }

/// No delay; with `unacked_ms`, sent data that nobody acknowledges for so long ends the stream.
void set_options(kj::AsyncIoStream&, unsigned unacked_ms);

/// Why dialling failed, in our words where we have some.
std::string dial_reason_of(const kj::Exception&);

}  // namespace grapevine
