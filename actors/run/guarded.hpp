// Guarded: what a library's user gives to a run, an objective and a sink, made so that nothing that
// they throw gets into an actor. The first thing thrown is kept, and ends the run.
#pragma once
#include <atomic>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "actors/run/run.hpp"

namespace grapevine {

/// What the user's code has thrown first. Any thread.
class Thrown {
 public:
  /// `where` is what threw: "the gradient 3 of rank 1".
  void keep(const std::string& where, const std::string& text);
  bool any() const { return any_.load(std::memory_order_relaxed); }
  std::optional<Error> first() const;

 private:
  std::atomic<bool> any_{false};
  mutable std::mutex mutex_;
  std::optional<Error> first_;
};

/// The same objective. Where it throws, its loss is not a number, which ends the run, and what it
/// should have written is zero. Errors: it is null, it throws at once, or it has no parameters.
Result<std::shared_ptr<Objective>> guard(std::shared_ptr<Objective>, std::shared_ptr<Thrown>);

/// The functions of the sink are called one at a time, and no more once something was thrown; a
/// rank whose worker cannot be made has none.
void guard(RunHooks&, std::shared_ptr<Thrown>);

/// What `work` returns; `otherwise` where it throws, which is kept as that of `where`.
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
