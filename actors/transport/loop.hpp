// Loop: one KJ event loop on one thread, and the way for other threads to reach it.
//
// Other threads pass work to it with post(); code on the loop reports results through callbacks.
// Tasks run in order, between turns of the sockets, and must not block. Objects of the loop are
// made and destroyed there: see call().
#pragma once
#include <kj/async-io.h>

#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "kernels/base/mutex.hpp"

namespace grapevine {

class Loop {
 public:
  using Task = std::function<void()>;

  Loop();   // throws std::exception if the system refuses a thread or a descriptor
  ~Loop();  // tasks that were posted before still run
  Loop(const Loop&) = delete;

  /// Any thread, never blocks. Wakes the loop only when it sleeps.
  void post(Task task) { inbox_->post(std::move(task)); }

  /// For callers that may outlive the loop: after its end tasks are dropped.
  class Inbox {
   public:
    void post(Task);

   private:
    friend class Loop;
    Mutex mutex_;
    std::vector<Task> tasks_ GV_GUARDED_BY(mutex_);
    // Armed while the loop sleeps.
    kj::Own<kj::CrossThreadPromiseFulfiller<void>> wake_ GV_GUARDED_BY(mutex_);
    bool closed_ GV_GUARDED_BY(mutex_) = false;
  };
  const std::shared_ptr<Inbox>& inbox() const { return inbox_; }

  /// Any other thread: posts a task and waits until it has run. Throws the task's exception.
  void call(const Task&);

  kj::AsyncIoContext& io() { return *io_; }  // on the loop's thread
  kj::Timer& timer() { return io_->provider->getTimer(); }

 private:
  void run(std::promise<void>& ready);

  kj::AsyncIoContext* io_ = nullptr;
  const std::shared_ptr<Inbox> inbox_ = std::make_shared<Inbox>();
  std::thread thread_;
};

/// One printable line, without values that a peer chose.
std::string reason_of(const kj::Exception&);

inline kj::Duration seconds(double s) { return static_cast<int64_t>(s * 1e9) * kj::NANOSECONDS; }

}  // namespace grapevine
