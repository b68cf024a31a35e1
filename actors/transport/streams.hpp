// Streams: connections that we dial, and the options of all our TCP streams.
#pragma once
#include <kj/async-io.h>
#include <kj/compat/tls.h>

#include <string>

#include "actors/transport/loop.hpp"

namespace grapevine {

/// "host:port" or "unix:/path". With `tls` a TCP stream is encrypted; without it only loopback is
/// dialled. If a host has several addresses, all are tried, starting at a random one.
kj::Promise<kj::AuthenticatedStream> connect_stream(Loop&, kj::TlsContext* tls,
                                                    const std::string& address);

/// The same, with an unencrypted word of eight bytes before all other data.
kj::Promise<kj::AuthenticatedStream> connect_stream(Loop&, kj::TlsContext* tls,
                                                    const std::string& address, const char* word,
                                                    bool encrypt);

inline bool is_path(const std::string& address) { return address.starts_with("unix:"); }

/// No delay; data that is not acknowledged for three seconds ends the stream. Streams of
/// connect_stream have these options already.
void set_options(kj::AsyncIoStream&);

constexpr char kUnresolved[] = "the name does not resolve";

/// Why dialling failed, in our words if we know the error.
std::string dial_reason_of(const kj::Exception&);

/// Of the written bytes; 0 if the socket does not tell.
uint64_t acknowledged_bytes(kj::AsyncIoStream&);

}  // namespace grapevine
