#include "actors/transport/passed_descriptors.hpp"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "kernels/base/check.hpp"

namespace grapevine {

namespace {

constexpr size_t kMostPassed = 8;  // at the same time; the system closes the rest

struct Room {
  alignas(cmsghdr) char bytes[CMSG_SPACE(kMostPassed * sizeof(int))] = {};
};

void take_passed(msghdr& message, Descriptor& kept) {
  for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t k = 0; k < count; ++k) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(c) + k * sizeof fd, sizeof fd);
      Descriptor one(fd);
      if (!kept) kept = std::move(one);
    }
  }
}

}  // namespace

ssize_t send_passing(int socket, std::span<const iovec> pieces, std::span<const int> descriptors,
                     int flags) {
  GV_CHECK(descriptors.size() <= kMostPassed);
  Room room;
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(pieces.data());
  message.msg_iovlen = pieces.size();
  if (!descriptors.empty()) {
    message.msg_control = room.bytes;
    message.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
    cmsghdr* const head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(descriptors.size_bytes());
    std::memcpy(CMSG_DATA(head), descriptors.data(), descriptors.size_bytes());
  }
  ssize_t sent = 0;
  do {
    sent = ::sendmsg(socket, &message, flags | MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  return sent;
}

ssize_t receive_passed(int socket, void* to, size_t bytes, Descriptor& kept, int flags) {
  iovec piece{to, bytes};
  Room room;
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = room.bytes;
  message.msg_controllen = sizeof room.bytes;
  ssize_t got = 0;
  do {
    got = ::recvmsg(socket, &message, flags | MSG_CMSG_CLOEXEC);
  } while (got < 0 && errno == EINTR);
  if (got >= 0) take_passed(message, kept);
  return got;
}

}  // namespace grapevine
