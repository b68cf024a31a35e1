#include "models/write_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace grapevine {
namespace {

bool write_all(int file, const Piece& piece) {
  const char* at = static_cast<const char*>(piece.data);
  for (size_t left = piece.bytes; left > 0;) {
    const ssize_t wrote = ::write(file, at, left);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return false;
    at += wrote;
    left -= static_cast<size_t>(wrote);
  }
  return true;
}

}  // namespace

Status write_whole_file(const std::string& path, const std::vector<Piece>& pieces) {
  const std::string part = path + ".part";
  const int file = ::open(part.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  bool good = file >= 0;
  for (const Piece& piece : pieces) good = good && write_all(file, piece);
  good = good && ::fsync(file) == 0;
  int why = errno;
  if (file >= 0 && ::close(file) != 0 && good) {
    good = false;
    why = errno;
  }
  if (good && std::rename(part.c_str(), path.c_str()) != 0) {
    good = false;
    why = errno;
  }
  if (good) return Done{};
  if (file >= 0) ::unlink(part.c_str());
  return world_error("cannot write " + path + ": " + std::strerror(why));
}

}  // namespace grapevine
