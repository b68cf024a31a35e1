#include "app/run_directory.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <utility>

#include "kernels/write_file.hpp"

namespace grapevine {
namespace {

namespace fs = std::filesystem;

const char* const kMetrics = "metrics.jsonl";

std::string part_of(const std::string& path) { return fmt::format("{}/{}.part", path, kMetrics); }

std::string utc(const char* format) {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  return {text, std::strftime(text, sizeof text, format, &parts)};
}

Error unwritable(const std::string& path, const std::string& why) {
  return world_error(fmt::format(
      "out is \"{}\", which cannot be written ({}), accepted: a folder that can", path, why));
}

}  // namespace

Result<RunDirectory> RunDirectory::make(const std::string& path) {
  for (const char* name : {"run.json", "metrics.jsonl", "model.safetensors", "model.pt"}) {
    std::error_code unreadable;
    if (fs::exists(fs::path(path) / name, unreadable)) {
      return user_error(fmt::format(
          "out is \"{}\", which holds a run already ({}), accepted: a new or an empty folder", path,
          name));
    }
  }
  std::error_code failed;
  const bool made = fs::create_directories(path, failed);
  if (failed) return unwritable(path, failed.message());
  File metrics(std::fopen(part_of(path).c_str(), "wx"));
  if (!metrics) {
    const std::string why = std::strerror(errno);
    if (made) fs::remove(path, failed);
    return unwritable(path, why);
  }
  std::setvbuf(metrics.get(), nullptr, _IONBF, 0);
  return RunDirectory(path, std::move(metrics));
}

RunDirectory::~RunDirectory() {
  if (!metrics_) return;
  metrics_.reset();
  std::error_code ignored;
  fs::remove(part_of(path_), ignored);
}

Status RunDirectory::write(const std::string& name, const std::string& text) const {
  return write_whole_file(fmt::format("{}/{}", path_, name), {{text.data(), text.size()}});
}

Status RunDirectory::stream(const std::string& line) {
  const std::string whole = line + "\n";
  if (std::fwrite(whole.data(), 1, whole.size(), metrics_.get()) == whole.size()) {
    written_ += static_cast<long>(whole.size());
    failing_ = false;
    return Done{};
  }
  failure_ = std::strerror(errno);
  ++missing_;
  std::clearerr(metrics_.get());
  if (ftruncate(fileno(metrics_.get()), written_) == 0)
    std::fseek(metrics_.get(), written_, SEEK_SET);
  if (std::exchange(failing_, true)) return Done{};
  return world_error(fmt::format("cannot write {}: {}; lines are missing until it can be again",
                                 part_of(path_), failure_));
}

Status RunDirectory::end_stream() {
  const std::string part = part_of(path_), whole = fmt::format("{}/{}", path_, kMetrics);
  const Status finished = finish_file(fileno(metrics_.get()), part, whole);
  metrics_.reset();
  if (!finished || missing_ == 0) return finished;
  return world_error(fmt::format("{} lacks {} lines: {}", whole, missing_, failure_));
}

std::string default_run_path(const std::string& method, const std::string& topology, uint64_t seed,
                             const std::string& node) {
  std::string name =
      fmt::format("{}-{}-{}{}{}", method, topology.substr(topology.find_last_of('/') + 1), seed,
                  node.empty() ? "" : "-", node);
  for (char& c : name)
    if (c == ':' || c == '.' || c == ' ' || c == '/') c = '-';
  const std::string path = fmt::format("runs/{}-{}", utc("%Y%m%dT%H%M%SZ"), name);
  std::error_code unreadable;
  std::string free = path;
  for (int k = 2; fs::exists(free, unreadable); ++k)
    free = fmt::format("{}-{}", path, k);
  return free;
}

std::string utc_now() { return utc("%Y-%m-%dT%H:%M:%SZ"); }

}  // namespace grapevine
