#include "actors/transport/sockets.hpp"

#include <arpa/inet.h>
#include <fmt/core.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>

#include "actors/transport/local_socket.hpp"
#include "kernels/base/spec.hpp"

namespace grapevine {
namespace {

Error in_words(const std::string& address, int error) {
  return world_error(fmt::format("listen {}: {}", address, std::strerror(error)));
}

bool is_loopback(const sockaddr& address) {
  if (address.sa_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
    return ntohl(v4.sin_addr.s_addr) >> 24 == 127;
  }
  if (address.sa_family != AF_INET6) return true;
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address).sin6_addr;
  if (IN6_IS_ADDR_V4MAPPED(&v6)) return v6.s6_addr[12] == 127;
  return IN6_IS_ADDR_LOOPBACK(&v6);
}

uint32_t bits_of_v4(const sockaddr_in6& v6) {
  uint32_t bits;
  std::memcpy(&bits, v6.sin6_addr.s6_addr + 12, sizeof bits);
  return ntohl(bits);
}

// "All addresses of this host", to whoever listens.
bool is_wildcard(const sockaddr& address) {
  if (address.sa_family == AF_INET)
    return reinterpret_cast<const sockaddr_in&>(address).sin_addr.s_addr == INADDR_ANY;
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
  return IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr) ? bits_of_v4(v6) == INADDR_ANY
                                             : IN6_IS_ADDR_UNSPECIFIED(&v6.sin6_addr);
}

// Of IPv4: neither of a network that is not told (0.0.0.0 among them), nor of many hosts.
bool is_one_host(uint32_t v4) {
  return v4 >> 24 != 0 && !IN_MULTICAST(v4) && v4 != INADDR_BROADCAST;
}

bool is_one_host(const sockaddr& address) {
  if (address.sa_family == AF_INET)
    return is_one_host(ntohl(reinterpret_cast<const sockaddr_in&>(address).sin_addr.s_addr));
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
  if (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr)) return is_one_host(bits_of_v4(v6));
  return !IN6_IS_ADDR_UNSPECIFIED(&v6.sin6_addr) && !IN6_IS_ADDR_MULTICAST(&v6.sin6_addr);
}

bool is_link_local(const sockaddr& address) {
  if (address.sa_family != AF_INET6) return false;
  return IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<const sockaddr_in6&>(address).sin6_addr);
}

// The address of this host on the way to `peer` ("host:port").
std::optional<sockaddr_storage> source_towards(const std::string& peer) {
  const size_t colon = peer.rfind(':');
  if (colon == peer.npos) return std::nullopt;
  std::string host = peer.substr(0, colon);
  if (host.size() > 2 && host.front() == '[') host = host.substr(1, host.size() - 2);
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;  // connecting such a socket sends nothing
  addrinfo* list = nullptr;
  if (::getaddrinfo(host.c_str(), peer.substr(colon + 1).c_str(), &hints, &list) != 0)
    return std::nullopt;
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owned(list, ::freeaddrinfo);
  for (const addrinfo* one = list; one != nullptr; one = one->ai_next) {
    const int fd = ::socket(one->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) continue;
    sockaddr_storage own{};
    socklen_t size = sizeof own;
    auto* address = reinterpret_cast<sockaddr*>(&own);
    const bool known =
        ::connect(fd, one->ai_addr, one->ai_addrlen) == 0 && ::getsockname(fd, address, &size) == 0;
    ::close(fd);
    if (known) return own;
  }
  return std::nullopt;
}

constexpr char kOthersDial[] =
    "host:port, where host is the name or address of one machine (not 0.0.0.0 or ::; IPv6 in "
    "brackets) and port is from 1 to 65535";

bool is_tcp_of_others(const std::string& address) {
  const size_t colon = address.rfind(':');
  if (colon == address.npos || !is_host_of_others(address.substr(0, colon))) return false;
  const auto port = number_of<uint16_t>(std::string_view(address).substr(colon + 1));
  return port && *port > 0;
}

constexpr int kBacklog = 1024;

}  // namespace

int bind_and_listen(int family, const sockaddr* address, unsigned size) {
  const int fd = ::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  const int yes = 1;
  if (family != AF_UNIX) ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  // bind() creates the path with the mode of the socket (unix(7), Linux).
  if (family == AF_UNIX) ::fchmod(fd, 0600);
  if (::bind(fd, address, size) == 0 && ::listen(fd, kBacklog) == 0) return fd;
  const int error = errno;
  ::close(fd);
  errno = error;
  return -1;
}

Result<Listening> listen_on(const std::string& address, Reach reach) {
  if (address.starts_with("unix:")) return listen_on_path(address.substr(5));
  const size_t colon = address.rfind(':');
  if (colon == address.npos || colon == 0 || colon + 1 == address.size())
    return user_error(fmt::format("listen {}: accepted are host:port and unix:/path", address));
  if (!number_of<uint16_t>(std::string_view(address).substr(colon + 1)))  // else taken modulo 2^16
    return user_error(fmt::format("listen {}: accepted is a port from 0 (any) to 65535", address));
  std::string host = address.substr(0, colon);
  if (host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  if (host == "*")  // loopback, to a resolver
    return user_error(fmt::format(
        "listen {}: accepted is an address of this host, or 0.0.0.0 or [::] for all of them",
        address));

  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const int status = ::getaddrinfo(host.c_str(), address.c_str() + colon + 1, &hints, &list);
  if (status != 0) return user_error(fmt::format("listen {}: {}", address, ::gai_strerror(status)));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owned(list, ::freeaddrinfo);

  if (reach == Reach::user)
    return user_error(fmt::format(
        "listen {}: over TCP every user of this machine could stop the run, accepted: a run key "
        "(--key), a unix socket (unix:/path), or --no-key",
        address));

  int error = EADDRNOTAVAIL;
  for (const addrinfo* one = list; one != nullptr; one = one->ai_next) {
    if (!is_wildcard(*one->ai_addr) && !is_one_host(*one->ai_addr))
      return user_error(
          fmt::format("listen {}: nobody can connect to it, accepted: an address of "
                      "this host, or 0.0.0.0 or [::] for all of them",
                      address));
    if (reach != Reach::network && !is_loopback(*one->ai_addr))
      return user_error(fmt::format(
          "listen {}: not a loopback address, accepted: a run key with it (--key; grapevine keygen "
          "makes one)",
          address));
    const int fd = bind_and_listen(one->ai_family, one->ai_addr, one->ai_addrlen);
    if (fd < 0) {
      error = errno;
      continue;
    }
    sockaddr_storage actual{};
    socklen_t size = sizeof actual;
    ::getsockname(fd, reinterpret_cast<sockaddr*>(&actual), &size);
    const uint16_t port = actual.ss_family == AF_INET6
                              ? reinterpret_cast<sockaddr_in6&>(actual).sin6_port
                              : reinterpret_cast<sockaddr_in&>(actual).sin_port;
    if (is_wildcard(*one->ai_addr)) host = one->ai_family == AF_INET6 ? "::" : "0.0.0.0";
    return Listening{fd, true, with_port(host, ntohs(port))};
  }
  return in_words(address, error);
}

std::string reachable(const std::string& address) {
  const size_t colon = address.rfind(':');
  const std::string host = address.substr(0, colon);
  const bool v6 = host == "[::]";
  if (host != "0.0.0.0" && !v6) return address;
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return address;
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owned(list, ::freeifaddrs);
  // A socket at [::] also takes IPv4, by which more other hosts can reach it.
  for (const int family : {AF_INET, AF_INET6}) {
    if (family == AF_INET6 && !v6) continue;
    for (const ifaddrs* one = list; one != nullptr; one = one->ifa_next) {
      const sockaddr* at = one->ifa_addr;
      const bool is_there = at != nullptr && at->sa_family == family &&
                            (one->ifa_flags & IFF_UP) != 0 && !is_loopback(*at);
      if (!is_there || is_link_local(*at)) continue;
      const std::string text = address_text(*at);
      return text.substr(0, text.rfind(':')) + address.substr(colon);
    }
  }
  return (v6 ? "[::1]" : "127.0.0.1") + address.substr(colon);
}

bool is_host_of_others(const std::string& host) {
  const bool brackets = host.size() > 2 && host.front() == '[' && host.back() == ']';
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  if (brackets)
    return ::inet_pton(AF_INET6, host.substr(1, host.size() - 2).c_str(), &v6.sin6_addr) == 1 &&
           is_one_host(reinterpret_cast<const sockaddr&>(v6));
  const auto can_stand = [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '.' || c == '-' || c == '_';
  };
  if (host.empty() || !std::all_of(host.begin(), host.end(), can_stand)) return false;
  in_addr v4{};  // also "0", "127.1" and the like, as a resolver takes them
  return ::inet_aton(host.c_str(), &v4) == 0 || is_one_host(ntohl(v4.s_addr));
}

Status check_advertised(const std::string& address) {
  if (is_tcp_of_others(address)) return Done{};
  return user_error(fmt::format("advertise is \"{}\", accepted: {}", address, kOthersDial));
}

Status check_joined(const std::string& address) {
  const bool is_path = address.starts_with("unix:") && address.size() > 5;
  if (is_path || is_tcp_of_others(address)) return Done{};
  return user_error(
      fmt::format("join is \"{}\", accepted: unix:/path, or {}", address, kOthersDial));
}

std::string with_port(const std::string& host, int port) {
  const bool is_bare = host.find(':') != host.npos && host.front() != '[';
  return fmt::format("{}:{}", is_bare ? "[" + host + "]" : host, port);
}

std::string open_to_others(const std::string& address) {
  const size_t colon = address.rfind(':');
  if (colon == address.npos || address.starts_with("unix:")) return address;
  const std::string host = address.substr(0, colon);
  if (host.empty() || host == "localhost" || host.find(':') != host.npos) return address;
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  in_addr literal{};
  const bool is_literal = ::inet_pton(AF_INET, host.c_str(), &literal) == 1;
  if (is_literal || ::getaddrinfo(host.c_str(), nullptr, &hints, &list) != 0) return address;
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owned(list, ::freeaddrinfo);
  for (const addrinfo* one = list; one != nullptr; one = one->ai_next)
    if (!is_loopback(*one->ai_addr)) return address;
  return "0.0.0.0" + address.substr(colon);
}

std::string own_address_towards(const std::vector<std::string>& peers, Reach reach) {
  std::string here;
  for (const std::string& peer : peers) {
    const auto own = source_towards(peer);
    if (!own) continue;
    const std::string text = address_text(reinterpret_cast<const sockaddr&>(*own));
    const std::string any_port = text.substr(0, text.rfind(':')) + ":0";
    if (!is_loopback(reinterpret_cast<const sockaddr&>(*own))) return any_port;
    const bool is_of_host = reach == Reach::network && open_to_others(peer) != peer;
    if (is_of_host) here = "0.0.0.0:0";
    if (here.empty()) here = any_port;
  }
  return here;
}

std::string address_text(const sockaddr& address) {
  if (address.sa_family != AF_INET && address.sa_family != AF_INET6) return "unix";
  const socklen_t size = address.sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  char host[64], port[16];
  if (::getnameinfo(&address, size, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0)
    return "unknown";
  if (address.sa_family == AF_INET6) return fmt::format("[{}]:{}", host, port);
  return fmt::format("{}:{}", host, port);
}

void raise_file_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace grapevine
