// The checkpoints on a disk, and which of them a run can resume from. Pure: the contents of files
// are passed in.
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "actors/settings/kept_blob.hpp"
#include "app/checkpoint/manifest.hpp"

namespace grapevine {

constexpr uint64_t kMostTextBytes = uint64_t{64} << 20;  // of a manifest, or another file of text

/// A disk to read from.
struct DiskView {
  std::function<std::vector<std::string>(const std::string& folder)> list;  // names; none: no such
  // Nothing: it cannot be read, or has more bytes than that or than fit into memory.
  std::function<std::optional<std::string>(const std::string& path, uint64_t at_most)> contents;

  std::optional<std::string> read(const std::string& path,
                                  uint64_t at_most = kMostTextBytes) const {
    return contents(path, at_most);
  }
};

struct Checkpoint {
  std::string path;  // its folder
  CheckpointManifest manifest;
  std::vector<RankRecordPtr> ranks;      // as the manifest has them
  std::vector<KeptBlob> kept;            // likewise: what their scripts have left
  std::vector<std::string> passed_over;  // newer ones that are not whole, a line each
};

/// The folders in RUN/checkpoints, by their names.
std::map<std::string, CheckpointFolder> checkpoints_in(const DiskView&, const std::string& folder);

/// The newest whole checkpoint. `path` is a run's folder, or one checkpoint. Errors (user): there
/// is none, the one that is meant is not whole and why, a later format: of a run whose newest might
/// be one of those that cannot be read here, none is taken for it.
Result<Checkpoint> load_checkpoint(const DiskView&, const std::string& path);

/// The manifest of the newest that has a good one, whole or not: for what all of a run have in
/// common. Errors: as above.
Result<CheckpointManifest> newest_manifest(const DiskView&, const std::string& path);

/// The edges whose two ends have recorded different exchanges, and a bound for the norm by which
/// the sum that gossip conserves may therefore be wrong. Nothing is known of edges to ranks that
/// are not among these.
struct Drift {
  struct Edge {
    int i = 0, j = 0;  // i has had more
    uint64_t exchanges = 0;
    double at_most = 0;
  };
  std::vector<Edge> edges;
  double at_most = 0;
  std::vector<std::pair<int, int>> unknown;  // i is here, j is not, and they have had exchanges
};
Drift drift_of(const std::vector<RankFile>& ranks);

}  // namespace grapevine
