#include "actors/transport/sockets.hpp"

#include <fmt/core.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <openssl/rand.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "kernels/check.hpp"

namespace grapevine {
namespace {

constexpr char kNamePrefix[] = "grapevine-";
constexpr size_t kNameDigits = 32;
constexpr char kDigits[] = "0123456789abcdef";
constexpr int kBacklog = 1024;
constexpr int kFlags = SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC;

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

/// Bound and listening, or -1 with errno.
int bound(int family, const sockaddr* address, socklen_t size) {
  const int fd = ::socket(family, kFlags, 0);
  if (fd < 0) return -1;
  const int yes = 1;
  if (family != AF_UNIX) ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (::bind(fd, address, size) == 0 && ::listen(fd, kBacklog) == 0) return fd;
  const int error = errno;
  ::close(fd);
  errno = error;
  return -1;
}

socklen_t name_into(sockaddr_un& to, const std::string& name) {
  to = {};
  to.sun_family = AF_UNIX;
  std::memcpy(to.sun_path + 1, name.data(), std::min(name.size(), sizeof to.sun_path - 1));
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
}

Result<Listening> listen_on_path(const std::string& address) {
  const std::string path = address.substr(5);
  sockaddr_un to{};
  to.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof to.sun_path)
    return user_error(fmt::format("listen {}: a path of {} bytes, accepted: 1 to {}", address,
                                  path.size(), sizeof to.sun_path - 1));
  std::memcpy(to.sun_path, path.data(), path.size());
  const auto* as = reinterpret_cast<const sockaddr*>(&to);
  int fd = bound(AF_UNIX, as, sizeof to);
  if (fd < 0 && errno == EADDRINUSE) {
    const int probe = ::socket(AF_UNIX, kFlags, 0);
    const bool stale = probe >= 0 && ::connect(probe, as, sizeof to) != 0 && errno == ECONNREFUSED;
    if (probe >= 0) ::close(probe);
    errno = EADDRINUSE;
    if (stale && ::unlink(path.c_str()) == 0) fd = bound(AF_UNIX, as, sizeof to);
  }
  if (fd < 0) return in_words(address, errno);
  return Listening{fd, false, address};
}

}  // namespace

Result<Listening> listen_on(const std::string& address, bool off_loopback) {
  if (address.starts_with("unix:")) return listen_on_path(address);
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

  int error = EADDRNOTAVAIL;
  for (const addrinfo* one = list; one != nullptr; one = one->ai_next) {
    if (!off_loopback && !is_loopback(*one->ai_addr))
      return user_error(fmt::format(
          "listen {}: off loopback a run key is required (grapevine keygen makes one)", address));
    const int fd = bound(one->ai_family, one->ai_addr, one->ai_addrlen);
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
  if (host != "0.0.0.0" && host != "[::]" && host != "::") return address;
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return address;
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owned(list, ::freeifaddrs);
  for (const ifaddrs* one = list; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || one->ifa_addr->sa_family != AF_INET ||
        (one->ifa_flags & IFF_UP) == 0 || is_loopback(*one->ifa_addr))
      continue;
    const std::string text = address_text(*one->ifa_addr);
    return text.substr(0, text.rfind(':')) + address.substr(colon);
  }
  return "127.0.0.1" + address.substr(colon);
}

Result<Listening> listen_on_name(const std::string& name) {
  sockaddr_un to;
  const socklen_t size = name_into(to, name);
  const int fd = bound(AF_UNIX, reinterpret_cast<const sockaddr*>(&to), size);
  if (fd < 0) return in_words("@" + name, errno);
  return Listening{fd, false, name};
}

std::string random_name() {
  unsigned char bytes[kNameDigits / 2];
  GV_CHECK(RAND_bytes(bytes, sizeof bytes) == 1);
  std::string name = kNamePrefix;
  for (const unsigned char byte : bytes) {
    name += kDigits[byte >> 4];
    name += kDigits[byte & 15];
  }
  return name;
}

bool is_random_name(const std::string& name) {
  return name.size() == sizeof kNamePrefix - 1 + kNameDigits && name.starts_with(kNamePrefix) &&
         name.find_first_not_of(kDigits, sizeof kNamePrefix - 1) == name.npos;
}

int connect_to_name(const std::string& name) {
  const int fd = ::socket(AF_UNIX, kFlags, 0);
  if (fd < 0) return -1;
  sockaddr_un to;
  const socklen_t size = name_into(to, name);
  if (::connect(fd, reinterpret_cast<const sockaddr*>(&to), size) == 0) return fd;
  ::close(fd);
  return -1;
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
