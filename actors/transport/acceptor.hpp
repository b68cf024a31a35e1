// Acceptor: accepts the connections of a node. It survives floods, silence and "too many open
// files".
//
// The first bytes of a connection tell its kind: a bulk connection begins with one of the two words
// below, any other is for the control loop. Until then a connection costs a descriptor and a timer,
// but no buffer. Each connection that has not identified itself holds an AdmissionSlot; if none is
// free, new connections are closed at once.
#pragma once
#include <kj/async-io.h>
#include <kj/async-unix.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "actors/transport/loop.hpp"

namespace grapevine {

constexpr size_t kBulkWordBytes = 8;
constexpr char kPlainBulk[] = "GVBULK1\n", kEncryptedBulk[] = "GVBULKS\n";

using AdmissionSlot = std::shared_ptr<void>;

struct Knock {
  std::shared_ptr<kj::AutoCloseFd> fd;  // non-blocking
  enum class For {
    control,
    tls_control,
    plain_bulk,
    encrypted_bulk,
    another_user  // of this machine, at a unix socket: not read
  } what = For::control;
  std::string from;  // the other end's address
  AdmissionSlot slot;
};

class Acceptor final : kj::TaskSet::ErrorHandler {
 public:
  /// Takes the listening socket. `deadline_s` bounds the wait for the first bytes.
  Acceptor(int fd, Loop& loop, double deadline_s, std::function<void(Knock)> come_in);

 private:
  struct Sniff {
    kj::AutoCloseFd fd;
    kj::Own<kj::UnixEventPort::FdObserver> ready;
    std::string from;
    AdmissionSlot slot;
  };

  kj::Promise<void> run();
  kj::Promise<void> sniff(Sniff& stranger);
  void taskFailed(kj::Exception&&) override {}  // a connection that was too slow, or is gone

  static constexpr int kAdmissionSlots = 512;
  Loop& loop_;
  double deadline_s_;
  std::function<void(Knock)> come_in_;
  kj::AutoCloseFd port_;
  kj::UnixEventPort::FdObserver ready_;
  std::shared_ptr<std::atomic<int>> taken_ = std::make_shared<std::atomic<int>>(0);
  kj::TaskSet tasks_;  // last: destroyed first
};

}  // namespace grapevine
