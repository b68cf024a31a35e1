// Guard: how much of the difference between two ranks an exchange applies. It depends on the rank's
// own steps and on nothing that a peer sends. Every finite exchange is made, and no edge is paused.
//
//   u         a step of this rank, |u| its length
//   rms       root mean square of its last 32 |u| (of all while there are fewer)
//   usual     max(rms, (1 - 1/1024) usual, 1e-6 of the largest rms), updated at a step; constant
//             while the rank does not step. At an optimum steps and distances are rounding errors,
//             and neither predicts the other.
//   usual_e   the same on edge e, but it fades only in the 1,024 steps after a comparison on the
//             edge. Ranks that train apart come to rest: their last steps are short beside the
//             distance that they have come meanwhile.
//   way_e     the larger of: the sum of |u| since its last exchange with any rank, and the sum
//             since its last exchange on edge e (or since the edge exists) divided by degree
//   used_e    used part of the allowance of edge e, in units of usual_e; at a step
//             max(0, used_e - r / degree)
//   r         3 if more than half of the edges are far: then this rank was apart, and its own data
//             pull it back by less than the edges pull it towards the others; else 1/8, and 1/8 if
//             the senders of a message cannot be distinguished
//
// With its vector a rank sends its limits: a bound b_e = 3 (4 usual_e + way_e) and an allowance f_e
// = usual_e (64 - used_e). Both ends take the smaller of the two bounds and of the two allowances
// that crossed, and the distance |m| of the two vectors that crossed:
//
//   near         |m| <= b    share 1: the whole jump, whatever has happened on the edge before
//   far          |m| >  b    share min(1, f_e / |m|), and used_e += share |m| / usual_e
//   not finite               share 0, and used_e stays
//
// Both ends scale both jumps (of x and of x~) by the same share, so the sum over ranks does not
// change. A rank that has not stepped yet has usual = 0, so a difference has share 0 until its
// first step. If an objective takes no steps, or all steps so far had length 0 (a learning rate of
// 0), there is nothing to compare with, and both limits are infinite. README.md has the limits of
// the guard.
//
// If a rank exchanges on all its edges in turn, the two parts of way_e are equal on average. The
// whole sum since the last exchange on an edge would be larger by the number of edges, and a
// diverging rank would stay near for that much longer. The second part is for the time after a
// partition: the ranks of the other side are as far as both sides have moved meanwhile.
//
// An exchange ends a sum for any verdict, unless nothing was compared: the difference was not
// finite, or one end had not stepped yet. A round is one exchange, and ends with its last phase.
//
// A message that stands for k ranks, relayed over up to k hops, has b = k 3 (4 usual_e + way_e + (k
// - 1) usual_e): its distance is k times that of its mean, and its parts are up to k steps old. k =
// 2 for a change to x by compressed messages, because it also has what earlier rounds left out.
//
// In a sum over all ranks (all-reduce) only a rank itself sees its own part. So each rank judges
// its own gradient g as if it were an edge, with |g| instead of |u| and way = 0. A far g raises
// `usual` by at most a factor of 1 + 1/64, so that gradients that have grown permanently are used
// whole again later.
//
// A value; a state actor owns it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace grapevine {

/// The limits of one end, sent with its vector: norms, at least 0, rounded as in the message.
struct Limits {
  float bound = std::numeric_limits<float>::infinity();
  float allowance = std::numeric_limits<float>::infinity();

  bool operator==(const Limits&) const = default;
};
Limits smaller(const Limits&, const Limits&);

/// The part of a guard that a checkpoint stores.
struct GuardRecord {
  /// Also of a rank that has just begun with the state of another one.
  double usual_step() const;

  double rms = 0, usual = 0;
  double way = 0, longest = 0;  // since an exchange with any rank, and of an edge
  double inherited = 0, largest = 0;
  uint32_t steps = 0;                        // the number of remembered ones
  std::vector<std::pair<int, double>> used;  // by rising peer
};

class Guard {
 public:
  static constexpr double kNear = 3, kApart = 4;  // factors of the bound
  static constexpr double kAllowance = 64;        // usual steps
  static constexpr double kRefill = 1.0 / 8;      // of a step, over all edges
  static constexpr double kApartRefill = 3;       // the same, if most edges are far
  static constexpr uint32_t kRemembered = 32;     // steps in rms
  static constexpr double kRounding = 1e-6;       // of the largest rms that a rank has had
  static constexpr double kInChange = 2;          // ranks that a compressed change counts for
  static constexpr int kAll = -1;                 // the edge of messages with unknown senders
  static constexpr double kLonger = 4;            // times the other end's steps
  static constexpr double kReach = 1000;          // times the way of a rank and its allowance
  // Usual steps; more than of any healthy rank.
  static constexpr double kOutOfMean = kReach * kAllowance;

  enum class Verdict : uint8_t {
    near,
    far,         // scaled, and counted in `used`
    untested,    // this rank or the other one has not stepped yet; share 0
    not_finite,  // share 0
  };
  struct Judgement {
    Verdict verdict = Verdict::near;
    double share = 1;  // of the jump
  };

  struct Edge {
    int peer = 0;
    float used = 0;           // of the allowance, in usual steps
    float path = 0;           // the rank's path at the last comparison
    float usual = 0;          // usual_e
    float distance = 0;       // the last, in usual steps
    float peer_distance = 0;  // the same in steps of the other end: twelfths of its bound
    float last_jump = 0;      // |the change of what gossip conserves|
    float seen = std::numeric_limits<float>::quiet_NaN();  // distance of the last whole vectors
    uint16_t fading = 0;                                   // steps for which usual_e fades yet
    Verdict verdict = Verdict::near;                       // the last
    bool is_met = false;                                   // an edge of the present graph
  };

  Guard() = default;
  /// `steps`: false if the objective takes none; then nothing is far.
  explicit Guard(bool steps) : steps_(steps) {}

  /// Sets the neighbours of this rank in the graph. A step restores allowance on their edges.
  void meet(std::span<const int> peers);
  void stepped(double length);
  double usual_step() const;

  /// If a rank is farther than kOutOfMean from all its neighbours by its own fault: the distance
  /// from the nearest one, in that one's usual steps. It is its own fault if it has several
  /// neighbours and its steps are not much shorter than theirs, or one neighbour and much longer
  /// steps.
  std::optional<double> apart_by() const;
  /// The mean of other ranks that train like this one is not farther away than this. Infinite if
  /// there is nothing to compare with.
  double reach() const;

  /// `ranks`: the number of ranks that the message stands for.
  Limits limits(int peer, double ranks = 1) const;
  /// Judges the distance between the vectors of this rank and of `peer`, by the smaller limits of
  /// both ends.
  Judgement judge(int peer, double distance, const Limits& own, const Limits& theirs);

  /// Called after the judgement of a pair, or of all messages of a round: the way since the last
  /// exchange with any rank starts again.
  void end_exchange();

  /// Judges the norm of this rank's own part in a sum over all ranks. The first is used whole.
  Judgement judge_own(double norm);

  /// For its first 32 steps a new rank uses the usual step of the rank whose state it copied.
  void inherit(double usual);
  GuardRecord record() const;
  void recall(const GuardRecord&);

  Edge& at(int peer);
  const std::vector<Edge>& edges() const { return edges_; }  // by rising peer
  /// Whether the allowance of the edge is spent, and its ends are still far from each other.
  static bool is_spent(const Edge& e) {
    return e.verdict == Verdict::far && static_cast<double>(e.used) >= kAllowance - 1;
  }

 private:
  const Edge* find(int peer) const;
  double usual_step(const Edge*) const;  // on that edge; null: there is none yet
  void learn(double length);
  void refill();

  bool steps_ : 1 = true;
  bool has_compared_ : 1 = false;  // in the exchange that has not ended
  uint8_t count_ = 0;              // steps, up to kRemembered
  uint16_t degree_ = 1;
  float inherited_ = 0;
  float largest_ = 0;  // rms
  float way_ = 0;      // sum of |u| since the last exchange with any rank
  double rms_ = 0, usual_ = 0;
  double path_ = 0;  // sum of |u|
  std::vector<Edge> edges_;
};

}  // namespace grapevine
