// Log: the messages of the program on standard error, each line with its time, or as one JSON
// object per line for log collectors. Results are not part of it.
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

  /// Whether a message of this level is written. `quiet` hides news, and never an alarm.
  bool tells(LogLevel) const;

  void tell(LogLevel, const std::string& event) const;
  void info(const std::string& event) const { tell(LogLevel::info, event); }
  void warn(const std::string& event) const { tell(LogLevel::warning, event); }
  /// Where tells(info). REQUIRES: `object` is the text of a JSON object, and the format is JSON.
  void object(const std::string& object) const;
  /// A line of the level info, whatever is asked for.
  void announce(const std::string& event) const;
  /// The program's last message, written at every level. As text it has no time, like the answers
  /// of other commands.
  void refuse(const std::string& why) const;

 private:
  std::string shown(const std::string& event) const;

  LogOptions options_;
  std::shared_ptr<spdlog::logger> lines_;
};

/// One line on standard error, whatever the level: where this process can be reached.
void announce(const LogOptions&, const std::string& line);

}  // namespace grapevine
