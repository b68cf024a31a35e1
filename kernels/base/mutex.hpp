// Mutex and Lock: the standard library's, annotated for clang's -Wthread-safety. GV_GUARDED_BY
// marks a member that a mutex guards; GV_REQUIRES marks a function whose caller holds the mutex.
// The test `thread_safety` checks every use. For other compilers the annotations are empty.
#pragma once
#include <mutex>
#include <shared_mutex>

#if defined(__clang__)
#define GV_THREAD_SAFETY(...) __attribute__((__VA_ARGS__))
#else
#define GV_THREAD_SAFETY(...)
#endif
#define GV_GUARDED_BY(mutex) GV_THREAD_SAFETY(guarded_by(mutex))
#define GV_REQUIRES(mutex) GV_THREAD_SAFETY(requires_capability(mutex))
#define GV_REQUIRES_SHARED(mutex) GV_THREAD_SAFETY(requires_shared_capability(mutex))

namespace grapevine {

class GV_THREAD_SAFETY(capability("mutex")) Mutex : public std::mutex {};
class GV_THREAD_SAFETY(capability("mutex")) SharedMutex : public std::shared_mutex {};

/// Holds the mutex until the end of its scope, except between unlock() and lock(). A
/// condition_variable waits with it as with a unique_lock.
class GV_THREAD_SAFETY(scoped_lockable) Lock : public std::unique_lock<std::mutex> {
 public:
  explicit Lock(Mutex& mutex) GV_THREAD_SAFETY(acquire_capability(mutex)) : unique_lock(mutex) {}
  ~Lock() GV_THREAD_SAFETY(release_capability()) {}
  void lock() GV_THREAD_SAFETY(acquire_capability(), no_thread_safety_analysis) {
    unique_lock::lock();
  }
  void unlock() GV_THREAD_SAFETY(release_capability(), no_thread_safety_analysis) {
    unique_lock::unlock();
  }
};

/// Holds the mutex exclusively.
class GV_THREAD_SAFETY(scoped_lockable) WriteLock : std::unique_lock<std::shared_mutex> {
 public:
  explicit WriteLock(SharedMutex& mutex) GV_THREAD_SAFETY(acquire_capability(mutex))
      : unique_lock(mutex) {}
  ~WriteLock() GV_THREAD_SAFETY(release_capability()) {}
};

/// Holds the mutex together with other readers.
class GV_THREAD_SAFETY(scoped_lockable) ReadLock : std::shared_lock<std::shared_mutex> {
 public:
  explicit ReadLock(SharedMutex& mutex) GV_THREAD_SAFETY(acquire_shared_capability(mutex))
      : shared_lock(mutex) {}
  ~ReadLock() GV_THREAD_SAFETY(release_generic_capability()) {}
};

}  // namespace grapevine
