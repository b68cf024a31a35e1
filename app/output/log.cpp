#include "app/output/log.hpp"

#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <cstdio>

#include "app/output/json_output.hpp"
#include "kernels/base/printable.hpp"

namespace grapevine {

Log::Log(const LogOptions& options)
    : options_(options),
      lines_(std::make_shared<spdlog::logger>("grapevine",
                                              std::make_shared<spdlog::sinks::stderr_sink_mt>())) {
  const bool text = options.format == LogFormat::text;
  lines_->set_pattern(
      text ? "%H:%M:%S %v" : "{\"time\":\"%Y-%m-%dT%H:%M:%S.%eZ\",\"level\":\"%l\",%v}",
      text ? spdlog::pattern_time_type::local : spdlog::pattern_time_type::utc);
  lines_->flush_on(spdlog::level::info);
}

bool Log::tells(LogLevel level) const {
  return level >= options_.level && !(options_.quiet && level == LogLevel::info);
}

std::string Log::shown(const std::string& event) const {
  return options_.format == LogFormat::text ? printable(event)
                                            : "\"event\":" + json_text(Json(event));
}

void Log::write(int level, const std::string& line) const {
  options_.line->write(OpenLine::kLog, stderr, [&](bool) {
    lines_->log(static_cast<spdlog::level::level_enum>(level), line);
    return OpenLine::Left::nothing;
  });
}

void Log::tell(LogLevel level, const std::string& event) const {
  if (!tells(level)) return;
  write(level == LogLevel::info ? spdlog::level::info : spdlog::level::warn, shown(event));
}

void Log::object(const std::string& object) const {
  if (tells(LogLevel::info)) write(spdlog::level::info, object.substr(1, object.size() - 2));
}

void Log::announce(const std::string& event) const { write(spdlog::level::info, shown(event)); }

void Log::refuse(const std::string& why) const {
  if (options_.format == LogFormat::json) return write(spdlog::level::err, shown(why));
  options_.line->write(OpenLine::kLog, stderr, [&](bool) {
    std::fprintf(stderr, "grapevine: %s\n", printable(why).c_str());
    return OpenLine::Left::nothing;
  });
}

void announce(const LogOptions& options, const std::string& line) { Log(options).announce(line); }

}  // namespace grapevine
