// ScriptOutput: passes the output of several scripts to one of our streams, at once: each line
// starts with the number of the rank in brackets, and progress bars (carriage returns) stay bars.
// It keeps only the last unfinished line of each script. One thread uses it.
#pragma once
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "app/output/log.hpp"

namespace grapevine {

class ScriptOutput {
 public:
  using Clock = std::chrono::steady_clock;

  /// `stream` outlives it, is written to at once, and may be a terminal. With JSON, whole lines
  /// become events of the log.
  ScriptOutput(std::FILE* stream, size_t scripts, LogFormat, const Log&);

  void put(size_t script, int rank, std::string_view bytes, Clock::time_point now);
  /// Shows an unfinished line that has waited, such as a question. `all`: shows the rest, because
  /// the script has ended.
  void flush(size_t script, int rank, bool all, Clock::time_point now);

 private:
  struct Last {
    std::string text;     // since the last line break or carriage return
    bool is_bar = false;  // it replaces the shown line
    Clock::time_point since{}, told{};
  };

  void end(size_t script, int rank, char how, Clock::time_point now);
  void show(size_t script, int rank, char how);  // how: 0 if the line continues
  void tell(size_t script, int rank, bool is_whole);
  /// The text of the last line so far. If the line continues, the bytes of an incomplete character
  /// are kept for the next call.
  std::string take(size_t script, bool is_whole);

  std::FILE* stream_;
  bool json_;
  const Log& log_;
  std::shared_ptr<OpenLine> line_;  // of the stream
  std::vector<Last> last_;
};

}  // namespace grapevine
