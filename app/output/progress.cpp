#include "app/output/progress.hpp"

#include <fmt/core.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <utility>

#include "app/output/json_output.hpp"
#include "app/system/words.hpp"

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

Progress::Progress(const Settings& s, const LogOptions& options)
    : until_s_(s.until_s),
      options_(options),
      log_(options),
      terminal_(options.format == LogFormat::text && isatty(STDERR_FILENO) == 1),
      begin_(std::chrono::steady_clock::now()),
      paced_from_(begin_),
      last_(begin_) {
  const auto ranks = static_cast<uint64_t>(s.ranks), here = static_cast<uint64_t>(ranks_here(s));
  if (s.objective.objective != "consensus") horizon_ = s.gradients / ranks * here;
}

Progress::~Progress() {
  if (terminal_) options_.line->finish(OpenLine::kProgress, stderr);
}

void Progress::reached(uint64_t gradients) {
  if (!std::exchange(paced_, true)) {
    resumed_at_ = gradients;
    paced_from_ = std::chrono::steady_clock::now();
  }
  reached_ = std::max(reached_, gradients);
}

uint64_t Progress::done(const RunSample& p) const { return std::max(p.gradients, reached_); }

// Until the first of the ends, at the pace so far.
double Progress::left_s(const RunSample& p) const {
  const auto left_by = [](Instant since, double made, double all) {
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - since;
    if (made <= 0 || spent.count() < 0.5) return std::numeric_limits<double>::quiet_NaN();
    return spent.count() * std::max(0.0, all / made - 1);
  };
  double left = std::numeric_limits<double>::quiet_NaN();
  if (std::isfinite(p.progress))
    left = left_by(begin_, p.progress - resumed_progress_, 1 - resumed_progress_);
  else if (horizon_ > resumed_at_)
    left = left_by(paced_from_, static_cast<double>(done(p) - std::min(done(p), resumed_at_)),
                   static_cast<double>(horizon_ - resumed_at_));
  if (until_s_ > 0) left = std::fmin(left, left_by(begin_, p.at_s, until_s_));
  return left;
}

void Progress::point(const RunSample& p) {
  if (!std::isfinite(resumed_progress_)) resumed_progress_ = p.progress;
  if (!log_.tells(LogLevel::info)) return;
  const auto now = std::chrono::steady_clock::now();
  if (!terminal_ && now - last_ < kBetweenPlainLines) return;
  last_ = now;
  if (options_.format == LogFormat::json) {
    log_.object(json_text(json_of(p)));
    return;
  }
  std::string line;
  if (std::isfinite(p.progress)) {
    line = fmt::format("{} %  ", static_cast<int>(100 * p.progress));
  } else if (horizon_ > 0) {
    const double part = static_cast<double>(done(p)) / static_cast<double>(horizon_);
    line = fmt::format("{} %  ", static_cast<int>(100 * std::min(1.0, part)));
  }
  line += count_of(p.gradients, "steps, ") + count_of(p.exchanges, "exchanges, ");
  if (std::isfinite(p.loss)) line += fmt::format("loss {}, ", as_short(p.loss));
  if (std::isfinite(p.consensus_distance))
    line += "consensus distance " + as_short(p.consensus_distance);
  if (line.size() > 1 && line[line.size() - 2] == ',') line.resize(line.size() - 2);
  line += tested_;
  if (const double left = left_s(p); left > 0) line += fmt::format(", {} left", as_seconds(left));
  if (line == shown_) return;  // no change, as during the final test
  show(line);
  shown_ = std::move(line);
}

void Progress::test(const TestPoint& p, const Score& best) {
  if (options_.format == LogFormat::json) {
    log_.object(json_text(json_of(p)));
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
    log_.info(line);
    return;
  }
  options_.line->write(OpenLine::kProgress, stderr, [&](bool) {
    std::fputs(line.substr(0, columns()).c_str(), stderr);
    std::fflush(stderr);
    return OpenLine::Left::bar;
  });
}

void Progress::tell(LogLevel level, const std::string& event) { log_.tell(level, event); }

}  // namespace grapevine
