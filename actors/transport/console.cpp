#include "actors/transport/console.hpp"

#include <fmt/core.h>
#include <condition_variable>
#include <deque>

#include "actors/transport/control_link.hpp"
#include "actors/transport/streams.hpp"
#include "actors/transport/tls.hpp"
#include "kernels/base/mutex.hpp"
#include "messages/control_codec.hpp"

namespace grapevine {
namespace {

constexpr char kName[] = "console";
constexpr size_t kQueuedBytes = 1 << 20;

}  // namespace

/// The link has its own loop. Here its messages pass to the caller's thread.
class Console::Impl {
 public:
  Impl(const std::string& at, const std::optional<RunKey>& key, double deadline_s) : address(at) {
    loop.call([&] {
      if (key) tls = make_tls(make_identity(*key, kName, NodeKey::generate()));
      connecting = kj::evalNow([&] {
                     return loop.timer().timeoutAfter(seconds(deadline_s),
                                                      connect_stream(loop, tls.get(), address));
                   }).then([this](kj::AuthenticatedStream stream) { adopt(kj::mv(stream)); });
      connecting =
          connecting.eagerlyEvaluate([this](kj::Exception&& e) { end(dial_reason_of(e)); });
    });
  }

  ~Impl() {
    loop.call([this] {
      if (link.get() != nullptr) {
        send(Bye{});
        link->finish();  // a short message fits into the socket
      }
      link = nullptr;
      connecting = nullptr;
      tls = nullptr;
    });
  }

  void adopt(kj::AuthenticatedStream stream) {
    outbox = std::make_shared<Outbox>(kQueuedBytes, [this] {
      loop.post([this] {
        if (link.get() != nullptr) link->flush();
      });
    });
    link = kj::heap<ControlLink>(
        kj::mv(stream.stream), false, outbox,
        ControlLink::Handlers{[this](std::span<const std::byte> bytes) { take(bytes); },
                              [this](const std::string& reason) { end(reason); }});
    link->set_limit(kControlBytes);
    link->start();
    Hello hello;
    hello.version = kConsoleVersion;
    hello.purpose = LinkPurpose::console;
    hello.node = kName;
    send(hello);
  }

  bool send(const ControlMessage& m) {
    const auto bytes = encode_control(m);
    return bytes && outbox != nullptr && outbox->push(*bytes);
  }

  void take(std::span<const std::byte> bytes) {
    auto m = decode_control(bytes);
    if (!m) return end(m.error().message);
    if (const auto* refusal = std::get_if<Refusal>(&*m)) return end(refusal->reason);
    const Lock lock(mutex);
    came.push_back(*std::move(m));
    changed.notify_all();
  }

  void end(const std::string& reason) {
    const Lock lock(mutex);
    if (ended.empty()) ended = reason;
    changed.notify_all();
  }

  Result<ControlMessage> next(double deadline_s) {
    Lock lock(mutex);
    const auto something = [this]() GV_REQUIRES(mutex) { return !came.empty() || !ended.empty(); };
    if (deadline_s <= 0) {
      changed.wait(lock, something);
    } else if (!changed.wait_for(lock, std::chrono::duration<double>(deadline_s), something)) {
      return world_error(address + ": no answer in time");
    }
    if (came.empty()) return world_error(fmt::format("{}: {}", address, ended));
    ControlMessage first = std::move(came.front());
    came.pop_front();
    return first;
  }

  const std::string address;
  Hello node;
  Mutex mutex;
  std::condition_variable changed;
  std::deque<ControlMessage> came GV_GUARDED_BY(mutex);
  std::string ended GV_GUARDED_BY(mutex);
  Loop loop;
  kj::Own<kj::TlsContext> tls;
  std::shared_ptr<Outbox> outbox;
  kj::Own<ControlLink> link;
  kj::Promise<void> connecting = nullptr;
};

Result<std::unique_ptr<Console>> Console::open(const std::string& address,
                                               const std::optional<RunKey>& key,
                                               double deadline_s) {
  auto impl = std::make_unique<Impl>(address, key, deadline_s);
  const auto first = impl->next(2 * deadline_s);
  if (!first) return first.error();
  const auto* hello = std::get_if<Hello>(&*first);
  if (hello == nullptr) return world_error(address + ": not a node of this program");
  if (hello->version < kOldestConsole || hello->version > kConsoleVersion)
    return world_error(fmt::format("{}: protocol version {}, accepted: {} to {}", address,
                                   hello->version, kOldestConsole, kConsoleVersion));
  impl->node = *hello;
  return std::unique_ptr<Console>(new Console(std::move(impl)));
}

Console::Console(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Console::~Console() = default;

const Hello& Console::node() const { return impl_->node; }

Status Console::ask(const ConsoleRequest& request,
                    const std::function<bool(const ConsoleReply&)>& part, double silence_s) {
  if (const Status valid = validate(request); !valid) return user_error(valid.error().message);
  if (!impl_->send(request)) return world_error(impl_->address + ": the node is gone");
  for (;;) {
    const auto next = impl_->next(silence_s);
    if (!next) return next.error();
    if (std::holds_alternative<Bye>(*next)) {
      if (silence_s <= 0) return Done{};
      return world_error(impl_->address + ": the node ends");
    }
    const auto* reply = std::get_if<ConsoleReply>(&*next);
    if (reply == nullptr)
      return world_error(
          fmt::format("{}: a {} instead of an answer", impl_->address, name_of(*next)));
    if (!part(*reply) || !reply->more) return Done{};
  }
}

}  // namespace grapevine
