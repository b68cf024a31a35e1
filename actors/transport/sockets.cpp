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

#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>

#include "actors/transport/local_socket.hpp"

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
  std::string host = address.substr(0, colon);
  if (host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);

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
    if (reach != Reach::network && !is_loopback(*one->ai_addr))
      return user_error(fmt::format(
          "listen {}: off loopback a run key is required (grapevine keygen makes one)", address));
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
    return Listening{fd, true, address.substr(0, colon + 1) + std::to_string(ntohs(port))};
  }
  return in_words(address, error);
}

std::string reachable(const std::string& address) {
  const size_t colon = address.rfind(':');
  const std::string host = address.substr(0, colon);
  const bool v6 = host == "[::]" || host == "::";
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
