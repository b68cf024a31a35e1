// Progress: a run on standard error while it goes on. On a terminal one line that is rewritten;
// elsewhere a plain line, at most one in five seconds. Events stand above it.
#pragma once
#include <chrono>
#include <memory>
#include <string>

#include "actors/run/settings.hpp"
#include "app/summary.hpp"

namespace spdlog {
class logger;
}

namespace grapevine {

class Progress {
 public:
  Progress(const Settings&, bool quiet);
  ~Progress();  // leaves the last line standing

  void point(const RunSample&);
  void say(const std::string& event);

 private:
  using Instant = std::chrono::steady_clock::time_point;

  void show(const std::string& line);
  void clear();
  double left_s(const RunSample&) const;  // NaN: not known

  uint64_t horizon_ = 0;
  double until_s_ = 0;
  bool quiet_, terminal_, standing_ = false;
  Instant begin_, last_;
  std::shared_ptr<spdlog::logger> events_;
};

}  // namespace grapevine
