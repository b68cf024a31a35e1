#include "app/checkpoint/checkpoint_writer.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "kernels/base/checksum.hpp"
#include "kernels/base/descriptor.hpp"
#include "models/files/model_file.hpp"

namespace grapevine {
namespace {

using Manifest = CheckpointFolder::Manifest;

TensorType type_of(const Buffer& x) {
  return x.dtype() == DType::f32 ? TensorType::f32 : TensorType::f64;
}

DiskEffects whole_file(WriteFile file) {
  const std::string path = file.path;
  file.path += ".part";
  const std::string part = file.path;
  return {std::move(file), SyncFile{part}, Rename{part, path}};
}

void add(DiskEffects& to, DiskEffects more) {
  to.insert(to.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

// Samples since the last cut of the data. Ranks that joined share the data of others.
uint64_t position_of(const RankRecord& record, const RunIdentity& run) {
  uint64_t first = 0;
  if (!run.cuts.empty()) {
    const std::vector<uint64_t>& firsts = run.cuts.back().first;
    if (!firsts.empty()) first = firsts[static_cast<size_t>(record.rank) % firsts.size()];
  }
  return (record.gradients - std::min(first, record.gradients)) * run.batch;
}

RankFile describe(const WriteFile& file, const RankRecord& record, const RunIdentity& run) {
  RankFile described;
  described.rank = record.rank;
  described.file = rank_file_name(record.rank);
  described.gradients = record.gradients;
  described.position = position_of(record, run);
  described.edges = record.edges;
  described.bytes = file.head.size();
  Checksum sum;
  sum.add(file.head.data(), file.head.size());
  for (const Piece& piece : file.pieces) {
    sum.add(piece.data, piece.bytes);
    described.bytes += piece.bytes;
  }
  described.hash = sum.value();
  described.counters.emplace_back("gradients", record.gradients);
  for (const RankRecord::Number& n : record.numbers)
    if (!n.is_real) described.counters.emplace_back(n.name, n.bits);
  return described;
}

}  // namespace

WriteFile file_of(const std::string& path, const RankRecordPtr& record) {
  std::vector<ModelTensor> tensors;
  const auto add_vector = [&](const std::string& name, const Buffer& x) {
    tensors.push_back({name, {static_cast<int64_t>(x.size())}, type_of(x), x.vec().data});
  };
  for (const RankRecord::Vector& v : record->vectors)
    add_vector(v.name, v.values);
  if (record->statistics.size() > 0) add_vector("statistics", record->statistics);
  for (const RankRecord::Number& n : record->numbers)
    tensors.push_back({n.name, {}, n.is_real ? TensorType::f64 : TensorType::i64, &n.bits});
  WriteFile file{path, safetensors_head(tensors), {}, record};
  for (const ModelTensor& tensor : tensors)
    file.pieces.push_back({tensor.data, tensor.bytes()});
  return file;
}

CheckpointWriter::CheckpointWriter(std::string folder,
                                   std::map<std::string, CheckpointFolder> there, RunIdentity run)
    : folder_(std::move(folder)), there_(std::move(there)), run_(std::move(run)) {}

DiskEffects CheckpointWriter::begin(uint64_t gradients, double trained_s) {
  GV_CHECK(!open_);
  open_ = true;
  uint64_t newest = 0;
  for (const auto& [name, known] : there_)
    newest = std::max(newest, known.serial);
  // If a kept checkpoint has this number, it must not change before the next one is complete.
  name_ = checkpoint_name(gradients);
  for (uint64_t k = newest + 1; stays(name_); ++k)
    name_ = fmt::format("{}-{}", checkpoint_name(gradients), k);
  manifest_ = {};
  manifest_.run = run_;
  manifest_.serial = newest + 1;
  manifest_.gradients = gradients;
  manifest_.trained_s = trained_s;
  DiskEffects effects = {MakeFolder{folder_}, SyncFolder{parent_of(folder_)}};
  if (there_.count(name_) > 0)
    add(effects, {RemoveFile{path() + "/" + kManifestName}, SyncFolder{path()}});
  there_[name_] = {};
  add(effects, {MakeFolder{path()}, SyncFolder{folder_}});
  return effects;
}

bool CheckpointWriter::stays(const std::string& name) const {
  const auto known = there_.find(name);
  return known != there_.end() &&
         (known->second.manifest == Manifest::good || known->second.manifest == Manifest::later);
}

DiskEffects CheckpointWriter::rank(const RankRecordPtr& record, KeptBlob kept) {
  GV_CHECK(open_);
  WriteFile file = file_of(path() + "/" + rank_file_name(record->rank), record);
  manifest_.ranks.push_back(describe(file, *record, run_));
  DiskEffects effects = whole_file(std::move(file));
  manifest_.ranks.back().share = kept.share;
  if (kept.bytes.empty()) return effects;
  Checksum sum;
  sum.add(kept.bytes.data(), kept.bytes.size());
  manifest_.ranks.back().kept = {kept.bytes.size(), sum.value(), kept.steps};
  add(effects,
      whole_file(
          {path() + "/" + kept_file_name(record->rank), std::move(kept.bytes), {}, nullptr}));
  return effects;
}

DiskEffects CheckpointWriter::commit(uint64_t epoch, const std::string& topology,
                                     const std::string& utc, std::optional<Score> score) {
  GV_CHECK(open_);
  manifest_.epoch = epoch;
  manifest_.topology = topology;
  manifest_.written = utc;
  manifest_.score = std::move(score);
  DiskEffects effects = {SyncFolder{path()}};
  add(effects, whole_file({path() + "/" + kManifestName, text_of(manifest_), {}, nullptr}));
  effects.push_back(SyncFolder{path()});
  return effects;
}

DiskEffects CheckpointWriter::tidy() {
  GV_CHECK(open_);
  open_ = false;
  there_[name_] = {Manifest::good, manifest_.serial, manifest_.score};
  const std::string best_one = best();
  std::vector<uint64_t> serials;
  for (const auto& [name, known] : there_)
    serials.push_back(known.serial);
  std::sort(serials.rbegin(), serials.rend());
  const uint64_t oldest = serials.size() >= kKept ? serials[kKept - 1] : 0;
  DiskEffects effects;
  std::erase_if(there_, [&](const auto& entry) {
    const auto& [name, known] = entry;
    const bool is_kept =
        known.manifest == Manifest::good && (known.serial >= oldest || name == best_one);
    if (is_kept || known.manifest == Manifest::later) return false;
    const std::string old = folder_ + "/" + name;
    // Without its manifest it is no checkpoint, so a half-removed folder is none either.
    add(effects, {RemoveFile{old + "/" + kManifestName}, SyncFolder{old}, RemoveFolder{old}});
    return true;
  });
  return effects;
}

// The best by the newest one's measure; of equal ones the oldest, which was written directly after
// the test. Empty: none has a score.
std::string CheckpointWriter::best() const {
  std::map<uint64_t, std::string> names;
  for (const auto& [name, known] : there_)
    if (known.manifest == Manifest::good && known.score) names[known.serial] = name;
  if (names.empty()) return {};
  const std::string* best = &names.rbegin()->second;
  for (auto at = names.rbegin(); at != names.rend(); ++at) {
    const Score &score = *there_.at(at->second).score, &so_far = *there_.at(*best).score;
    if (better(score, so_far) || (score.by == so_far.by && score.value == so_far.value))
      best = &at->second;
  }
  return *best;
}

DiskEffects CheckpointWriter::abandon() {
  open_ = false;
  there_.erase(name_);
  return {RemoveFile{path() + "/" + kManifestName}, RemoveFolder{path()}};
}

}  // namespace grapevine
