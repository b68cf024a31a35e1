#include "tests/checkpoint/forgetful_disk.hpp"

#include <algorithm>

#include "kernels/base/check.hpp"

namespace grapevine::test {
namespace {

std::string parent(const std::string& path) { return path.substr(0, path.rfind('/')); }
std::string name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

template <class... F>
struct Overloaded : F... {
  using F::operator()...;
};
template <class... F>
Overloaded(F...) -> Overloaded<F...>;

// Nothing, the old, the new, the front of the new, or the new with a hole.
std::string torn(const std::string& synced, const std::string& now, Random& random) {
  const auto length = static_cast<uint32_t>(now.size());
  std::string with_hole = now;
  if (length > 0) {
    const uint32_t from = random.below(length);
    for (uint32_t k = from; k < std::min(length, from + 512); ++k)
      with_hole[k] = '\0';
  }
  switch (random.below(5)) {
    case 0: return "";
    case 1: return synced;
    case 2: return now;
    case 3: return now.substr(0, random.below(length + 1));
    default: return with_hole;
  }
}

}  // namespace

ForgetfulDisk::ForgetfulDisk() { folders_["run"]; }

ForgetfulDisk::Folder& ForgetfulDisk::folder_of(const std::string& path) {
  const auto found = folders_.find(parent(path));
  GV_CHECK(found != folders_.end());
  return found->second;
}

ForgetfulDisk::File& ForgetfulDisk::file_at(const std::string& path) {
  const auto found = folder_of(path).now.find(name(path));
  GV_CHECK(found != folder_of(path).now.end());
  return files_[static_cast<size_t>(found->second)];
}

void ForgetfulDisk::change(const std::string& folder, Change change) {
  Folder& f = folders_.at(folder);
  for (const auto& [name, file] : change) {
    f.now.erase(name);
    if (file) f.now[name] = *file;
  }
  f.since.push_back(std::move(change));
}

void ForgetfulDisk::happen(const DiskEffect& effect) {
  std::visit(
      Overloaded{
          [&](const MakeFolder& make) {
            if (folders_.count(make.path) > 0) return;
            GV_CHECK(folders_.contains(parent(make.path)));
            folders_[make.path];
            change(parent(make.path), {{name(make.path), kFolder}});
          },
          [&](const WriteFile& write) {
            std::string text = write.head;
            for (const Piece& piece : write.pieces)
              text.append(static_cast<const char*>(piece.data), piece.bytes);
            if (folder_of(write.path).now.count(name(write.path)) == 0) {
              files_.emplace_back();
              change(parent(write.path), {{name(write.path), static_cast<int>(files_.size()) - 1}});
            }
            file_at(write.path).now = text;
          },
          [&](const SyncFile& sync) { file_at(sync.path).synced = file_at(sync.path).now; },
          [&](const Rename& r) {
            GV_CHECK(parent(r.from) == parent(r.to));
            const int file = folder_of(r.from).now.at(name(r.from));
            change(parent(r.from), {{name(r.from), std::nullopt}, {name(r.to), file}});
          },
          [&](const SyncFolder& sync) {
            Folder& f = folders_.at(sync.path);
            f.synced = f.now;
            f.since.clear();
          },
          [&](const RemoveFile& remove) {
            if (folder_of(remove.path).now.count(name(remove.path)) > 0)
              change(parent(remove.path), {{name(remove.path), std::nullopt}});
          },
          [&](const RemoveFolder& remove) {
            if (folders_.count(remove.path) == 0) return;
            const Names names = folders_.at(remove.path).now;
            for (const auto& [file, number] : names)
              change(remove.path, {{file, std::nullopt}});
            change(parent(remove.path), {{name(remove.path), std::nullopt}});
          }},
      effect);
}

void ForgetfulDisk::stop(Random& random) {
  for (File& file : files_) {
    if (file.now != file.synced) file.now = torn(file.synced, file.now, random);
    file.synced = file.now;
  }
  for (auto& [path, folder] : folders_) {
    for (const Change& change : folder.since) {
      if (random.below(2) == 0) continue;
      for (const auto& [name, file] : change) {
        folder.synced.erase(name);
        if (file) folder.synced[name] = *file;
      }
    }
    folder.since.clear();
    folder.now = folder.synced;
  }
  for (auto at = folders_.begin(); at != folders_.end();) {  // parents come before their children
    const std::string& path = at->first;
    const auto above = path == "run" ? folders_.end() : folders_.find(parent(path));
    const bool is_there =
        path == "run" || (above != folders_.end() && above->second.now.count(name(path)) > 0);
    at = is_there ? std::next(at) : folders_.erase(at);
  }
}

void ForgetfulDisk::flip_bit(const std::string& path, size_t bit) {
  file_at(path).now[bit / 8] ^= static_cast<char>(1 << bit % 8);
}

DiskView ForgetfulDisk::view() const {
  DiskView view;
  view.list = [this](const std::string& folder) {
    std::vector<std::string> names;
    const auto found = folders_.find(folder);
    if (found == folders_.end()) return names;
    for (const auto& [name, file] : found->second.now)
      names.push_back(name);
    return names;
  };
  view.contents = [this](const std::string& path, uint64_t at_most) -> std::optional<std::string> {
    const auto folder = folders_.find(parent(path));
    if (folder == folders_.end()) return std::nullopt;
    const auto file = folder->second.now.find(name(path));
    if (file == folder->second.now.end() || file->second == kFolder) return std::nullopt;
    const std::string& now = files_[static_cast<size_t>(file->second)].now;
    return now.size() <= at_most ? std::optional(now) : std::nullopt;
  };
  return view;
}

}  // namespace grapevine::test
