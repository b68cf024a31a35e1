// TestLane: tests the mean of the ranks during a run, on its own thread.
//
//   a sample comes, a test is due, none is under way  ->  the lane takes the sample's mean, which
//   is immutable  ->  evaluate, validate  ->  judged, reported
//
// No other thread waits for it: a sample that comes during a test is not tested. The thread has its
// own network (ObjectiveSpec::has_tester) and a low priority. On the virtual clock there is no
// thread: offer() runs the test.
#pragma once
#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "actors/settings/samples.hpp"
#include "actors/settings/settings.hpp"
#include "app/evaluation/judge.hpp"
#include "app/options/every.hpp"
#include "kernels/base/mutex.hpp"

namespace grapevine {

/// When the mean is tested, and the receivers of results. Only one thread calls them.
struct TestOrders {
  Every every;                // never: there are no tests
  uint64_t stop_after = 0;    // the run ends after so many tests without a better one; 0: never
  std::optional<Score> best;  // of an earlier life of the run
  std::function<void(const TestPoint&, const Score& best)> on_test;
  /// For a model better than all before; called before on_test.
  std::function<void(const TestPoint&, const Score&, Objective&, ConstVec x)> on_best;
};

class TestLane {
 public:
  /// `say` gets events and alarms, a line each, on any thread. REQUIRES: on the wall clock, if
  /// there are tests, the objective has a tester.
  TestLane(const Settings&, std::shared_ptr<Objective>, TestOrders,
           std::function<void(const std::string&)> say);
  TestLane(const TestLane&) = delete;
  ~TestLane() { stop(); }

  /// Called by one thread at a time. Returns the test, if there is no separate thread and a test
  /// was due.
  std::optional<TestPoint> offer(const RunSample&);

  /// Waits for the present test; starts no other.
  void stop();

  /// True once the run should end.
  const std::atomic<bool>& is_enough() const { return is_enough_; }
  std::optional<Score> best() const { return judge_.best(); }  // REQUIRES: stopped

 private:
  struct Job {
    double at_s = 0;
    uint64_t gradients = 0;
    std::shared_ptr<const std::vector<double>> mean;
  };
  bool is_due(const RunSample&);
  void work();
  std::optional<TestPoint> test(const Job&);

  const std::shared_ptr<Objective> objective_;
  const TestOrders orders_;
  const std::function<void(const std::string&)> say_;
  const int number_;  // of the thread, for the objective
  const int ranks_;   // here
  const bool validated_;
  double next_s_ = 0;  // used by the offering thread
  uint64_t next_steps_ = 0;
  Judge judge_;              // used by the testing thread
  bool has_failed_ = false;  // likewise
  std::atomic<bool> is_enough_{false};
  Mutex mutex_;
  std::condition_variable changed_;
  std::optional<Job> job_ GV_GUARDED_BY(mutex_);  // the present or the next one
  bool ends_ GV_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace grapevine
