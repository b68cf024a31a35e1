// Sockets to listen on: made before any event loop sees them, so that a refusal is a value.
#pragma once
#include <string>

#include "kernels/result.hpp"

struct sockaddr;

namespace grapevine {

struct Listening {
  int fd = -1;          // non-blocking; whoever takes it closes it
  bool tcp = true;      // else a unix socket
  std::string address;  // as it was given, with the actual port
};

/// `address` is "host:port" or "unix:/path". Refuses, with one line, what does not resolve, is in
/// use, or lies off loopback where that is not allowed. A socket file that nobody serves any more
/// is replaced.
Result<Listening> listen_on(const std::string& address, bool off_loopback);

/// What others can dial: the same, with an address of this host where it was a wildcard's.
std::string reachable(const std::string& address);

/// On a name in the network namespace's own (abstract) space: no file, gone with the process.
Result<Listening> listen_on_name(const std::string& name);
std::string random_name();
/// One that such a node made, whatever a message says.
bool is_random_name(const std::string& name);

/// A connection to such a name, non-blocking; -1 where nobody listens.
int connect_to_name(const std::string& name);

/// "10.0.0.1:7000", or "unix".
std::string address_text(const sockaddr&);

/// The soft limit on open files becomes the hard one.
void raise_file_limit();

}  // namespace grapevine
