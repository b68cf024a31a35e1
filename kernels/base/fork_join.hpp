// ForkJoin: a few threads that share one pass over a large vector and return together.
//
// One instance may be shared by several state actors; calls from different threads take turns. No
// thread spins when there is no work. With one thread, everything runs in the caller.
#pragma once
#include <cstddef>
#include <functional>
#include <memory>

namespace grapevine {

class ForkJoin {
 public:
  /// `threads` includes the caller. Throws std::system_error if the system cannot start the others.
  explicit ForkJoin(int threads);
  ~ForkJoin();
  ForkJoin(const ForkJoin&) = delete;

  int threads() const;

  /// Calls body(first, last) on disjoint ranges that cover [0, size), with boundaries at multiples
  /// of `grain`; returns when all have returned. The split depends only on size, grain and
  /// threads().
  void run(size_t size, size_t grain, const std::function<void(size_t, size_t)>& body);

 private:
  struct Pool;
  std::unique_ptr<Pool> pool_;
};

}  // namespace grapevine
