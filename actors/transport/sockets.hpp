// Sockets to listen on: made before any event loop sees them, so that a refusal is a value.
#pragma once
#include <string>
#include <vector>

#include "kernels/base/result.hpp"

struct sockaddr;

namespace grapevine {

struct Listening {
  int fd = -1;          // non-blocking; whoever takes it closes it
  bool tcp = true;      // else a unix socket
  std::string address;  // as it was given, with the actual port
};

/// The processes that may connect: those of this user (unix sockets), those of every user of this
/// machine (TCP on loopback), or those that have the run key.
enum class Reach { user, machine, network };

/// `address` is "host:port" or "unix:/path". Refuses, with one line, an address that does not
/// resolve, is in use, or is beyond `reach`.
Result<Listening> listen_on(const std::string& address, Reach reach);

/// The address that other nodes can dial: the same, with an address of this host in place of a
/// wildcard.
std::string reachable(const std::string& address);

/// The address to listen at for other hosts as well as for this one: the given address, but all
/// addresses of this host if the given host is a name that stands for loopback here (as a host's
/// own name does on Debian). "localhost" and addresses are unchanged.
std::string open_to_others(const std::string& address);

/// Where a process that joins `peers` ("host:port") listens: "host:0", with the address of this
/// host from which the first of them on another host is reached. Where all are on this host:
/// loopback, or with Reach::network all addresses, if the name of one is a host's (open_to_others).
/// Empty: there is no way to any.
std::string own_address_towards(const std::vector<std::string>& peers, Reach reach);

/// A socket that is bound and listens; -1 with errno. `family` of the address. A path's file is its
/// owner's alone.
int bind_and_listen(int family, const sockaddr* address, unsigned size);

/// "10.0.0.1:7000", or "unix".
std::string address_text(const sockaddr&);

/// The soft limit on open files becomes the hard one.
void raise_file_limit();

}  // namespace grapevine
