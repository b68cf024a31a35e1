#include "app/system/folder_lock.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

namespace grapevine {

Result<std::optional<FolderLock>> FolderLock::take(const std::string& folder, double patience_s) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::milliseconds kLook{20};
  const auto until = Clock::now() + std::chrono::duration<double>(patience_s);
  FolderLock lock(Descriptor(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)));
  if (!lock.folder_)
    return world_error(fmt::format("cannot open {}: {}", folder, std::strerror(errno)));
  while (::flock(lock.folder_.fd(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    if (errno != EWOULDBLOCK) {
      lock.warning_ =
          fmt::format("{} cannot be locked ({}): a second process could use the same run", folder,
                      std::strerror(errno));
      break;
    }
    if (Clock::now() >= until) return std::optional<FolderLock>();
    std::this_thread::sleep_for(kLook);
  }
  return std::optional<FolderLock>(std::move(lock));
}

}  // namespace grapevine
