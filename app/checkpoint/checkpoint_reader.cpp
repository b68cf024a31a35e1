#include "app/checkpoint/checkpoint_reader.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include "app/system/words.hpp"
#include "kernels/base/checksum.hpp"
#include "models/files/tensor_file.hpp"

namespace grapevine {
namespace {

std::string manifest_of(const std::string& folder) { return folder + "/" + kManifestName; }

Result<CheckpointManifest> read_manifest(const DiskView& disk, const std::string& folder) {
  const std::string path = manifest_of(folder);
  const auto text = disk.read(path);
  if (!text) return user_error(fmt::format("{} has no {}", folder, kManifestName));
  return parse_manifest(path, *text);
}

// Tensors without a dimension are numbers.
RankRecordPtr record_of(const RankFile& file, std::vector<StoredTensor> tensors) {
  auto record = std::make_shared<RankRecord>();
  record->rank = file.rank;
  record->gradients = file.gradients;
  record->edges = file.edges;
  for (const StoredTensor& tensor : tensors) {
    const bool real = tensor.type == TensorType::f64;
    if (tensor.shape.empty() && (real || tensor.type == TensorType::i64)) {
      record->numbers.push_back({tensor.name, 0, real});
      std::memcpy(&record->numbers.back().bits, tensor.bytes.data(), sizeof(uint64_t));
    } else if (tensor.shape.size() == 1 && (real || tensor.type == TensorType::f32)) {
      Buffer values(static_cast<size_t>(tensor.shape[0]), real ? DType::f64 : DType::f32);
      std::memcpy(values.vec().data, tensor.bytes.data(), tensor.bytes.size());
      if (tensor.name == "statistics") {
        record->statistics = std::move(values);
      } else {
        record->vectors.push_back({tensor.name, std::move(values)});
      }
    }
  }
  if (record->statistics.size() == 0) record->statistics = Buffer(0, DType::f32);
  return record;
}

Result<std::string> read_whole(const DiskView& disk, const std::string& path, uint64_t size,
                               uint64_t hash) {
  auto bytes = disk.read(path, size);
  if (!bytes)
    return user_error(fmt::format("{} is missing, has more than its {} bytes or cannot be read",
                                  path, with_commas(static_cast<double>(size))));
  Checksum sum;
  sum.add(bytes->data(), bytes->size());
  if (bytes->size() == size && sum.value() == hash) return std::move(*bytes);
  return user_error(path + " has changed since it was written: its hash differs");
}

Result<RankRecordPtr> read_rank(const DiskView& disk, const std::string& folder,
                                const RankFile& file) {
  const std::string path = folder + "/" + file.file;
  const auto bytes = read_whole(disk, path, file.bytes, file.hash);
  if (!bytes) return bytes.error();
  auto tensors =
      parse_safetensors(path, {reinterpret_cast<const uint8_t*>(bytes->data()), bytes->size()});
  if (!tensors) return user_error(tensors.error().message);
  RankRecordPtr record = record_of(file, std::move(*tensors));
  if (record->vectors.empty() || record->vectors.front().name != "x")
    return user_error(path + " does not begin with tensor x");
  return record;
}

Result<KeptBlob> read_kept(const DiskView& disk, const std::string& folder, const RankFile& file) {
  const auto& [size, hash, steps] = file.kept;
  if (size == 0) return KeptBlob{{}, 0, file.share};
  auto bytes = read_whole(disk, folder + "/" + kept_file_name(file.rank), size, hash);
  if (!bytes) return bytes.error();
  return KeptBlob{std::move(*bytes), steps, file.share};
}

Result<Checkpoint> load_folder(const DiskView& disk, const std::string& folder) {
  auto manifest = read_manifest(disk, folder);
  if (!manifest) return manifest.error();
  Checkpoint loaded{folder, std::move(*manifest), {}, {}, {}};
  for (const RankFile& file : loaded.manifest.ranks) {
    auto record = read_rank(disk, folder, file);
    if (!record) return record.error();
    loaded.ranks.push_back(std::move(*record));
    auto kept = read_kept(disk, folder, file);
    if (!kept) return kept.error();
    loaded.kept.push_back(std::move(*kept));
    const auto& [name, x] = loaded.ranks.back()->vectors.front();
    const Buffer& first = loaded.ranks.front()->vectors.front().values;
    if (x.size() != first.size() || x.dtype() != first.dtype())
      return user_error(folder + "/" + file.file + " is of another model than the first rank's");
  }
  return loaded;
}

Error none_in(const std::string& path) {
  return user_error(
      fmt::format("resume is \"{}\", which has no checkpoint, accepted: a run's folder with {}/, "
                  "or one of them",
                  path, kCheckpointsFolder));
}

// The folders with a manifest, newest first; damaged ones last. Error (user): one has a later
// format.
Result<std::vector<std::string>> candidates(const DiskView& disk, const std::string& path) {
  const std::string folder = path + "/" + kCheckpointsFolder;
  std::vector<std::pair<uint64_t, std::string>> found;
  for (const auto& [name, about] : checkpoints_in(disk, folder)) {
    const std::string at = folder + "/" + name;
    if (about.manifest == CheckpointFolder::Manifest::later) return read_manifest(disk, at).error();
    found.push_back({about.serial, at});
  }
  std::sort(found.rbegin(), found.rend());
  std::vector<std::string> folders;
  for (auto& [serial, name] : found)
    folders.push_back(std::move(name));
  return folders;
}

}  // namespace

std::map<std::string, CheckpointFolder> checkpoints_in(const DiskView& disk,
                                                       const std::string& folder) {
  std::map<std::string, CheckpointFolder> found;
  for (const std::string& name : disk.list(folder)) {
    if (name.empty() || name[0] < '0' || name[0] > '9') continue;
    const auto text = disk.read(manifest_of(folder + "/" + name));
    found[name] = text ? folder_of(*text) : CheckpointFolder{};
  }
  return found;
}

Result<Checkpoint> load_checkpoint(const DiskView& disk, const std::string& path) {
  if (disk.read(manifest_of(path))) return load_folder(disk, path);
  const auto folders = candidates(disk, path);
  if (!folders) return folders.error();
  std::vector<std::string> passed_over;
  for (const std::string& folder : *folders) {
    auto loaded = load_folder(disk, folder);
    if (loaded) {
      loaded->passed_over = std::move(passed_over);
      return loaded;
    }
    passed_over.push_back(loaded.error().message);
  }
  if (passed_over.empty()) return none_in(path);
  return user_error(fmt::format("resume is \"{}\", which has no complete checkpoint: {}", path,
                                passed_over.front()));
}

Result<CheckpointManifest> newest_manifest(const DiskView& disk, const std::string& path) {
  if (disk.read(manifest_of(path))) return read_manifest(disk, path);
  const auto folders = candidates(disk, path);
  if (!folders) return folders.error();
  for (const std::string& folder : *folders)
    if (auto manifest = read_manifest(disk, folder)) return manifest;
  return none_in(path);
}

Drift drift_of(const std::vector<RankFile>& ranks) {
  std::map<std::pair<int, int>, const RankRecord::Edge*> ends;
  std::set<int> here;
  for (const RankFile& rank : ranks) {
    here.insert(rank.rank);
    for (const RankRecord::Edge& end : rank.edges)
      ends[{rank.rank, end.peer}] = &end;
  }
  Drift drift;
  for (const auto& [edge, end] : ends) {
    const auto [i, j] = edge;
    if (here.count(j) == 0) {
      if (end->exchanges > 0) drift.unknown.push_back(edge);
      continue;
    }
    static const RankRecord::Edge kNone;
    const auto found = ends.find({j, i});
    const RankRecord::Edge& other = found == ends.end() ? kNone : *found->second;
    const bool same_lives =
        end->incarnation == other.peer_incarnation && end->peer_incarnation == other.incarnation;
    if (same_lives && end->exchanges <= other.exchanges) continue;  // the other end reports it
    if (!same_lives && other.exchanges > 0 && i > j) continue;
    const uint64_t more = same_lives ? end->exchanges - other.exchanges : end->exchanges;
    drift.edges.push_back(
        {i, j, more, same_lives ? std::abs(end->moved - other.moved) : end->moved});
    drift.at_most += drift.edges.back().at_most;
  }
  return drift;
}

}  // namespace grapevine
