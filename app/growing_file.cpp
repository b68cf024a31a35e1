#include "app/growing_file.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace grapevine {

Result<GrowingFile> GrowingFile::make(const std::string& path) {
  File file(std::fopen(path.c_str(), "wx"));
  if (!file) return world_error(std::strerror(errno));
  std::setvbuf(file.get(), nullptr, _IONBF, 0);
  return GrowingFile(path, std::move(file));
}

Status GrowingFile::append(const std::string& record) {
  if (std::fwrite(record.data(), 1, record.size(), file_.get()) == record.size()) {
    written_ += static_cast<long>(record.size());
    failing_ = false;
    return Done{};
  }
  failure_ = std::strerror(errno);
  ++missing_;
  std::clearerr(file_.get());
  if (ftruncate(descriptor(), written_) == 0) std::fseek(file_.get(), written_, SEEK_SET);
  if (std::exchange(failing_, true)) return Done{};
  return world_error(fmt::format("cannot write {}: {}; what comes is missing until it can be again",
                                 path_, failure_));
}

}  // namespace grapevine
