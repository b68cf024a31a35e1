#include "app/system/growing_file.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace grapevine {

Result<GrowingFile> GrowingFile::make(const std::string& path) { return open(path, "wx"); }

Result<GrowingFile> GrowingFile::go_on(const std::string& path) { return open(path, "a"); }

Result<GrowingFile> GrowingFile::open(const std::string& path, const char* mode) {
  File file(std::fopen(path.c_str(), mode));
  if (!file || std::fseek(file.get(), 0, SEEK_END) != 0) return world_error(std::strerror(errno));
  std::setvbuf(file.get(), nullptr, _IONBF, 0);
  const long written = std::ftell(file.get());
  return GrowingFile(path, std::move(file), written);
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
  return world_error(fmt::format(
      "cannot write {}: {}; records are missing until writing works again", path_, failure_));
}

}  // namespace grapevine
