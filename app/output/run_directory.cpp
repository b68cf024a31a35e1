#include "app/output/run_directory.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "app/system/words.hpp"
#include "kernels/base/write_file.hpp"

namespace grapevine {
namespace {

namespace fs = std::filesystem;

const char* const kMetrics = "metrics.jsonl";
const char* const kRecord = "run.json";

std::string part_of(const std::string& path) { return fmt::format("{}/{}.part", path, kMetrics); }

// The lines of an earlier life, without a last one that was cut off.
void restore_part(const std::string& path) {
  const std::string part = part_of(path), whole = fmt::format("{}/{}", path, kMetrics);
  std::error_code failed;
  if (fs::exists(whole, failed)) fs::rename(whole, part, failed);
  std::ifstream file(part, std::ios::binary | std::ios::ate);
  for (std::streamoff at = file ? static_cast<std::streamoff>(file.tellg()) : 0; at > 0; --at) {
    if (file.seekg(at - 1).get() != '\n') continue;
    file.close();
    fs::resize_file(part, static_cast<uintmax_t>(at), failed);
    return;
  }
  if (file) fs::resize_file(part, 0, failed);
}

}  // namespace

Error unwritable(const std::string& path, const std::string& why) {
  return world_error(
      fmt::format("out is \"{}\", which cannot be written ({}), accepted: a folder that can be "
                  "written",
                  path, why));
}

Error run_is_taken(const std::string& folder) {
  return user_error(fmt::format(
      "out is \"{}\", in which another process has its run, accepted: another folder", folder));
}

namespace {

Status holds_no_run(const std::string& path) {
  for (const char* name : {kRecord, kMetrics, "model.safetensors", "model.pt"}) {
    std::error_code unreadable;
    if (fs::exists(fs::path(path) / name, unreadable)) {
      return user_error(fmt::format(
          "out is \"{}\", which holds a run already ({}), accepted: a new or an empty folder, or "
          "resume \"{}\" to continue it",
          path, name, path));
    }
  }
  return Done{};
}

// A file without a name, for whose bytes the disk has room. Empty: the system refuses it.
Descriptor reserve_in(const std::string& path) {
  constexpr off_t kRecord_bytes = 64 << 10;
  const std::string name = fmt::format("{}/reserve.{}.part", path, ::getpid());
  Descriptor file(::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  ::unlink(name.c_str());
  if (file && ::posix_fallocate(file.fd(), 0, kRecord_bytes) != 0) return {};
  return file;
}

}  // namespace

Status RunDirectory::may_be_made(const std::string& path, bool takes_up) {
  if (Status free = holds_no_run(path); !takes_up && !free) return free;
  std::error_code unreadable;
  fs::path there = fs::absolute(path, unreadable);
  while (there.has_relative_path() && !fs::exists(there, unreadable))
    there = there.parent_path();
  if (!fs::is_directory(there, unreadable)) return unwritable(path, std::strerror(ENOTDIR));
  if (access(there.c_str(), W_OK | X_OK) != 0) return unwritable(path, std::strerror(errno));
  return Done{};
}

Result<RunDirectory> RunDirectory::make(const std::string& path,
                                        std::optional<FolderLock> taken_up) {
  const bool takes_up = taken_up.has_value();
  if (Status free = holds_no_run(path); !takes_up && !free) return free.error();
  std::error_code failed;
  const bool made = fs::create_directories(path, failed);
  if (failed) return unwritable(path, failed.message());
  auto lock = takes_up ? std::move(taken_up) : FolderLock::take(path);
  if (!lock) return unwritable(path, lock.error().message);
  if (!*lock) return run_is_taken(path);
  if (takes_up) restore_part(path);
  auto metrics = takes_up ? GrowingFile::go_on(part_of(path)) : GrowingFile::make(part_of(path));
  if (!metrics) {
    if (made) fs::remove(path, failed);
    return unwritable(path, metrics.error().message);
  }
  return RunDirectory(path, std::move(**lock), std::move(*metrics), takes_up, reserve_in(path));
}

RunDirectory::~RunDirectory() {
  if (!metrics_) return;
  metrics_.reset();
  if (takes_up_) return;
  std::error_code ignored;
  fs::remove(part_of(path_), ignored);
}

Status RunDirectory::write(const std::string& name, const std::string& text) const {
  return write_whole_file(fmt::format("{}/{}", path_, name), {{text.data(), text.size()}});
}

Status RunDirectory::write_record(const std::string& text) {
  const Status written = write(kRecord, text);
  if (written) return written;
  reserve_ = {};
  return write(kRecord, text);
}

std::ifstream RunDirectory::lines() const { return std::ifstream(part_of(path_)); }

Status RunDirectory::stream(const std::string& line) { return metrics_->append(line + "\n"); }

Status RunDirectory::end_stream() {
  const std::unique_ptr<GrowingFile> metrics = std::move(metrics_);
  const std::string whole = fmt::format("{}/{}", path_, kMetrics);
  const Status finished = finish_file(metrics->descriptor(), metrics->path(), whole);
  if (!finished || metrics->missing() == 0) return finished;
  return world_error(
      fmt::format("{} lacks {} lines: {}", whole, metrics->missing(), metrics->failure()));
}

std::string default_run_folder() { return "runs"; }

std::string default_run_path(const std::string& method, const std::string& topology, uint64_t seed,
                             const std::string& node) {
  std::string name =
      fmt::format("{}-{}-{}{}{}", method, topology.substr(topology.find_last_of('/') + 1), seed,
                  node.empty() ? "" : "-", node);
  for (char& c : name)
    if (c == ':' || c == '.' || c == ' ' || c == '/') c = '-';
  const std::string folder = default_run_folder();
  const std::string path = fmt::format("{}/{}-{}", folder, utc_now("%Y%m%dT%H%M%SZ"), name);
  std::error_code failed;
  fs::create_directories(folder, failed);
  std::string free = path;
  for (int k = 2; !fs::create_directory(free, failed) && !failed; ++k)
    free = fmt::format("{}-{}", path, k);
  return free;  // if it cannot be made, the first write reports it
}

}  // namespace grapevine
