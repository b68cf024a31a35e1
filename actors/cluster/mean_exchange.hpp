// MeanExchange: the mean over all ranks of a run, at its end and for a snapshot, as a state machine
// without I/O. Sums go up a tree of the nodes, and the root sends the mean down, so all nodes get
// the same bits (mean_tree.hpp).
//
//   child                                       parent
//         <---------------------------------   MeanAsk up   [from, until)
//   MeanPiece up: sums, ranks in them   ----->  added to its own; whole once all children's are in
//   MeanAsk down [from, until)              ->
//         <---------------------------------   MeanPiece down: the mean itself
//
// Sums are fp64 in memory, and are sent as mean_sums.hpp packs them.
//
// A receiver asks for pieces, so it gets them at its own pace: at most kMeanWindow pieces of at
// most 1 MiB are under way between two nodes. A node sends a piece as soon as it has it from all
// its children (or from its parent), so depth costs latency but no bandwidth. Pieces of a neighbour
// arrive in order. If a piece is lost, it and all later pieces are requested again: once for each
// piece, and otherwise every kAgain_s, however often a neighbour asks. A node remembers one request
// of each peer and direction, for any number.
//
// A node compares the sum of a neighbour with the sum here. If the means of the first vector are
// farther from each other than the ranks here can reach, the mean continues without that neighbour,
// as if the two could not reach each other. The same holds for a neighbour that repeatedly sends
// what is no piece. A node does not wait for the nodes that it has left out, nor report them as
// missing: what they send or do not send changes nothing here.
//
// A death, a new node or a cut changes the key and so the number, which starts with a new sum of
// the ranks here. At the end of the run the mean is final when all live members report this number
// with this hash, or when one member has left after reporting that all did. Otherwise it is final
// at a deadline; then `missing` has the names of the others. A snapshot is final as soon as it is
// here; the node serves others until all have it.
//
// Pieces, the report of each member and restarts extend the deadline. No member can extend it for
// ever: each has a number of restarts (mean_restarts.hpp). Further ones extend nothing until the
// mean has more pieces than before them, and the mean continues without that member.
//
// Memory: one fp64 vector and one result. `now` as in membership.hpp.
#pragma once
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "actors/cluster/mean_restarts.hpp"
#include "actors/cluster/mean_tree.hpp"
#include "kernels/memory/vec.hpp"
#include "messages/parcel.hpp"

namespace grapevine {

constexpr uint64_t kMeanPieceElements = 128 * 1024;  // at most 1 MiB, of fp64
constexpr uint32_t kMeanWindow = 4;
// Half of the shortest time that an honest neighbour waits for a piece.
constexpr double kAgain_s = 0.25;

/// The vectors that are averaged. Both ends know the shape from what they agreed on.
struct MeanShape {
  struct Vector {
    std::string name;
    uint64_t count = 0;
    DType dtype = DType::f32;  // of the mean; sums are fp64
  };
  std::vector<Vector> vectors;

  uint32_t pieces() const;
  struct Place {
    uint32_t vector = 0;
    uint64_t offset = 0, count = 0;  // elements
  };
  Place place_of(uint32_t piece) const;  // REQUIRES: piece < pieces()
};

/// The number of ranks in each vector. A rank without values for a vector is in the others.
using RanksIn = std::vector<int>;

struct Mean {
  std::vector<Buffer> vectors;  // of this shape; of no ranks: zeros
  RanksIn ranks_in;
  int ranks = 0, nodes = 0;  // in the first vector
  uint64_t number = 0, hash = 0;
};

/// The sum over the ranks of one node: fp64 vectors of the shape. Without ranks: no vectors.
struct MeanSum {
  std::vector<Buffer> vectors;
  RanksIn ranks_in;
  // From the guards of the ranks here: the mean of other ranks cannot be farther away in the first
  // vector.
  double reach = std::numeric_limits<double>::infinity();
};

struct MeanEffects {
  struct Ask {
    std::string to;
    MeanAsk ask;
  };
  struct Piece {
    std::string to;
    MeanPiece what;
    ConstVec payload;
    std::shared_ptr<const void> keeps;  // keeps the payload alive, unchanged
  };
  struct Result {
    std::shared_ptr<const Mean> mean;  // null: it did not arrive, or has no ranks
    std::vector<std::string> missing;  // by name; of a snapshot: none
  };
  std::vector<Ask> asks;
  std::vector<Piece> pieces;
  std::optional<uint64_t> sample;  // sum the ranks here for this number, then call own()
  std::vector<std::string> cut;    // neighbours that cannot be reached, for the membership
  std::optional<std::pair<uint64_t, uint64_t>> told;  // number and hash, for the membership
  std::optional<Result> result;                       // one for each want() or end()
  std::map<std::string, std::string> left_out;        // nodes that the mean is without: why
  double timer_at = 0;                                // always set; replaces the earlier one
};

class MeanExchange {
 public:
  /// `patience_s`: without progress for this time, the others count as missing.
  MeanExchange(std::string self, MeanShape shape, double patience_s);

  /// Starts a snapshot, by the serial that the membership spreads (not 0). Nothing happens if it is
  /// the last one.
  void want(double now, uint64_t serial, MeanEffects&);
  /// Starts the mean at the end; from now on there is no other. `expected`: nodes that count as
  /// missing if they are dead by then; none: the present nodes.
  void end(double now, std::vector<std::string> expected, MeanEffects&);

  /// The nodes that take part, as the membership knows them; called at every change.
  void view(double now, std::vector<MeanMember>, MeanEffects&);
  void linked(double now, const std::string& node, bool up, MeanEffects&);
  void own(double now, uint64_t number, MeanSum, MeanEffects&);
  void asked(double now, const std::string& from, const MeanAsk&, MeanEffects&);
  /// Reads `payload` before it returns.
  void piece(double now, const std::string& from, const MeanPiece&, ConstVec payload, MeanEffects&);
  void timer(double now, MeanEffects&);

  bool idle() const { return stage_ == Stage::idle; }
  uint64_t number() const { return number_; }
  uint64_t serial() const { return serial_; }                  // of the last snapshot
  std::vector<std::string> neighbours() const;                 // to which links are needed
  std::shared_ptr<const Mean> mean() const { return whole_; }  // the last complete one
  // The nodes whose pieces or reports are missing.
  std::vector<std::string> awaited() const;
  const std::map<std::string, uint64_t>& refused() const { return refused_; }  // by reason

 private:
  enum class Stage { idle, summing, trading, whole };
  struct Credit {  // the requests of a neighbour
    uint32_t next = 0, until = 0;
    uint32_t again_from = 0;  // the furthest piece from which it was sent again
    double again_at = -std::numeric_limits<double>::infinity();
  };
  struct Source {  // of pieces: a child, or the parent
    uint32_t have = 0, asked = 0;
    uint32_t skipped = 0xFFFFFFFF;  // value of `have` when a later piece came
    std::vector<int64_t> ranks;     // per vector, as its pieces say; -1: unknown
    int bad = 0, lapses = 0;
    double squares = 0;  // of the distance between its first vector and the one here
    double due_at = std::numeric_limits<double>::infinity(), came_at = -1, gap_s = 0;
  };
  struct Neighbour {
    bool child = false;
    uint32_t ranks_at_most = 0;  // in what it sends
    Source in;                   // a child's sums, or the parent's mean
    Credit out;                  // what goes to it
    double unlinked_since = 0;
    bool cut = false;  // reported
  };

  // Events.
  void open(double now, MeanEffects&);
  void begin(double now, const MeanKey&, bool gives_time, MeanEffects&);
  void advance(double now);
  void finish(double now, MeanEffects&);
  bool agreed() const;
  void report(std::vector<std::string> missing, MeanEffects&);
  void lapse(double now, MeanEffects&);
  // Pieces.
  std::string complaint_about(const Neighbour&, const MeanPiece&, ConstVec payload,
                              const MeanShape::Place& next) const;
  double square_from_here(const Neighbour&, const MeanPiece&, ConstVec payload) const;
  void refuse(const std::string& from, const std::string& why, MeanEffects&);
  void do_without(const std::string& node, const std::string& why, MeanEffects&);
  void take_in(double now, Neighbour&, const MeanPiece&, ConstVec payload);
  void divide();
  MeanEffects::Piece piece_for(const std::string& to, const Neighbour&) const;
  bool pour(MeanEffects&);  // false: more could be sent
  void ask_more(double now, MeanEffects&);
  void ask(double now, const std::string& to, Neighbour&, bool again, MeanEffects&);
  void grant(double now, Neighbour&, const MeanAsk&) const;
  uint32_t summed() const;  // pieces with complete sums
  int64_t ranks_in_sum(size_t vector) const;
  bool gives(const Neighbour&) const;                           // pieces of it are missing
  bool needs(const std::string& node, const Neighbour&) const;  // needs a link
  double lapse_s(const Source&) const;
  double waits_s() const;  // without progress

  const std::string self_;
  const MeanShape shape_;
  const double patience_s_;
  Stage stage_ = Stage::idle;
  bool ending_ = false, reported_ = false;
  uint64_t serial_ = 0, number_ = 0;
  std::vector<MeanMember> members_;  // by name
  std::set<std::string> links_, began_with_;
  std::set<std::string> left_out_;  // of the present mean
  std::map<std::string, Neighbour> neighbours_;
  std::map<std::pair<std::string, MeanPiece::Way>, MeanAsk> early_;  // for later numbers
  bool is_in_ = false, is_root_ = false;
  int nodes_ = 0;                 // in the tree
  std::shared_ptr<MeanSum> sum_;  // of the ranks here, and of the children so far
  std::shared_ptr<Mean> result_;
  uint32_t made_ = 0;  // pieces of the result
  std::shared_ptr<const Mean> whole_;
  double progress_at_ = 0;
  // Since the last restart that gave time.
  uint64_t most_steps_ = 0;
  std::set<std::string> heard_;  // members that have reported a number that was this one then
  MeanRestarts restarts_;
  std::map<std::string, uint64_t> refused_;
};

}  // namespace grapevine
