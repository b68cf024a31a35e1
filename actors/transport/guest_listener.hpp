// GuestListener: the unix socket that guests connect to: scripts of this user that compute a rank's
// steps in their own processes. Each connected script has a thread.
//
// Between two requests the thread waits in one receive, so a step costs two system calls. A
// script's records are checked here (messages/guest_codec.hpp): after an error the script gets one
// line and is disconnected. If a child of the script has inherited the socket, the socket does not
// end with the script, so the script's process is watched too (pidfd). The first request, half a
// record, and an answer that the script does not read have a deadline of five seconds. Between
// requests a script may take any time.
#pragma once
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "kernels/base/descriptor.hpp"
#include "kernels/base/result.hpp"
#include "messages/guest_codec.hpp"

namespace grapevine {

struct GuestQuestion {
  GuestRecord record;
  std::string text;       // of a join or a report
  Descriptor descriptor;  // that came with it; may be none
};

/// One script. For the thread that serves it; gone() and hang_up() for any.
class GuestConnection {
 public:
  GuestConnection(Descriptor socket, int process) : socket_(std::move(socket)), process_(process) {}

  /// The next request. False: the script has left, or has sent something else and was told.
  bool next(GuestQuestion&);
  /// The same, of a script that has said nothing yet: one that stays silent is told, and let go of.
  bool first(GuestQuestion&);
  /// False: the script has gone. `fd` is sent beside it, and stays the caller's.
  bool answer(GuestRecord, std::string_view text = {}, int fd = -1);
  /// Sends the script the reason, in one line, and serves it no more. Returns false.
  bool refuse(const std::string& why);
  /// Whether the script is known to have gone.
  bool gone() const;
  void hang_up();

  int process() const { return process_; }  // 0: unknown

 private:
  bool receive(void* to, size_t bytes, Descriptor* beside);

  Descriptor socket_;
  int process_;
};

class GuestListener {
 public:
  static constexpr size_t kScripts = 64;  // at once; fewer where descriptors are few

  /// Serves a script, on its own thread, until it has left.
  using Serve = std::function<void(GuestConnection&)>;

  /// Empty: a path in this user's folder of local sockets, by `name`. Errors: the path's, see
  /// local_socket.hpp. The file goes with the object.
  static Result<std::unique_ptr<GuestListener>> open(const std::string& path,
                                                     const std::string& name, Serve);

  /// Hangs up on all, and waits until none is served.
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
  std::vector<std::unique_ptr<Guest>> guests_;  // the watcher's
  std::atomic<bool> closing_{false};
  std::thread watcher_;
};

}  // namespace grapevine
