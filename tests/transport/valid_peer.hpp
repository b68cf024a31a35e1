// A valid peer whose every byte is a test's: its control link, and its connections for payloads.
#pragma once
#include <fcntl.h>

#include <string>
#include <vector>

#include "actors/transport/acceptor.hpp"
#include "actors/transport/local_socket.hpp"
#include "actors/transport/outgoing_payload.hpp"
#include "actors/transport/passed_descriptors.hpp"
#include "tests/signing.hpp"
#include "tests/transport/stranger.hpp"
#include "tests/transport/tools.hpp"

namespace grapevine {

inline Hello hello(const std::string& name, uint32_t incarnation = 1) {
  Hello h;
  h.node = name;
  h.incarnation = incarnation;
  h.run = "test";
  h.key = test::key_of(name).public_key();
  h.challenge = {7};
  return h;
}

/// Of who has said `mine` and heard `theirs`.
inline Agree agree(const Hello& mine, const ControlMessage& theirs) {
  REQUIRE(std::holds_alternative<Hello>(theirs));
  return {test::key_of(mine.node).sign(link_bytes(mine, std::get<Hello>(theirs)))};
}

/// A peer that has shaken hands; `a` has the lower name.
inline Stranger peer_of(TestNode& a, const std::string& name) {
  Stranger s(a.address());
  REQUIRE(s.say(hello(name)));
  const ControlMessage theirs = s.hear();
  REQUIRE(s.say(agree(hello(name), theirs)));
  REQUIRE(std::holds_alternative<Agree>(s.hear()));
  REQUIRE(a.wait_up(name));
  return s;
}

/// Shows a token, by TCP and in the clear.
inline Stranger knock_for_bulk(const std::string& address, uint64_t token) {
  Stranger s(address);
  BulkRecord mine;
  mine.value = token;
  REQUIRE(s.say(kPlainBulk, kBulkWordBytes));
  REQUIRE(s.say(&mine, sizeof mine));
  return s;
}

/// The far end of a bulk connection on one host, where descriptors can be passed.
class BulkPeer {
 public:
  explicit BulkPeer(const BulkToken& token) : fd_(connect_to_name(token.same_host)) {
    REQUIRE(fd_ >= 0);
    REQUIRE(::fcntl(fd_, F_SETFL, 0) == 0);  // blocking
    const timeval limit{10, 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    BulkRecord hello;
    hello.value = token.token;
    REQUIRE(::send(fd_, kPlainBulk, kBulkWordBytes, MSG_NOSIGNAL) == ssize_t(kBulkWordBytes));
    say(hello);
    REQUIRE(::recv(fd_, &hello, sizeof hello, MSG_WAITALL) == ssize_t(sizeof hello));
  }
  ~BulkPeer() { ::close(fd_); }
  BulkPeer(const BulkPeer&) = delete;

  void say(const BulkRecord& record, int passed_fd = -1) {
    const iovec piece{const_cast<BulkRecord*>(&record), sizeof record};
    const std::span<const int> passed(&passed_fd, passed_fd >= 0 ? 1 : 0);
    REQUIRE(send_passing(fd_, {&piece, 1}, passed) == ssize_t(sizeof record));
  }
  void say(uint16_t kind, uint64_t value, const HeaderBytes& header = {}, int passed_fd = -1) {
    BulkRecord record;
    record.kind = kind;
    record.value = value;
    record.header = header;
    say(record, passed_fd);
  }
  void say_half_a_record() {
    const BulkRecord record;
    REQUIRE(::send(fd_, &record, sizeof record / 2, MSG_NOSIGNAL) == ssize_t(sizeof record / 2));
  }
  /// The next record; false when there is none within ten seconds.
  bool hear(BulkRecord& record) {
    return ::recv(fd_, &record, sizeof record, MSG_WAITALL) == ssize_t(sizeof record);
  }
  /// The same, with the descriptor that came along.
  Descriptor hear_descriptor(BulkRecord& record) {
    Descriptor passed;
    REQUIRE(receive_passed(fd_, &record, sizeof record, passed) == ssize_t(sizeof record));
    REQUIRE(static_cast<bool>(passed));
    return passed;
  }
  /// The next record, with the descriptor that came along, if one did.
  bool hear_with_descriptor(BulkRecord& record, Descriptor& passed) {
    return receive_passed(fd_, &record, sizeof record, passed) == ssize_t(sizeof record);
  }
  void skip(size_t bytes) {
    std::vector<std::byte> some(bytes);
    REQUIRE(::recv(fd_, some.data(), bytes, MSG_WAITALL) == static_cast<ssize_t>(bytes));
  }
  bool is_closed() {
    BulkRecord record;
    ssize_t n = 1;
    while (n > 0)
      n = ::recv(fd_, &record, sizeof record, 0);
    return n == 0 || errno == ECONNRESET;
  }

 private:
  int fd_;
};

}  // namespace grapevine
