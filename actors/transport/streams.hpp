// Streams: connections that we dial, and what every TCP stream of ours is set to.
#pragma once
#include <kj/async-io.h>
#include <kj/compat/tls.h>

#include <string>

#include "actors/transport/loop.hpp"

namespace grapevine {

/// "host:port" or "unix:/path"; with `tls`, a TCP stream is encrypted, and without it only loopback
/// is dialled. Of a host with several addresses all are tried, from any one of them on.
kj::Promise<kj::AuthenticatedStream> connect_stream(Loop&, kj::TlsContext* tls,
                                                    const std::string& address);

/// The same, with a word of eight bytes in the clear before anything else.
kj::Promise<kj::AuthenticatedStream> connect_stream(Loop&, kj::TlsContext* tls,
                                                    const std::string& address, const char* word,
                                                    bool encrypt);

inline bool is_path(const std::string& address) { return address.starts_with("unix:"); }

/// No delay; sent data that nobody acknowledges for three seconds ends the stream. Streams that
/// connect_stream makes have this already.
void set_options(kj::AsyncIoStream&);

constexpr char kUnresolved[] = "the name does not resolve";

/// Why dialling failed, in our words where we have some.
std::string dial_reason_of(const kj::Exception&);

/// Of the written bytes; 0 if the socket cannot tell.
uint64_t acknowledged_bytes(kj::AsyncIoStream&);

}  // namespace grapevine
