// Mailboxes: the communicator of each rank, for transports that deliver inside the process. Any
// thread.
#pragma once
#include <vector>

#include "actors/mail/mail_state.hpp"
#include "kernels/base/mutex.hpp"

namespace grapevine {

class Mailboxes {
 public:
  void set(int rank, const CommunicatorActor& communicator) {
    const WriteLock lock(mutex_);
    const auto index = static_cast<size_t>(rank);
    if (of_rank_.size() <= index) of_rank_.resize(index + 1);
    of_rank_[index] = caf::actor_cast<caf::strong_actor_ptr>(communicator);
  }
  void clear(int rank) {
    const WriteLock lock(mutex_);
    const auto index = static_cast<size_t>(rank);
    if (index < of_rank_.size()) of_rank_[index] = nullptr;
  }

  /// Null if the rank is gone: frames to it are lost.
  caf::strong_actor_ptr find(int rank) const {
    const ReadLock lock(mutex_);
    const auto index = static_cast<size_t>(rank);
    return index < of_rank_.size() ? of_rank_[index] : nullptr;
  }

 private:
  mutable SharedMutex mutex_;
  std::vector<caf::strong_actor_ptr> of_rank_ GV_GUARDED_BY(mutex_);
};

}  // namespace grapevine
