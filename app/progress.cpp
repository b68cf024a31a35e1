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

#include "app/words.hpp"

namespace grapevine {
namespace {

constexpr auto kBetweenPlainLines = std::chrono::seconds(5);

size_t columns() {
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col - 1u : 79u;
}

std::string count_of(uint64_t n, const char* what) {
  return fmt::format("{} {}", with_commas(static_cast<double>(n)), what);
}

}  // namespace

Progress::Progress(const Settings& s, bool quiet)
    : until_s_(s.until_s),
      quiet_(quiet),
      terminal_(isatty(STDERR_FILENO) == 1),
      begin_(std::chrono::steady_clock::now()),
      last_(begin_),
      events_(std::make_shared<spdlog::logger>(
          "grapevine", std::make_shared<spdlog::sinks::stderr_sink_mt>())) {
  const auto ranks = static_cast<uint64_t>(s.ranks);
  if (s.objective.objective != "consensus") horizon_ = s.gradients / ranks * ranks;
  events_->set_pattern("%H:%M:%S %v");
  events_->flush_on(spdlog::level::info);
}

Progress::~Progress() {
  if (standing_) std::fputc('\n', stderr);
}

double Progress::left_s(const RunSample& p) const {
  double done = 0;
  if (horizon_ > 0) done = static_cast<double>(p.gradients) / static_cast<double>(horizon_);
  if (until_s_ > 0) done = std::max(done, p.at_s / until_s_);
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin_;
  if (done <= 0 || spent.count() < 0.5) return std::numeric_limits<double>::quiet_NaN();
  return spent.count() * std::max(0.0, 1 / done - 1);
}

void Progress::point(const RunSample& p) {
  if (quiet_) return;
  const auto now = std::chrono::steady_clock::now();
  if (!terminal_ && now - last_ < kBetweenPlainLines) return;
  last_ = now;
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
  if (const double left = left_s(p); std::isfinite(left))
    line += fmt::format(", {} left", as_seconds(left));
  show(line);
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

void Progress::say(const std::string& event) {
  if (quiet_) return;
  clear();
  events_->info(event);
}

}  // namespace grapevine
