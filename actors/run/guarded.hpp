// Guarded: a user's objective and sink, wrapped so that their exceptions do not reach an actor. The
// first exception is kept and ends the run.
#pragma once
#include <atomic>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "actors/run/run.hpp"
#include "kernels/base/mutex.hpp"

namespace grapevine {

/// The first exception of the user's code, or the error with which a run could not begin. Any
/// thread.
class Thrown {
 public:
  /// `where` names the call that threw: "the gradient 3 of rank 1".
  void keep(const std::string& where, const std::string& text);
  void keep(Error);
  /// Calls `first` once, at the first exception, on its thread. REQUIRES: before any exception.
  void tell(std::function<void()> first) { tell_ = std::move(first); }
  bool any() const { return any_.load(std::memory_order_relaxed); }
  std::optional<Error> first() const;

 private:
  std::function<void()> tell_;
  std::atomic<bool> any_{false};
  mutable Mutex mutex_;
  std::optional<Error> first_ GV_GUARDED_BY(mutex_);
};

/// The same objective. If a call throws, its result is zero and a loss is not a number, which ends
/// the run. Errors: the objective is null, throws at once, or has no parameters.
Result<std::shared_ptr<Objective>> guard(std::shared_ptr<Objective>, std::shared_ptr<Thrown>);

/// Calls the sink's functions one at a time, and none after an exception. If the worker of a rank
/// cannot be made, the rank has none.
void guard(RunHooks&, std::shared_ptr<Thrown>);

/// The result of `work`. If it throws: `otherwise`, and the exception is kept with `where`.
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
