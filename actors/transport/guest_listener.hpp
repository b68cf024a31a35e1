// GuestListener: the unix socket for scripts of this user, which compute a rank's steps in their
// own processes. Each connected script has a thread.
//
// Between two requests the thread waits in one receive, so a step costs two system calls. A
// script's records are checked here (messages/guest_codec.hpp): after an error the script gets one
// line and is disconnected. If a child of the script has inherited the socket, the socket does not
// end with the script, so the script's process is watched too (pidfd). The first request, half a
// record, and an answer that the script does not read have a deadline of five seconds. Between
// requests a script may take any time. All long requests together have the memory of one of the
// longest, so a long one waits for others, at most five seconds. Short ones never wait.
#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "kernels/base/descriptor.hpp"
#include "kernels/base/mutex.hpp"
#include "kernels/base/result.hpp"
#include "messages/guest_codec.hpp"

namespace grapevine {

/// The memory for the long requests of all scripts. Thread-safe.
class LongRequests {
 public:
  static constexpr uint64_t kShort = 256 << 10;      // bytes; up to here a request is short
  static constexpr uint64_t kAll = kGuestTextBytes;  // of long requests together

  /// A part for a request of this size, until the result is destroyed. Null: there is none by then,
  /// or the listener closes.
  std::shared_ptr<const void> take(uint64_t bytes, std::chrono::steady_clock::time_point until);
  void close();

 private:
  Mutex mutex_;
  std::condition_variable changed_;
  uint64_t used_ GV_GUARDED_BY(mutex_) = 0;
  bool closed_ GV_GUARDED_BY(mutex_) = false;
};

struct GuestQuestion {
  GuestRecord record;
  std::shared_ptr<const void> memory;  // of a long text
  std::string text;                    // of a join or a report
  Descriptor descriptor;               // which came with it; may be empty
};

/// One script. One thread serves it; any thread may call gone() and hang_up().
class GuestConnection {
 public:
  GuestConnection(Descriptor socket, int process, LongRequests& long_requests)
      : socket_(std::move(socket)), process_(process), long_requests_(long_requests) {}

  /// Reads the next request. False: the script has left, or sent anything else and was told.
  bool next(GuestQuestion&);
  /// The same for the first request: a script that stays silent is told and disconnected.
  bool first(GuestQuestion&);
  /// False: the script has gone. `fd` is sent with the answer; the caller still owns it.
  bool answer(GuestRecord, std::string_view text = {}, int fd = -1);
  /// Sends the script the reason in one line, and ends its session. Returns false.
  bool refuse(const std::string& why);
  /// Whether the script is known to have gone.
  bool gone() const;
  void hang_up();

  int process() const { return process_; }  // 0: unknown

 private:
  using Steady = std::chrono::steady_clock;

  bool receive(void* to, size_t bytes, Descriptor& beside,
               std::optional<Steady::time_point>& until);

  Descriptor socket_;
  int process_;
  LongRequests& long_requests_;
};

class GuestListener {
 public:
  static constexpr size_t kScripts = 64;  // at the same time; fewer if there are few descriptors

  /// Serves a script, on its own thread, until the script has left.
  using Serve = std::function<void(GuestConnection&)>;

  /// Empty path: one in this user's folder of local sockets, by `name`. Errors of the path: see
  /// local_socket.hpp. The destructor removes the file.
  static Result<std::unique_ptr<GuestListener>> open(const std::string& path,
                                                     const std::string& name, Serve);

  /// Disconnects all scripts, and waits until their threads end.
  ~GuestListener();
  GuestListener(const GuestListener&) = delete;

  const std::string& path() const { return path_; }

 private:
  struct Guest {
    std::unique_ptr<GuestConnection> connection;
    Descriptor process;  // a pidfd; may be none
    std::atomic<bool> over{false};
    std::thread thread;
  };

  GuestListener(std::string path, Descriptor listener, Serve);
  void watch();
  bool admit();  // false: not now
  Status begin(Guest&);
  void clear_away();

  std::string path_;
  Descriptor listener_, wake_;
  Serve serve_;
  LongRequests long_requests_;                  // of guests_
  std::vector<std::unique_ptr<Guest>> guests_;  // used by the watcher alone
  std::atomic<bool> closing_{false};
  std::thread watcher_;
};

}  // namespace grapevine
