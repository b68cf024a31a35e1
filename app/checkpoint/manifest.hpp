// The manifest: the contents and the identity of a checkpoint. It is written last: a checkpoint is
// complete if its manifest exists and its files have the hashes in the manifest.
//
//   RUN/checkpoints/000012345/rank-7.safetensors    RankRecord: vectors, and numbers as scalars
//                             rank-7.kept           the object that a script has stored, unchanged
//                             manifest.json
//
// The folder's number counts the gradients of all ranks here. The serial number, which is unique in
// a run, tells which checkpoint is newer. The manifest of every format, also of later ones, is a
// JSON object with its "format" and with "xxh3", the hash of all the rest. So a later format can be
// distinguished from a damaged manifest.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actors/settings/checkpoint_orders.hpp"
#include "app/evaluation/score.hpp"
#include "kernels/base/result.hpp"
#include "messages/guest.hpp"
#include "models/walk.hpp"

namespace grapevine {

constexpr int kCheckpointFormat = 1;
constexpr size_t kCutsAtMost = 64;
constexpr char kManifestName[] = "manifest.json";
constexpr char kCheckpointsFolder[] = "checkpoints";

struct RankFile {
  int rank = 0;
  std::string file;
  uint64_t bytes = 0, hash = 0;  // XXH3 of the whole file
  uint64_t gradients = 0;        // of the rank
  uint64_t position = 0;         // in its data: samples taken since the last cut
  std::vector<std::pair<std::string, uint64_t>> counters;  // of its random streams
  std::vector<RankRecord::Edge> edges;
  struct Kept {                    // the object that its script has stored: rank-7.kept
    uint64_t bytes = 0, hash = 0;  // 0 bytes: none
    uint64_t steps = 0;
  } kept;
  GuestShare share = {};  // of its script
};

struct TensorShape {
  std::string name;
  std::vector<int64_t> shape;

  bool operator==(const TensorShape&) const = default;
};

/// The description of a run in each of its checkpoints.
struct RunIdentity {
  uint64_t job = 0;                // hash of the contents of a rank's state
  uint64_t layout = 0;             // hash of its tensors
  std::string job_is;              // in words
  std::string options;             // a JSON object, as in run.json
  std::string node;                // its name in a run of several processes
  uint64_t batch = 0;              // samples per gradient
  uint64_t data = 0;               // hash of the samples; 0: unknown
  std::string data_is = {};        // in words: the model and the samples
  uint32_t generation = 0;         // of the run; grows by one at each resumption
  std::vector<DataCut> cuts = {};  // of its data, from earlier lives with other numbers of ranks
  std::vector<TensorShape> tensors = {};  // of the model; empty: written by an older program
};

struct CheckpointManifest {
  RunIdentity run;
  uint64_t serial = 0;
  uint64_t gradients = 0;  // of all ranks here, at the start of the checkpoint
  double trained_s = 0;    // as in CheckpointPart; 0 too if an older program wrote it
  uint64_t epoch = 0;
  std::string topology;
  std::string written;          // UTC
  std::optional<Score> score;   // of the last test before it
  std::vector<RankFile> ranks;  // by rising rank
};

/// The state of a checkpoint's folder, from its manifest alone.
struct CheckpointFolder {
  enum class Manifest { none, damaged, later, good };  // later: the format of a later program
  Manifest manifest = Manifest::none;
  uint64_t serial = 0;         // of a good manifest
  std::optional<Score> score;  // likewise, if it has one
};

/// 000012345
std::string checkpoint_name(uint64_t gradients);
std::string rank_file_name(int rank);
std::string kept_file_name(int rank);

std::string text_of(const CheckpointManifest&);

/// The text of a JSON object with the hash of the rest, which replaces an earlier hash.
std::string sealed(const std::string& object);

CheckpointFolder folder_of(const std::string& manifest_text);

/// Errors (user), each starting with `path`: no JSON, a wrong hash, an entry that is missing or of
/// the wrong type, a later format.
Result<CheckpointManifest> parse_manifest(const std::string& path, const std::string& text);

}  // namespace grapevine
