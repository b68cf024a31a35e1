// Guarded: a user's objective and sink, wrapped so that their exceptions do not reach an actor. The
// first exception is kept and ends the run.
#pragma once
#include <atomic>
#include <exception>
#include <memory>
#include <optional>
#include <string>

#include "actors/run/run.hpp"
#include "kernels/base/mutex.hpp"

namespace grapevine {

/// The first exception of the user's code. Any thread.
class Thrown {
 public:
  /// `where` is what threw: "the gradient 3 of rank 1".
  void keep(const std::string& where, const std::string& text);
  bool any() const { return any_.load(std::memory_order_relaxed); }
  std::optional<Error> first() const;

 private:
  std::atomic<bool> any_{false};
  mutable Mutex mutex_;
  std::optional<Error> first_ GV_GUARDED_BY(mutex_);
};

/// The same objective. If it throws, the loss is not a number, which ends the run, and its result
/// is zero. Errors: it is null, it throws at once, or it has no parameters.
Result<std::shared_ptr<Objective>> guard(std::shared_ptr<Objective>, std::shared_ptr<Thrown>);

/// Calls the functions of the sink one at a time, and no more after an exception. A rank whose
/// worker cannot be made has none.
void guard(RunHooks&, std::shared_ptr<Thrown>);

/// The result of `work`; if it throws, `otherwise`, and the exception is kept with `where`.
template <class T, class Work>
T guarded(Thrown& thrown, const std::string& where, T otherwise, Work&& work) {
  try {
    return work();
  } catch (const std::exception& e) {
    thrown.keep(where, e.what());
  } catch (...) {
    thrown.keep(where, "the exception is not a std::exception");
  }
  return otherwise;
}

}  // namespace grapevine
