#include "app/launch/script_output.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

namespace grapevine {
namespace {

using namespace std::chrono_literals;

constexpr size_t kLongest = 64 << 10;  // longest part of a line that is kept
constexpr auto kWait = 200ms;          // for the rest of a line
constexpr auto kBetweenBars = 5s;      // in the log

/// The bytes at the end of a UTF-8 text that begin a character and do not end it.
size_t begun_character(std::string_view text) {
  for (size_t k = 1; k <= std::min<size_t>(3, text.size()); ++k) {
    const auto byte = static_cast<unsigned char>(text[text.size() - k]);
    if (byte < 0x80) return 0;
    if (byte < 0xC0) continue;  // inside a character
    const size_t length = byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : 2;
    return k < length ? k : 0;
  }
  return 0;
}

}  // namespace

ScriptOutput::ScriptOutput(std::FILE* stream, size_t scripts, LogFormat format, const Log& log)
    : stream_(stream),
      json_(format == LogFormat::json),
      log_(log),
      line_(line_of(stream, log.line())),
      last_(scripts) {}

void ScriptOutput::put(size_t script, int rank, std::string_view bytes, Clock::time_point now) {
  Last& last = last_[script];
  while (!bytes.empty()) {
    const size_t at = std::min(bytes.find_first_of("\r\n"), bytes.size());
    const size_t room = kLongest - last.text.size(), taken = std::min(at, room);
    if (last.text.empty()) last.since = now;
    last.text += bytes.substr(0, taken);
    const bool ends = taken == at && at < bytes.size();
    if (ends)
      end(script, rank, bytes[at], now);
    else if (taken == room)
      json_ ? tell(script, rank, false) : show(script, rank, '\0');
    bytes.remove_prefix(taken + (ends ? 1 : 0));
  }
}

void ScriptOutput::end(size_t script, int rank, char how, Clock::time_point now) {
  Last& last = last_[script];
  const bool again = last.is_bar && last.text.empty();  // the end of a line that is already shown
  if (json_) {
    const bool is_due = how == '\n' || now - last.told >= kBetweenBars;
    if (!again && is_due) {
      last.told = now;
      tell(script, rank, true);
    }
    last.text.clear();
  } else if (!again) {
    show(script, rank, how);
  } else if (how == '\n') {
    line_->finish(static_cast<int>(script), stream_);
  }
  last.is_bar = how == '\r';
}

void ScriptOutput::flush(size_t script, int rank, bool all, Clock::time_point now) {
  Last& last = last_[script];
  if (last.text.empty() || (!all && now - last.since < kWait)) return;
  if (all)
    end(script, rank, '\n', now);
  else if (!json_)
    show(script, rank, last.is_bar ? '\r' : '\0');
}

std::string ScriptOutput::take(size_t script, bool is_whole) {
  std::string& text = last_[script].text;
  const size_t left = is_whole ? 0 : begun_character(text);
  std::string rest = text.substr(text.size() - left);
  text.resize(text.size() - left);
  return std::exchange(text, std::move(rest));
}

void ScriptOutput::show(size_t script, int rank, char how) {
  const std::string text = take(script, how != '\0');
  if (text.empty() && how == '\0') return;
  line_->write(static_cast<int>(script), stream_, [&](bool goes_on) {
    std::string shown = goes_on ? text : fmt::format("[{}] {}", rank, text);
    if (how != '\0') shown += how;
    std::fwrite(shown.data(), 1, shown.size(), stream_);
    std::fflush(stream_);
    return how == '\0'   ? OpenLine::Left::text
           : how == '\r' ? OpenLine::Left::bar
                         : OpenLine::Left::nothing;
  });
}

void ScriptOutput::tell(size_t script, int rank, bool is_whole) {
  log_.announce(fmt::format("[{}] {}", rank, take(script, is_whole)));
}

}  // namespace grapevine
