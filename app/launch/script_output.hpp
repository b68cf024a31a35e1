// ScriptOutput: what several scripts write, passed on to one of our streams as it comes: each line
// behind the number of the rank in brackets, progress bars (carriage returns) as bars. Bounded:
// nothing is kept but the last words of each script. For one thread.
#pragma once
#include <chrono>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "app/output/log.hpp"

namespace grapevine {

class ScriptOutput {
 public:
  using Clock = std::chrono::steady_clock;

  /// `stream` outlives it, is written to at once, and may be a terminal. In JSON whole lines become
  /// events of the log.
  ScriptOutput(std::FILE* stream, size_t scripts, LogFormat, const Log&);

  void put(size_t script, int rank, std::string_view bytes, Clock::time_point now);
  /// Shows a line without an end that has waited, such as a question. With `all` shows the rest:
  /// this script has ended.
  void flush(size_t script, int rank, bool all, Clock::time_point now);

 private:
  struct Last {
    std::string text;     // since the last end of a line, a carriage return being one
    bool is_bar = false;  // it takes the place of what is shown
    Clock::time_point since{}, told{};
  };

  void end(size_t script, int rank, char how, Clock::time_point now);
  void show(size_t script, int rank, char how);  // how: 0 where the line goes on
  void tell(size_t script, int rank);

  std::FILE* stream_;
  bool terminal_, json_;
  const Log& log_;
  std::vector<Last> last_;
  int open_ = -1;  // whose text has no end on the stream yet
};

}  // namespace grapevine
