#include "actors/transport/acceptor.hpp"

#include <kj/debug.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "actors/transport/local_socket.hpp"

namespace grapevine {
namespace {

constexpr char kTlsHandshake = 0x16;  // the first byte of a TLS connection

}  // namespace

Acceptor::Acceptor(int fd, Loop& loop, double deadline_s, std::function<void(Knock)> come_in)
    : loop_(loop),
      deadline_s_(deadline_s),
      come_in_(std::move(come_in)),
      port_(fd),
      ready_(loop.io().unixEventPort, fd, kj::UnixEventPort::FdObserver::OBSERVE_READ),
      tasks_(*this) {
  tasks_.add(run());
}

kj::Promise<void> Acceptor::run() {
  for (int taken = 0; taken < 64; ++taken) {
    sockaddr_storage from{};
    socklen_t size = sizeof from;
    const int fd =
        ::accept4(port_, reinterpret_cast<sockaddr*>(&from), &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) {
      if (errno == EAGAIN) return ready_.whenBecomesReadable().then([this] { return run(); });
      if (errno == EINTR || errno == ECONNABORTED) continue;
      // Out of descriptors or memory: tries again later.
      return loop_.timer().afterDelay(seconds(0.1)).then([this] { return run(); });
    }
    kj::AutoCloseFd owned(fd);
    if (*taken_ >= kAdmissionSlots) continue;
    ++*taken_;
    AdmissionSlot slot(nullptr, [taken = taken_](void*) { --*taken; });
    if (!is_of_this_user(fd)) {
      come_in_({std::make_shared<kj::AutoCloseFd>(kj::mv(owned)), Knock::For::another_user,
                address_text(reinterpret_cast<const sockaddr&>(from)), std::move(slot)});
      continue;
    }
    auto ready = kj::heap<kj::UnixEventPort::FdObserver>(
        loop_.io().unixEventPort, fd, kj::UnixEventPort::FdObserver::OBSERVE_READ);
    auto stranger = kj::heap<Sniff>(Sniff{kj::mv(owned), kj::mv(ready),
                                          address_text(reinterpret_cast<const sockaddr&>(from)),
                                          std::move(slot)});
    auto& at = *stranger;
    tasks_.add(
        loop_.timer().timeoutAfter(seconds(deadline_s_), sniff(at)).attach(kj::mv(stranger)));
  }
  return kj::evalLast([this] { return run(); });  // lets other work of the loop run
}

kj::Promise<void> Acceptor::sniff(Sniff& stranger) {
  std::array<char, kBulkWordBytes> word;
  const ssize_t n = ::recv(stranger.fd, word.data(), word.size(), MSG_PEEK | MSG_DONTWAIT);
  if (n == 0 || (n < 0 && errno != EAGAIN)) return kj::READY_NOW;
  if (n < 0 || (word[0] == 'G' && n < static_cast<ssize_t>(word.size())))
    return stranger.ready->whenBecomesReadable().then(
        [this, &stranger] { return sniff(stranger); });
  auto what = Knock::For::control;
  if (word[0] == kTlsHandshake) {
    what = Knock::For::tls_control;
  } else if (word[0] == 'G') {
    const std::string_view said(word.data(), word.size());
    if (said == kPlainBulk) {
      what = Knock::For::plain_bulk;
    } else if (said == kEncryptedBulk) {
      what = Knock::For::encrypted_bulk;
    } else {
      return kj::READY_NOW;
    }
    if (::recv(stranger.fd, word.data(), word.size(), MSG_DONTWAIT) !=
        static_cast<ssize_t>(word.size()))
      return kj::READY_NOW;
  }
  // Later, so that this observer can be destroyed first: two must not watch one descriptor.
  return kj::evalLater([this, &stranger, what] {
    stranger.ready = nullptr;
    come_in_({std::make_shared<kj::AutoCloseFd>(kj::mv(stranger.fd)), what,
              std::move(stranger.from), std::move(stranger.slot)});
  });
}

}  // namespace grapevine
