// Progress: the progress of a run on standard error. On a terminal it is one line that is
// rewritten; otherwise a line of the log, at most one in five seconds. Events are printed above it.
#pragma once
#include <chrono>
#include <limits>
#include <string>

#include "actors/settings/settings.hpp"
#include "app/evaluation/score.hpp"
#include "app/options/options.hpp"
#include "app/output/log.hpp"
#include "app/output/summary.hpp"

namespace grapevine {

class Progress {
 public:
  Progress(const Settings&, const LogOptions&);
  ~Progress();  // the last line stays

  /// The gradients of earlier lives of the run, for the estimate of the remaining time.
  void resumed_at(uint64_t gradients) { resumed_at_ = gradients; }
  /// The gradients that the ranks have taken, including those of the ranks whose state they copied.
  /// The pace is measured from the first call on.
  void reached(uint64_t gradients);
  void point(const RunSample&);
  /// Later lines show this test.
  void test(const TestPoint&, const Score& best);
  void say(const std::string& event) { tell(LogLevel::info, event); }
  void warn(const std::string& event) { tell(LogLevel::warning, event); }

 private:
  using Instant = std::chrono::steady_clock::time_point;

  void tell(LogLevel, const std::string& event);
  void show(const std::string& line);
  uint64_t done(const RunSample&) const;
  double left_s(const RunSample&) const;  // NaN: unknown

  uint64_t horizon_ = 0, resumed_at_ = 0;  // of the ranks here
  uint64_t reached_ = 0;
  double resumed_progress_ = std::numeric_limits<double>::quiet_NaN();  // of the first sample
  bool paced_ = false;                                                  // reached() was called
  double until_s_ = 0;
  std::string tested_;  // the result of the last test; empty: none
  std::string shown_;   // the last line
  const LogOptions options_;
  const Log log_;
  bool terminal_;
  Instant begin_, paced_from_, last_;
};

}  // namespace grapevine
