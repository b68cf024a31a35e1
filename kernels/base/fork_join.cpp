#include "kernels/base/fork_join.hpp"

#include <algorithm>
#include <condition_variable>
#include <system_error>
#include <thread>
#include <vector>

#include "kernels/base/check.hpp"
#include "kernels/base/mutex.hpp"

namespace grapevine {

struct ForkJoin::Pool {
  using Body = std::function<void(size_t, size_t)>;

  Mutex turn;                  // held by the caller of the present pass
  size_t size = 0, grain = 1;  // of the pass; constant until its end
  Mutex mutex;
  std::condition_variable work, done;
  const Body* body GV_GUARDED_BY(mutex) = nullptr;
  uint64_t pass GV_GUARDED_BY(mutex) = 0;  // counts passes: a helper works once in each
  int busy GV_GUARDED_BY(mutex) = 0;       // helpers that have not finished this pass
  bool stop GV_GUARDED_BY(mutex) = false;
  std::vector<std::thread> helpers;

  // Part k of n: complete grains, split as evenly as possible. noexcept: a body that throws ends
  // the process.
  void run_part(const Body& f, size_t k, size_t n) noexcept {
    const size_t grains = (size + grain - 1) / grain;
    const size_t first = std::min(size, grains * k / n * grain);
    const size_t last = std::min(size, grains * (k + 1) / n * grain);
    if (first < last) f(first, last);
  }

  void end() {
    {
      const Lock lock(mutex);
      stop = true;
    }
    work.notify_all();
    for (auto& helper : helpers)
      helper.join();
  }

  void help(size_t k) {
    uint64_t seen = 0;
    Lock lock(mutex);
    while (true) {
      work.wait(lock, [&]() GV_REQUIRES(mutex) { return stop || pass != seen; });
      if (stop) return;
      seen = pass;
      const Body& f = *body;
      lock.unlock();
      run_part(f, k, helpers.size() + 1);
      lock.lock();
      if (--busy == 0) done.notify_one();
    }
  }
};

ForkJoin::ForkJoin(int threads) : pool_(std::make_unique<Pool>()) {
  GV_CHECK(threads >= 1);
  try {
    const Lock lock(pool_->mutex);  // helpers wait until all of them are counted
    for (int k = 1; k < threads; ++k) {
      pool_->helpers.emplace_back([pool = pool_.get(), k] { pool->help(static_cast<size_t>(k)); });
    }
  } catch (const std::system_error&) {
    pool_->end();
    throw;
  }
}

ForkJoin::~ForkJoin() { pool_->end(); }

int ForkJoin::threads() const { return static_cast<int>(pool_->helpers.size()) + 1; }

void ForkJoin::run(size_t size, size_t grain, const std::function<void(size_t, size_t)>& body) {
  GV_CHECK(grain >= 1u);
  if (size == 0) return;
  if (pool_->helpers.empty() || size <= grain) {
    body(0, size);
    return;
  }
  const Lock turn(pool_->turn);
  {
    const Lock lock(pool_->mutex);
    pool_->body = &body;
    pool_->size = size;
    pool_->grain = grain;
    pool_->busy = static_cast<int>(pool_->helpers.size());
    ++pool_->pass;
  }
  pool_->work.notify_all();
  pool_->run_part(body, 0, pool_->helpers.size() + 1);
  Lock lock(pool_->mutex);
  pool_->done.wait(lock, [&]() GV_REQUIRES(pool_->mutex) { return pool_->busy == 0; });
}

}  // namespace grapevine
