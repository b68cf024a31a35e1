// CheckpointWriter: the order in which a checkpoint is written, so that a checkpoint that looks
// complete is complete whenever the machine stops. A state machine without I/O: it returns the
// operations (disk_effect.hpp).
//
//   begin    the folder of its number; the entries of its parent folders synced
//   rank     NAME.part written, synced, renamed: one after the other, as they are recorded
//   commit   the folder synced; then manifest.json likewise, as the last file; the folder synced
//            again
//   tidy     only now checkpoints older than the last kKept, and incomplete ones, are removed; the
//            one with the best score is kept
//
// After an error of the disk: abandon(). A checkpoint whose manifest has a later format is never
// changed.
#pragma once
#include <map>
#include <set>

#include "actors/settings/kept_blob.hpp"
#include "app/checkpoint/disk_effect.hpp"
#include "app/checkpoint/manifest.hpp"

namespace grapevine {

class CheckpointWriter {
 public:
  static constexpr size_t kKept = 3;

  /// `folder`: RUN/checkpoints. `there`: its folders.
  CheckpointWriter(std::string folder, std::map<std::string, CheckpointFolder> there, RunIdentity);

  bool is_open() const { return open_; }
  DiskEffects begin(uint64_t gradients, double trained_s = 0);  // REQUIRES: none is open
  /// `kept`: the object that a script has stored with the rank.
  DiskEffects rank(const RankRecordPtr&, KeptBlob kept = {});
  DiskEffects commit(uint64_t epoch, const std::string& topology, const std::string& utc,
                     std::optional<Score> = {});
  DiskEffects tidy();     // REQUIRES: the operations of commit() have succeeded
  DiskEffects abandon();  // removes all that was written since begin()

  /// The open checkpoint, or the last one.
  std::string path() const { return folder_ + "/" + name_; }

 private:
  bool stays(const std::string& name) const;
  std::string best() const;

  std::string folder_;
  std::map<std::string, CheckpointFolder> there_;
  RunIdentity run_;
  bool open_ = false;
  std::string name_;
  CheckpointManifest manifest_;
};

/// The head of a rank's file. The bytes of the vectors follow in order, then the statistics, then
/// the numbers.
WriteFile file_of(const std::string& path, const RankRecordPtr&);

}  // namespace grapevine
