#include "app/progress.hpp"

#include <fmt/core.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

#include "app/json_output.hpp"
#include "app/run_directory.hpp"
#include "app/words.hpp"

namespace grapevine {
namespace {

constexpr auto kBetweenPlainLines = std::chrono::seconds(5);

// Of events in JSON; what is not UTF-8 is replaced.
std::string quoted(const std::string& text) {
  return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

size_t columns() {
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col - 1u : 79u;
}

std::string count_of(uint64_t n, const char* what) {
  return fmt::format("{} {}", with_commas(static_cast<double>(n)), what);
}

}  // namespace

void announce(const LogOptions& options, const std::string& line) {
  if (options.format == LogFormat::text)
    std::fprintf(stderr, "%s\n", line.c_str());
  else
    std::fprintf(stderr, "{\"time\":\"%s\",\"level\":\"info\",\"event\":%s}\n", utc_now().c_str(),
                 quoted(line).c_str());
}

Progress::Progress(const Settings& s, const LogOptions& options)
    : until_s_(s.until_s),
      options_(options),
      terminal_(options.format == LogFormat::text && isatty(STDERR_FILENO) == 1),
      begin_(std::chrono::steady_clock::now()),
      last_(begin_),
      events_(std::make_shared<spdlog::logger>("grapevine",
                                               std::make_shared<spdlog::sinks::stderr_sink_mt>())) {
  const auto ranks = static_cast<uint64_t>(s.ranks);
  if (s.objective.objective != "consensus") horizon_ = s.gradients / ranks * ranks;
  const bool text = options.format == LogFormat::text;
  events_->set_pattern(
      text ? "%H:%M:%S %v" : "{\"time\":\"%Y-%m-%dT%H:%M:%S.%eZ\",\"level\":\"%l\",%v}",
      text ? spdlog::pattern_time_type::local : spdlog::pattern_time_type::utc);
  events_->flush_on(spdlog::level::info);
}

Progress::~Progress() {
  if (standing_) std::fputc('\n', stderr);
}

double Progress::left_s(const RunSample& p) const {
  double done = 0;  // of what was to be done when it began
  if (horizon_ > resumed_at_)
    done = static_cast<double>(p.gradients - std::min(p.gradients, resumed_at_)) /
           static_cast<double>(horizon_ - resumed_at_);
  if (until_s_ > 0) done = std::max(done, p.at_s / until_s_);
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin_;
  if (done <= 0 || spent.count() < 0.5) return std::numeric_limits<double>::quiet_NaN();
  return spent.count() * std::max(0.0, 1 / done - 1);
}

void Progress::point(const RunSample& p) {
  if (options_.quiet || options_.level > LogLevel::info) return;
  const auto now = std::chrono::steady_clock::now();
  if (!terminal_ && now - last_ < kBetweenPlainLines) return;
  last_ = now;
  if (options_.format == LogFormat::json) {
    const std::string object = json_of(p).dump();
    events_->info(object.substr(1, object.size() - 2));
    return;
  }
  std::string line;
  if (horizon_ > 0) {
    const double done = static_cast<double>(p.gradients) / static_cast<double>(horizon_);
    line = fmt::format("{} %  ", static_cast<int>(100 * std::min(1.0, done)));
  }
  line += count_of(p.gradients, "steps, ") + count_of(p.exchanges, "exchanges, ");
  if (std::isfinite(p.loss)) line += fmt::format("loss {}, ", as_short(p.loss));
  if (std::isfinite(p.consensus_distance))
    line += "consensus distance " + as_short(p.consensus_distance);
  if (line.size() > 1 && line[line.size() - 2] == ',') line.resize(line.size() - 2);
  line += tested_;
  if (const double left = left_s(p); left > 0) line += fmt::format(", {} left", as_seconds(left));
  if (line == shown_) return;  // nothing moves, as while the model is tested in the end
  show(line);
  shown_ = std::move(line);
}

void Progress::test(const TestPoint& p, const Score& best) {
  if (options_.format == LogFormat::json) {
    if (options_.quiet || options_.level > LogLevel::info) return;
    const std::string object = json_of(p).dump();
    events_->info(object.substr(1, object.size() - 2));
    return;
  }
  const bool has_accuracy = std::isfinite(p.test.accuracy);
  tested_ = has_accuracy ? fmt::format(", accuracy {}", as_percent(p.test.accuracy))
                         : fmt::format(", test loss {}", as_short(p.test.loss));
  tested_ += fmt::format(" (best {} {})", best.by,
                         best.more_is_better ? as_percent(best.value) : as_short(best.value));
}

void Progress::show(const std::string& line) {
  if (!terminal_) {
    std::fprintf(stderr, "%s\n", line.c_str());
    return;
  }
  clear();
  std::fputs(line.substr(0, columns()).c_str(), stderr);
  std::fflush(stderr);
  standing_ = true;
}

void Progress::clear() {
  if (standing_) std::fputs("\r\033[K", stderr);
  standing_ = false;
}

void Progress::tell(LogLevel level, const std::string& event) {
  if (options_.quiet || level < options_.level) return;
  clear();
  const auto as = level == LogLevel::info ? spdlog::level::info : spdlog::level::warn;
  if (options_.format == LogFormat::text)
    events_->log(as, event);
  else
    events_->log(as, "\"event\":" + quoted(event));
}

}  // namespace grapevine
