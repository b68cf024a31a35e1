// Stranger: a plain blocking socket that connects to a node and sends what it likes.
#pragma once
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include "messages/control_codec.hpp"

namespace grapevine {

class Stranger {
 public:
  explicit Stranger(const std::string& address) : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    to.sin_port = htons(static_cast<uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
    open_ = ::connect(fd_, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0;
    const timeval limit{10, 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  }
  Stranger(Stranger&& other) noexcept : fd_(std::exchange(other.fd_, -1)), open_(other.open_) {}
  ~Stranger() {
    if (fd_ >= 0) ::close(fd_);
  }

  bool open() const { return open_; }
  int fd() const { return fd_; }
  bool say(const void* data, size_t size) {
    return ::send(fd_, data, size, MSG_NOSIGNAL) == static_cast<ssize_t>(size);
  }
  bool say(const ControlMessage& m) {
    const auto bytes = encode_control(m);
    return bytes && say(bytes->data(), bytes->size());
  }
  /// Reads until the node closes; false if it does not within ten seconds.
  bool is_closed() {
    char some[4096];
    for (;;) {
      const ssize_t n = ::recv(fd_, some, sizeof some, 0);
      if (n == 0) return true;
      if (n < 0) return errno == ECONNRESET;
    }
  }
  /// The next whole message; a Bye when there is none.
  ControlMessage hear() {
    uint32_t table[2] = {};
    if (::recv(fd_, table, sizeof table, MSG_PEEK | MSG_WAITALL) != sizeof table) return Bye{};
    std::vector<std::byte> bytes(8 + 8 * size_t{table[1]});
    if (::recv(fd_, bytes.data(), bytes.size(), MSG_WAITALL) != ssize_t(bytes.size())) return Bye{};
    auto m = decode_control(bytes);
    return m ? *std::move(m) : Bye{};
  }

 private:
  int fd_;
  bool open_ = false;
};

}  // namespace grapevine
