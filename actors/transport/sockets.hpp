// Sockets for listening, made before an event loop uses them, so that a refusal is a value.
#pragma once
#include <string>
#include <vector>

#include "kernels/base/result.hpp"

struct sockaddr;

namespace grapevine {

struct Listening {
  int fd = -1;          // non-blocking; its taker closes it
  bool tcp = true;      // false: a unix socket
  std::string address;  // as given, with the actual port and IPv6 in brackets
};

/// The processes that may connect: those of this user (unix sockets), those of every user of this
/// machine (TCP on loopback), or those that have the run key.
enum class Reach { user, machine, network };

/// `address` is "host:port" or "unix:/path". Refuses, with one line, an address that does not
/// resolve, is in use, is no host's, or is beyond `reach`.
Result<Listening> listen_on(const std::string& address, Reach reach);

/// The address that other nodes can dial: a wildcard is replaced by an address of this host.
std::string reachable(const std::string& address);

/// Whether others can take it for the address of one host: a name, or an address (IPv6 in brackets)
/// that is neither 0.0.0.0 or [::], nor that of many hosts. Looks no name up.
bool is_host_of_others(const std::string& host);

/// Whether other nodes, or this one, can dial the address: "host:port" of such a host, with a port
/// above 0; to join, also "unix:/path". Errors (user): the option, the address, what is accepted.
Status check_advertised(const std::string& address);
Status check_joined(const std::string& address);

/// "host:port"; an IPv6 address in brackets.
std::string with_port(const std::string& host, int port);

/// The address to listen at for other hosts and this one. It is the given address, unless its host
/// is a name for loopback here (as a host's own name is on Debian): then it is all addresses of
/// this host. "localhost" and numeric addresses are unchanged.
std::string open_to_others(const std::string& address);

/// The address at which a process that joins `peers` ("host:port") listens: "host:0", with that on
/// the way to the first peer on another host. If all peers are on this host: loopback, or with
/// Reach::network all addresses, if the name of one is a host's (open_to_others). Empty: no peer
/// can be reached.
std::string own_address_towards(const std::vector<std::string>& peers, Reach reach);

/// A socket that is bound and listens; -1 with errno. `family` is that of the address. Only the
/// owner may use a path's file.
int bind_and_listen(int family, const sockaddr* address, unsigned size);

/// "10.0.0.1:7000", or "unix".
std::string address_text(const sockaddr&);

/// Raises the soft limit on open files to the hard one.
void raise_file_limit();

}  // namespace grapevine
