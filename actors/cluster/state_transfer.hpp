// StateSource and Fetcher: how a new node gets the state of a rank, as state machines without I/O.
//
//   FETCH (no pieces)  ------------------>   a snapshot is taken, and hashed
//                      <------------------   MANIFEST: a hash per piece
//   FETCH 0 1 2 3      ------------------>
//                      <------------------   PIECE 0, checked against its hash
//   FETCH 4            ------------------>   (four are under way, until all are there)
//
// The source keeps training; it sends a snapshot. If it dies, is silent or lies, the node asks
// another one. It also does so if a number is not finite, or if no rank of this run can have that
// state. The other source has another snapshot: pieces with equal hashes are kept, the others are
// fetched again, so the node ends with one source's snapshot to the bit. If there is another
// source, the complete state is compared with some pieces of that source's snapshot. The pieces are
// drawn at random, so no source knows them beforehand. If the two are far from each other, one of
// the sources is wrong, and the next source is asked. If no two sources are near each other, the
// node starts with the last state and reports it. Pieces are expected at the measured rate. After
// three time-outs without a piece, or three wrong pieces, the source is abandoned. `now` as in
// membership.hpp.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "actors/cluster/state_pieces.hpp"
#include "kernels/base/smoothed_time.hpp"
#include "messages/parcel.hpp"

namespace grapevine {

using SnapshotPtr = std::shared_ptr<const std::vector<Buffer>>;

constexpr double kLeastLapse_s = 0.3;  // the least time-out of a new node
constexpr int kAgainAtMost = 8;        // repeated pieces and manifests within that time
constexpr double kSnapshotServes_s = 2;

struct SourceEffects {
  struct Take {  // copy the state, hash it piece by piece (hash_next), then call taken()
    std::string node;
    FetchState fetch;
  };
  struct Reply {
    std::string to;
    Manifest manifest;
  };
  struct Piece {  // a parcel: StatePiece
    std::string to;
    uint64_t transfer = 0;
    uint32_t piece = 0;
    SnapshotPtr snapshot;  // keeps the payload alive
    ConstVec payload;
  };
  std::vector<Take> takes;
  std::vector<Reply> replies;
  std::vector<Piece> pieces;
  double timer_at = 0;  // always set; replaces the earlier one
};

/// Serves new nodes, two at a time. It takes one snapshot at a time for each, at most every two
/// seconds; until then the last snapshot serves it too. A snapshot is held until its receiver has
/// been silent for 30 s, or has had no new piece for 2 s while another node asks. A node whose turn
/// is over has its next one after a node that waits. Each piece is sent once. Of repeated requests,
/// and of manifests, at most kAgainAtMost are answered in kLeastLapse_s, however often a node asks.
class StateSource {
 public:
  void fetch(double now, const std::string& from, const FetchState&, SourceEffects&);
  /// If `refused` in the manifest is not empty, there is no such snapshot.
  void taken(double now, const std::string& node, Manifest, SnapshotPtr, SourceEffects&);
  bool node_down(const std::string& node);  // whether it was served
  void timer(double now, SourceEffects&);
  size_t held() const { return transfers_.size(); }

 private:
  /// Answers that were given before.
  struct Repeats {
    double since = 0;
    int count = 0;

    bool may(double now) {
      if (now >= since + kLeastLapse_s) *this = {now, 0};
      return count++ < kAgainAtMost;
    }
  };
  struct Transfer {
    std::string node;
    uint64_t transfer = 0, taking = 0;  // of its last request; of the snapshot that is being taken
    SnapshotPtr snapshot = nullptr;     // null while it is taken
    Manifest manifest = {};
    double used_at = 0, taken_at = 0, progress_at = 0;
    std::vector<bool> sent = {};  // by piece
    Repeats repeats;
  };
  static void give(double now, Transfer&, const FetchState&, SourceEffects&);
  Transfer* find(const std::string& node, uint64_t transfer);
  void finish(SourceEffects&) const;

  std::vector<Transfer> transfers_;
  std::string waits_;  // the node that was refused last, since:
  double waits_since_ = 0;
};

struct FetcherEffects {
  struct Ask {
    std::string to;
    FetchState fetch;
  };
  std::vector<Ask> asks;
  std::vector<std::string> lines;
  double timer_at = 0;  // always set; replaces the earlier one
  bool done = false;    // take() has the state
  bool failed = false;  // no source gave it; lines say why
};

struct FetcherOptions {
  SnapshotShape shape;
  struct Source {
    std::string node;
    uint32_t rank = 0;
  };
  std::vector<Source> sources;  // asked in this order, each at most five times
  // Returns the error in a complete state, or an empty text. The function may be absent.
  std::function<std::string(const std::vector<Buffer>& vectors)> complaint = {};
  struct Sample {  // pieces of another source's first vector
    std::vector<PiecePlace> places;
    std::vector<Buffer> contents;
    double usual_step = 0;  // of that rank
  };
  // Returns the distance of a complete state from another source's as text if it is far, or an
  // empty text. The function may be absent.
  std::function<std::string(const std::vector<Buffer>& vectors, const Sample&)> doubt = {};
};

class Fetcher {
 public:
  explicit Fetcher(const FetcherOptions&);

  void start(double now, FetcherEffects&);
  void manifest(double now, const std::string& from, const Manifest&, FetcherEffects&);
  void piece(double now, const std::string& from, const StatePiece&, ConstVec, FetcherEffects&);
  void node_down(double now, const std::string& node, FetcherEffects&);
  void timer(double now, FetcherEffects&);

  const Manifest& manifest() const { return manifest_; }      // of the fetched state
  std::vector<Buffer> take() { return std::move(vectors_); }  // the first of shape.vectors
  uint64_t corrupt() const { return corrupt_; }               // pieces that do not match their hash
  uint64_t kept() const { return kept_; }                     // pieces from an earlier source

 private:
  enum class Stage { idle, resting, asking, fetching, comparing, over };
  struct Other {  // the source with which the state is compared
    std::string node;
    uint32_t rank = 0;
    uint64_t transfer = 0;
    SnapshotShape shape;
    std::vector<uint64_t> hashes;
    std::vector<uint32_t> missing;
    FetcherOptions::Sample sample;
  };

  void expect(uint32_t vectors);
  const FetcherOptions::Source& source() const;
  bool is_source(const std::string& node) const;
  void next_source(double now, const std::string& why, FetcherEffects&);
  void ask_source(double now, FetcherEffects&);
  void ask_for(std::vector<uint32_t> pieces, FetcherEffects&) const;
  void ask_more(double now, FetcherEffects&);
  void compare(double now, FetcherEffects&);
  bool is_other(const std::string& node, uint64_t transfer) const;
  void other_manifest(double now, const Manifest&, FetcherEffects&);
  void other_piece(double now, uint32_t piece, ConstVec, FetcherEffects&);
  void judge(double now, FetcherEffects&);
  void learn(double now);
  double lapse_s() const;
  void finish(FetcherEffects&) const;

  FetcherOptions options_;
  Stage stage_ = Stage::idle;
  size_t turn_ = 0;  // of the sources; the number of the transfer
  Manifest manifest_;
  SnapshotShape given_;  // by the source
  std::vector<Buffer> vectors_;
  std::vector<uint64_t> hashes_;  // of the pieces in vectors_
  std::vector<bool> there_;       // vectors_ has data for this piece
  std::vector<uint32_t> missing_, asked_;
  Other other_;
  size_t others_ = 0, doubted_ = 0;  // asked for a comparison; far states in all
  int lapses_ = 0, bad_ = 0;
  uint64_t corrupt_ = 0, kept_ = 0;
  double due_at_ = 0, last_piece_at_ = -1;
  SmoothedTime gap_;  // between pieces
};

}  // namespace grapevine
