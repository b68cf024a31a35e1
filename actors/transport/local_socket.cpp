#include "actors/transport/local_socket.hpp"

#include <fmt/core.h>
#include <openssl/rand.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "kernels/base/check.hpp"
#include "kernels/base/printable.hpp"
#include "kernels/memory/hash.hpp"

namespace grapevine {
namespace {

namespace fs = std::filesystem;

constexpr char kNamePrefix[] = "grapevine-", kNameLetters[] = "0123456789abcdef";
constexpr char kEnding[] = ".sock";
constexpr size_t kNameDigits = 32, kMostPathBytes = sizeof(sockaddr_un::sun_path) - 1;
constexpr size_t kMostNameBytes = 40;  // in a file's name, which also has a process and an ending
constexpr size_t kMostFileBytes = kMostNameBytes + sizeof "/.4194304.sock";
constexpr int kFlags = SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC;

Error path_error(const std::string& path, int error) {
  return world_error(fmt::format("listen unix:{}: {}", path, std::strerror(error)));
}

/// REQUIRES: the path fits.
sockaddr_un address_of(const std::string& path) {
  GV_CHECK(path.size() <= kMostPathBytes);
  sockaddr_un to{};
  to.sun_family = AF_UNIX;
  std::memcpy(to.sun_path, path.data(), path.size());
  return to;
}

Status fits(const std::string& path) {
  if (!path.empty() && path.size() <= kMostPathBytes) return Done{};
  return user_error(fmt::format("listen unix:{}: a path of {} bytes, accepted: 1 to {}", path,
                                path.size(), kMostPathBytes));
}

int bound(const std::string& path) {
  const sockaddr_un to = address_of(path);
  return bind_and_listen(AF_UNIX, reinterpret_cast<const sockaddr*>(&to), sizeof to);
}

enum class Served { yes, no, unknown };

Served served(const std::string& path) {
  const int probe = ::socket(AF_UNIX, kFlags, 0);
  if (probe < 0) return Served::unknown;
  const sockaddr_un to = address_of(path);
  const bool connected = ::connect(probe, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0;
  const int error = errno;
  ::close(probe);
  if (connected || error == EAGAIN) return Served::yes;
  return error == ECONNREFUSED ? Served::no : Served::unknown;
}

socklen_t name_into(sockaddr_un& to, const std::string& name) {
  to = {};
  to.sun_family = AF_UNIX;
  std::memcpy(to.sun_path + 1, name.data(), std::min(name.size(), sizeof to.sun_path - 1));
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
}

/// The node's name in the name of a socket file, without the process and the ending.
std::string node_of(const std::string& file) {
  const std::string stem = file.substr(0, file.size() - sizeof kEnding + 1);
  return stem.substr(0, stem.rfind('.'));
}

std::vector<std::string> sockets_in(const std::string& folder) {
  std::vector<std::string> files;
  std::error_code failed;
  for (fs::directory_iterator at(folder, failed), end; !failed && at != end; at.increment(failed)) {
    std::string file = at->path().filename().string();
    const bool fits = folder.size() + 1 + file.size() <= kMostPathBytes;
    if (fits && file.ends_with(kEnding)) files.push_back(std::move(file));
  }
  std::sort(files.begin(), files.end());
  return files;
}

/// Folders for local sockets; the first usable one is used. A runtime folder is not usable if it
/// leaves no room for a name in a socket's address, or if its name is not text.
std::vector<std::string> folders() {
  std::vector<std::string> all;
  const char* const runtime = std::getenv("XDG_RUNTIME_DIR");
  const std::string given = runtime != nullptr ? runtime : "";
  struct stat about {};
  const bool is_folder = ::stat(given.c_str(), &about) == 0 && S_ISDIR(about.st_mode) &&
                         ::access(given.c_str(), R_OK | W_OK | X_OK) == 0;
  if (given.starts_with('/') && is_folder && printable(given) == given &&
      given.size() + sizeof "/grapevine" - 1 + kMostFileBytes <= kMostPathBytes)
    all.push_back(given + "/grapevine");
  all.push_back(fmt::format("/tmp/grapevine-{}", ::geteuid()));
  return all;
}

}  // namespace

bool is_of_this_user(int fd) {
  sockaddr_storage own{};
  socklen_t size = sizeof own;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&own), &size) != 0) return false;
  if (own.ss_family != AF_UNIX) return true;
  ucred peer{};
  size = sizeof peer;
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return false;
  return peer.uid == ::geteuid() || peer.uid == 0;
}

std::string local_name(const std::string& name) {
  std::string plain = name;
  std::replace(plain.begin(), plain.end(), '/', '-');
  if (plain.size() <= kMostNameBytes) return plain;
  const std::string hash = fmt::format("-{:016x}", fnv1a(name));
  return plain.substr(0, kMostNameBytes - hash.size()) + hash;
}

bool remove_socket(const std::string& path) {
  struct stat about {};
  return ::lstat(path.c_str(), &about) == 0 && S_ISSOCK(about.st_mode) &&
         ::unlink(path.c_str()) == 0;
}

Result<std::string> local_folder() {
  const std::string folder = folders().front();
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
    return world_error(fmt::format("cannot make the folder of local sockets, {}: {}", folder,
                                   std::strerror(errno)));
  struct stat about {};
  const bool is_folder = ::lstat(folder.c_str(), &about) == 0 && S_ISDIR(about.st_mode);
  if (is_folder && about.st_uid == ::geteuid() && (about.st_mode & 077) == 0) return folder;
  return world_error(fmt::format(
      "the folder of local sockets, {}, is not this user's alone, accepted: a folder of mode 0700 "
      "that the user owns",
      folder));
}

Result<Listening> listen_locally(const std::string& name) {
  const auto folder = local_folder();
  if (!folder) return folder.error();
  for (const std::string& file : sockets_in(*folder)) {
    const std::string path = *folder + "/" + file;
    if (served(path) == Served::no) remove_socket(path);
  }
  // Other processes remove sockets on which no process listens, so the ending is added last.
  const std::string made = fmt::format("{}/{}.{}", *folder, local_name(name), ::getpid());
  const std::string path = made + kEnding;
  if (Status s = fits(path); !s) return s.error();
  remove_socket(made);
  const int fd = bound(made);
  if (fd < 0) return path_error(path, errno);
  if (::rename(made.c_str(), path.c_str()) == 0) return Listening{fd, false, "unix:" + path};
  const int error = errno;
  ::close(fd);
  remove_socket(made);
  return path_error(path, error);
}

Result<Listening> listen_on_path(const std::string& path) {
  if (Status s = fits(path); !s) return s.error();
  int fd = bound(path);
  if (fd < 0 && errno == EADDRINUSE) {
    struct stat about {};
    if (::lstat(path.c_str(), &about) == 0 && !S_ISSOCK(about.st_mode))
      return user_error(
          fmt::format("listen unix:{}: there is a file that is no socket, accepted: a path where "
                      "nothing is, or "
                      "a socket that nobody serves",
                      path));
    const bool stale = served(path) == Served::no;
    errno = EADDRINUSE;
    if (stale && remove_socket(path)) fd = bound(path);
  }
  if (fd < 0) return path_error(path, errno);
  return Listening{fd, false, "unix:" + path};
}

Result<std::string> find_local(const std::string& name) {
  if (const auto folder = local_folder(); !folder) return folder.error();
  std::vector<std::string> found;
  std::string others;
  // A node that was started in another environment may use another folder; nodes of this
  // environment come first.
  for (const std::string& folder : folders()) {
    for (const std::string& file : sockets_in(folder)) {
      const std::string path = folder + "/" + file;
      if (served(path) != Served::yes) continue;
      if (node_of(file) == local_name(name)) found.push_back("unix:" + path);
      others += (others.empty() ? "" : ", ") + node_of(file);
    }
    if (!found.empty()) break;
  }
  if (found.size() == 1) return found.front();
  if (found.empty())
    return user_error(
        fmt::format("no node \"{}\" on this machine, accepted: {}", name,
                    others.empty() ? "host:port or unix:/path, none listens locally" : others));
  std::string all;
  for (const std::string& address : found)
    all += (all.empty() ? "" : ", ") + address;
  return user_error(fmt::format("several nodes \"{}\" on this machine, accepted: {}", name, all));
}

Result<Listening> listen_on_name(const std::string& name) {
  sockaddr_un to;
  const socklen_t size = name_into(to, name);
  const int fd = bind_and_listen(AF_UNIX, reinterpret_cast<const sockaddr*>(&to), size);
  if (fd < 0) return world_error(fmt::format("listen @{}: {}", name, std::strerror(errno)));
  return Listening{fd, false, name};
}

std::string random_name() {
  unsigned char bytes[kNameDigits / 2];
  GV_CHECK(RAND_bytes(bytes, sizeof bytes) == 1);
  std::string name = kNamePrefix;
  for (const unsigned char byte : bytes)
    name += fmt::format("{:02x}", byte);
  return name;
}

bool is_random_name(const std::string& name) {
  return name.size() == sizeof kNamePrefix - 1 + kNameDigits && name.starts_with(kNamePrefix) &&
         name.find_first_not_of(kNameLetters, sizeof kNamePrefix - 1) == name.npos;
}

int connect_to_name(const std::string& name) {
  const int fd = ::socket(AF_UNIX, kFlags, 0);
  if (fd < 0) return -1;
  sockaddr_un to;
  const socklen_t size = name_into(to, name);
  if (::connect(fd, reinterpret_cast<const sockaddr*>(&to), size) == 0 && is_of_this_user(fd))
    return fd;
  ::close(fd);
  return -1;
}

}  // namespace grapevine
