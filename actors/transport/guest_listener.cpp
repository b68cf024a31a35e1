#include "actors/transport/guest_listener.hpp"

#include <fmt/core.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <system_error>

#include "actors/transport/local_socket.hpp"
#include "actors/transport/passed_descriptors.hpp"
#include "kernels/base/caught.hpp"
#include "kernels/base/check.hpp"

namespace grapevine {
namespace {

using Steady = std::chrono::steady_clock;

constexpr int kPatience_ms = 5000;
constexpr int kRest_ms = 100;  // pause when out of descriptors or memory
constexpr char kSocketEnding[] = ".door";

/// A descriptor of the connected process, as long as it is alive; -1 if the system has none.
int watch_process(int process) {
  if (process <= 0) return -1;
  return static_cast<int>(::syscall(SYS_pidfd_open, process, 0u));
}

int peer_process(int fd) {
  ucred peer{};
  socklen_t size = sizeof peer;
  return ::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 ? peer.pid : 0;
}

struct ScriptsBound {
  size_t scripts;
  std::string reason;  // why so few; empty: kScripts
};

/// Leaves at least half of the descriptors for links, consoles and files.
ScriptsBound bound_of_scripts() {
  constexpr rlim_t kOfEach = 4;  // the socket, the process, the front and a stored object
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  const auto some = std::max<size_t>(1, limit.rlim_cur / 2 / kOfEach);
  if (some >= GuestListener::kScripts) return {GuestListener::kScripts, ""};
  return {some, fmt::format(" with {} descriptors (ulimit -n)", limit.rlim_cur)};
}

bool asks(GuestKind kind) {
  switch (kind) {
    case GuestKind::join:
    case GuestKind::step:
    case GuestKind::mean:
    case GuestKind::keep:
    case GuestKind::kept:
    case GuestKind::finish:
    case GuestKind::checkpoint:
    case GuestKind::share:
    case GuestKind::report:
    case GuestKind::leave: return true;
    default: return false;
  }
}

}  // namespace

// --- memory for requests

std::shared_ptr<const void> LongRequests::take(uint64_t bytes, Steady::time_point until) {
  Lock lock(mutex_);
  const bool fits = changed_.wait_until(
      lock, until, [&]() GV_REQUIRES(mutex_) { return closed_ || used_ + bytes <= kAll; });
  if (!fits || closed_) return nullptr;
  used_ += bytes;
  lock.unlock();
  return {this, [this, bytes](const void*) {
            const Lock giving(mutex_);
            used_ -= bytes;
            changed_.notify_all();
          }};
}

void LongRequests::close() {
  const Lock lock(mutex_);
  closed_ = true;
  changed_.notify_all();
}

// --- a script

/// Until `until`, which is set by the first byte if there is none: that may take any time.
bool GuestConnection::receive(void* to, size_t bytes, Descriptor& beside,
                              std::optional<Steady::time_point>& until) {
  auto* at = static_cast<char*>(to);
  for (size_t got = 0; got < bytes;) {
    pollfd ready{socket_.fd(), POLLIN, 0};
    if (until) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(*until - Steady::now());
      if (::poll(&ready, 1, static_cast<int>(std::max<int64_t>(0, left.count()))) <= 0)
        return false;
    }
    const ssize_t n = receive_passed(socket_.fd(), at + got, bytes - got, beside);
    if (n <= 0) return false;
    got += static_cast<size_t>(n);
    if (!until) until = Steady::now() + std::chrono::milliseconds(kPatience_ms);
  }
  return true;
}

bool GuestConnection::first(GuestQuestion& question) {
  pollfd ready{socket_.fd(), POLLIN, 0};
  if (::poll(&ready, 1, kPatience_ms) == 0)
    return refuse(fmt::format("no join in {} s", kPatience_ms / 1000));
  return next(question);
}

bool GuestConnection::next(GuestQuestion& question) {
  question = {};
  question.text.shrink_to_fit();  // the assignment keeps its memory
  GuestRecordBytes bytes;
  std::optional<Steady::time_point> until;  // for all of the question
  if (!receive(bytes.data(), bytes.size(), question.descriptor, until)) return false;
  const auto record = decode_guest(bytes);
  if (!record) return refuse(record.error().message);
  if (!asks(record->kind))
    return refuse(fmt::format("record refused: kind {}, accepted: a question",
                              static_cast<int>(record->kind))),
           false;
  question.record = *record;
  if (record->kind != GuestKind::join && record->kind != GuestKind::report) return true;
  if (record->count > LongRequests::kShort) {
    constexpr std::chrono::milliseconds kPatience{kPatience_ms};
    question.memory = long_requests_.take(record->count, Steady::now() + kPatience);
    if (!question.memory)
      return refuse(
          fmt::format("{} bytes of text while other scripts send long ones, accepted: "
                      "at most {}, or the same later",
                      record->count, LongRequests::kShort));
    until = Steady::now() + kPatience;
  }
  // Memory grows with the bytes that arrive, not with the announced ones.
  constexpr size_t kChunk = 1 << 16;
  while (question.text.size() < record->count) {
    const size_t before = question.text.size();
    question.text.resize(before + std::min<size_t>(kChunk, record->count - before));
    Descriptor none;
    if (!receive(question.text.data() + before, question.text.size() - before, none, until))
      return false;
  }
  return true;
}

bool GuestConnection::answer(GuestRecord record, std::string_view text, int fd) {
  if (!text.empty()) record.count = text.size();
  const GuestRecordBytes bytes = encode(record);
  const iovec parts[] = {{const_cast<std::byte*>(bytes.data()), bytes.size()},
                         {const_cast<char*>(text.data()), text.size()}};
  const std::span<const int> passed(&fd, fd >= 0 ? 1 : 0);
  const ssize_t sent = send_passing(socket_.fd(), parts, passed);
  return sent == static_cast<ssize_t>(bytes.size() + text.size());
}

bool GuestConnection::refuse(const std::string& why) {
  GuestRecord record;
  record.kind = GuestKind::refused;
  answer(record, std::string_view(why).substr(0, kGuestTextBytes));
  hang_up();
  return false;
}

bool GuestConnection::gone() const {
  pollfd end{socket_.fd(), POLLRDHUP, 0};
  return ::poll(&end, 1, 0) > 0 && (end.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

void GuestConnection::hang_up() { ::shutdown(socket_.fd(), SHUT_RDWR); }

// --- the listener

Result<std::unique_ptr<GuestListener>> GuestListener::open(const std::string& path,
                                                           const std::string& name, Serve serve) {
  std::string at = path.starts_with("unix:") ? path.substr(5) : path;
  if (at.empty()) {
    const auto folder = local_folder();
    if (!folder) return folder.error();
    at = *folder + "/" + local_name(name) + kSocketEnding;
  }
  auto listening = listen_on_path(at);
  if (!listening) return listening.error();
  auto made = caught([&]() -> Result<std::unique_ptr<GuestListener>> {
    return std::unique_ptr<GuestListener>(
        new GuestListener(at, Descriptor(listening->fd), std::move(serve)));
  });
  if (!made) remove_socket(at);
  return made;
}

GuestListener::GuestListener(std::string path, Descriptor listener, Serve serve)
    : path_(std::move(path)),
      listener_(std::move(listener)),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      serve_(std::move(serve)) {
  if (!wake_) throw std::system_error(errno, std::generic_category());
  watcher_ = std::thread([this] { watch(); });
}

GuestListener::~GuestListener() {
  remove_socket(path_);
  closing_ = true;
  long_requests_.close();
  const uint64_t one = 1;
  GV_CHECK(::write(wake_.fd(), &one, sizeof one) == static_cast<ssize_t>(sizeof one));
  watcher_.join();
  for (const auto& guest : guests_) {
    guest->connection->hang_up();
    guest->thread.join();
  }
}

// Waits for new scripts, and for the ends of the connected ones.
void GuestListener::watch() {
  for (bool rests = false; !closing_;) {
    const int incoming = rests ? -1 : listener_.fd();  // poll skips negative descriptors
    std::vector<pollfd> ends{{wake_.fd(), POLLIN, 0}, {incoming, POLLIN, 0}};
    for (const auto& guest : guests_)
      ends.push_back({guest->process.fd(), POLLIN, 0});
    if (::poll(ends.data(), ends.size(), rests ? kRest_ms : -1) < 0) continue;
    uint64_t count = 0;
    if (ends[0].revents != 0 && ::read(wake_.fd(), &count, sizeof count) < 0) continue;
    for (size_t k = 0; k < guests_.size(); ++k) {
      if (ends[k + 2].revents == 0) continue;
      guests_[k]->connection->hang_up();
      guests_[k]->process = {};
    }
    clear_away();
    rests = ends[1].revents != 0 && !admit();
  }
}

void GuestListener::clear_away() {
  std::erase_if(guests_, [](const auto& guest) {
    if (!guest->over) return false;
    guest->thread.join();
    return true;
  });
}

bool GuestListener::admit() {
  Descriptor socket(::accept4(listener_.fd(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!socket) return errno == EINTR || errno == ECONNABORTED;
  const timeval patience{kPatience_ms / 1000, 0};
  ::setsockopt(socket.fd(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  const bool ours = is_of_this_user(socket.fd());
  const int process = peer_process(socket.fd());
  Descriptor life(watch_process(process));
  auto guest = std::make_unique<Guest>();
  guest->connection = std::make_unique<GuestConnection>(std::move(socket), process, long_requests_);
  const auto refuse = [&](const std::string& why) { return guest->connection->refuse(why), true; };
  if (!ours) return refuse("this node is another user's");
  if (const ScriptsBound most = bound_of_scripts(); guests_.size() >= most.scripts)
    return refuse(fmt::format("{} scripts are connected already{}", most.scripts, most.reason));
  guest->process = std::move(life);
  const Status begun = caught([&]() -> Status { return begin(*guest); });
  if (!begun) return refuse(begun.error().message);
  guests_.push_back(std::move(guest));
  return true;
}

// Starts a thread; the system may refuse it.
Status GuestListener::begin(Guest& guest) {
  guest.thread = std::thread([this, g = &guest] {
    const Status served = caught([&]() -> Status { return serve_(*g->connection), Done{}; });
    if (!served) g->connection->refuse(served.error().message);
    g->connection->hang_up();
    g->over = true;
    const uint64_t one = 1;
    static_cast<void>(!::write(wake_.fd(), &one, sizeof one));
  });
  return Done{};
}

}  // namespace grapevine
