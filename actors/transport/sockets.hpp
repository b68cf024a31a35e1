// Sockets to listen on: made before any event loop sees them, so that a refusal is a value.
#pragma once
#include <string>

#include "kernels/base/result.hpp"

struct sockaddr;

namespace grapevine {

struct Listening {
  int fd = -1;          // non-blocking; whoever takes it closes it
  bool tcp = true;      // else a unix socket
  std::string address;  // as it was given, with the actual port
};

/// Who may come: this user's processes alone (unix sockets), every user of this machine (TCP on
/// loopback), or whoever has the run key.
enum class Reach { user, machine, network };

/// `address` is "host:port" or "unix:/path". Refuses, with one line, what does not resolve, is in
/// use, or lies beyond `reach`.
Result<Listening> listen_on(const std::string& address, Reach reach);

/// What others can dial: the same, with an address of this host where it was a wildcard's.
std::string reachable(const std::string& address);

/// Where to listen for other hosts as for this one: the address as it was given; but where its host
/// is a name that stands for loopback here (as Debian has a host's own name), all addresses of this
/// host. "localhost" and addresses stand for themselves.
std::string open_to_others(const std::string& address);

/// "host:0" with the address of this host from which `peer` ("host:port") is reached; empty: there
/// is no way to it.
std::string own_address_towards(const std::string& peer);

/// A socket that is bound and listens; -1 with errno. `family` of the address. A path's file is its
/// owner's alone.
int bind_and_listen(int family, const sockaddr* address, unsigned size);

/// "10.0.0.1:7000", or "unix".
std::string address_text(const sockaddr&);

/// The soft limit on open files becomes the hard one.
void raise_file_limit();

}  // namespace grapevine
