// Log: the messages of the program on standard error: each line with its time, or one JSON object
// per line for log collectors. Results are not part of it.
#pragma once
#include <memory>
#include <string>

#include "app/options/options.hpp"

namespace spdlog {
class logger;
}

namespace grapevine {

class Log {
 public:
  explicit Log(const LogOptions&);

  /// Whether a message of this level is written. `quiet` hides messages of level info, never an
  /// alarm.
  bool tells(LogLevel) const;

  void tell(LogLevel, const std::string& event) const;
  void info(const std::string& event) const { tell(LogLevel::info, event); }
  void warn(const std::string& event) const { tell(LogLevel::warning, event); }
  /// Written if tells(info). REQUIRES: `object` is the text of a JSON object, and the format is
  /// JSON.
  void object(const std::string& object) const;
  /// A line of level info, written at every level.
  void announce(const std::string& event) const;
  /// The unfinished line of standard error, which the log ends.
  const std::shared_ptr<OpenLine>& line() const { return options_.line; }
  /// The program's last message, written at every level. As text it has no time, like the answers
  /// of other commands.
  void refuse(const std::string& why) const;

 private:
  void write(int level, const std::string& line) const;  // level: spdlog's
  std::string shown(const std::string& event) const;

  LogOptions options_;
  std::shared_ptr<spdlog::logger> lines_;
};

/// One line on standard error at every level: where this process can be reached.
void announce(const LogOptions&, const std::string& line);

}  // namespace grapevine
