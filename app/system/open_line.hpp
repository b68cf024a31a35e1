// OpenLine: the unfinished line of a terminal or a file that several writers share: the log, the
// progress of a run, the output of scripts. A writer first ends the line of another one, and while
// it writes, no other does.
#pragma once
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <memory>

#include "kernels/base/mutex.hpp"

namespace grapevine {

class OpenLine {
 public:
  /// The line that a writer leaves: none; an unfinished one; a bar, which the next text replaces.
  enum class Left { nothing, text, bar };
  // Writers; the others are numbers of scripts.
  static constexpr int kLog = -1, kProgress = -2;

  /// `put(goes_on)` writes to `stream` and returns what it leaves. goes_on: this writer's own text
  /// is unfinished.
  template <class Put>
  void write(int writer, std::FILE* stream, const Put& put) {
    const Lock lock(mutex_);
    const bool goes_on = left_ == Left::text && writer_ == writer && stream_ == stream;
    if (!goes_on) end();
    left_ = put(goes_on);
    writer_ = writer;
    stream_ = stream;
  }

  /// The writer has made its bar a line.
  void finish(int writer, std::FILE* stream) {
    const Lock lock(mutex_);
    const bool stands = left_ == Left::bar && writer_ == writer && stream_ == stream;
    if (!stands && isatty(fileno(stream)) == 1) return;  // another one has replaced it
    std::fputc('\n', stream);
    std::fflush(stream);
    left_ = Left::nothing;
  }

 private:
  void end() GV_REQUIRES(mutex_) {
    if (left_ == Left::text) std::fputc('\n', stream_);
    if (left_ == Left::bar && isatty(fileno(stream_)) == 1) std::fputs("\r\033[K", stream_);
    if (left_ != Left::nothing) std::fflush(stream_);
    left_ = Left::nothing;
  }

  Mutex mutex_;
  Left left_ GV_GUARDED_BY(mutex_) = Left::nothing;
  int writer_ GV_GUARDED_BY(mutex_) = kLog;
  std::FILE* stream_ GV_GUARDED_BY(mutex_) = nullptr;
};

/// That of standard error, if `stream` is the same terminal or file; else a new one.
inline std::shared_ptr<OpenLine> line_of(std::FILE* stream,
                                         const std::shared_ptr<OpenLine>& standard_error) {
  struct stat one {
  }, other{};
  const bool known = fstat(fileno(stream), &one) == 0 && fstat(STDERR_FILENO, &other) == 0;
  const bool same = known && one.st_dev == other.st_dev && one.st_ino == other.st_ino;
  return same ? standard_error : std::make_shared<OpenLine>();
}

}  // namespace grapevine
