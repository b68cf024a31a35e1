// The checkpoints on a disk, and which of them a run can resume from. Pure: the caller passes the
// contents of files.
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "actors/settings/kept_blob.hpp"
#include "app/checkpoint/manifest.hpp"

namespace grapevine {

constexpr uint64_t kMostTextBytes = uint64_t{64} << 20;  // of a manifest or another text file

/// A disk to read from.
struct DiskView {
  // names; empty: there is no such folder.
  std::function<std::vector<std::string>(const std::string& folder)> list;
  // No value: the file cannot be read, or is larger than at_most or than the memory.
  std::function<std::optional<std::string>(const std::string& path, uint64_t at_most)> contents;

  std::optional<std::string> read(const std::string& path,
                                  uint64_t at_most = kMostTextBytes) const {
    return contents(path, at_most);
  }
};

struct Checkpoint {
  std::string path;  // its folder
  CheckpointManifest manifest;
  std::vector<RankRecordPtr> ranks;      // in the manifest's order
  std::vector<KeptBlob> kept;            // likewise: the objects that scripts have stored
  std::vector<std::string> passed_over;  // newer checkpoints that are not complete, a line each
};

/// The folders in RUN/checkpoints, by name.
std::map<std::string, CheckpointFolder> checkpoints_in(const DiskView&, const std::string& folder);

/// The newest complete checkpoint. `path` is a run's folder, or one checkpoint. Errors (user):
/// there is none; the given checkpoint is not complete (with the reason); a checkpoint has a later
/// format, because it may be the newest one and cannot be read here.
Result<Checkpoint> load_checkpoint(const DiskView&, const std::string& path);

/// The newest valid manifest, of a complete checkpoint or not: for what all checkpoints of a run
/// have in common. Errors: as above.
Result<CheckpointManifest> newest_manifest(const DiskView&, const std::string& path);

/// The edges whose two ends have recorded different exchanges, and a bound on the resulting error
/// of the sum that gossip conserves, as a norm. Edges to ranks that are not among these are
/// unknown.
struct Drift {
  struct Edge {
    int i = 0, j = 0;  // i has applied more exchanges
    uint64_t exchanges = 0;
    double at_most = 0;
  };
  std::vector<Edge> edges;
  double at_most = 0;
  std::vector<std::pair<int, int>> unknown;  // i is here, j is not, and they have exchanged
};
Drift drift_of(const std::vector<RankFile>& ranks);

}  // namespace grapevine
