// Relay: sums that travel along the edges of a tree, one hop a round, and contain each summand
// exactly once. RelayRule: the common base of methods that average relayed sums. Paper: Vogels et
// al., "RelaySum for Decentralized Deep Learning on Heterogeneous Data", NeurIPS 2021, arXiv
// 2110.04175.
//
//   m_ij = y_i + sum_{k in N_i \ j} m'_ki        what i sends to j; m' came in the last round
//   c_ij = 1   + sum_{k in N_i \ j} c'_ki
//   S_i  = y_i + sum_{j in N_i} m_ji             m came in this round
//   n_i  = 1   + sum_{j in N_i} c_ji
//
// At first m = 0, c = 0. y_j reaches i after max(hops(i, j) - 1, 0) rounds.
//
// K trees (Neighbour::trees): tree k has the coordinates k, k + K, ..., with its own counts. A
// message has, for each tree of the edge by rising k, the tree's part and then its count, all in
// the dtype of y; with one tree these are d + 1 numbers. A rank sends each neighbour one message
// per round, and each message is different.
//
// A lost message counts as m = 0, c = 0, here and in what is relayed next. If `reuses` is set, the
// last message of that edge is used instead. Messages are kept as they came: one lease per
// neighbour.
#pragma once
#include <array>
#include <span>
#include <vector>

#include "actors/algorithms/rule.hpp"

namespace grapevine {

class Relay {
 public:
  static constexpr size_t kMostTrees = 8;  // bits of Neighbour::trees

  /// `reuses`: the last message of an edge replaces a lost one.
  Relay(size_t size, DType dtype, bool reuses);

  /// Forgets the messages of edges that have gone or now belong to other trees. Call say() next.
  void enter(const Execution&, const Neighbourhood&);
  void forget();

  /// Sets y of the round. write() and sum() read it, and sum() may overwrite it; the caller keeps
  /// it alive.
  void say(const Execution&, ConstVec y);

  size_t message_bytes() const { return (size_ + kMostTrees) * size_of(dtype_); }
  void write(const Execution&, size_t edge, Payload& out);
  /// If the share of a message is below 1, its sum and its count are scaled by it, here and in what
  /// is relayed on.
  void receive(const Execution&, std::span<const Received> in);

  /// The norm |m - own c y| of a message of this edge, over the edge's trees; NaN if it is no
  /// message of this edge.
  double distance(const Execution&, size_t edge, const Payload&, double own) const;
  /// The largest c of its trees.
  double ranks_in(const Execution&, size_t edge, const Payload&) const;

  size_t trees() const { return trees_; }
  /// n_i of tree k, from the messages of receive().
  double count(size_t tree) const;
  /// In the coordinates of tree k: out = own y + received sum_j m_ji + rest other. `other` may be
  /// empty, or `out` itself; y may be `out`.
  void sum(const Execution&, size_t tree, double own, double received, double rest, ConstVec other,
           Vec out);

 private:
  struct Span {
    size_t offset, size;
  };
  struct Held {  // m_ji and c_ji
    Payload payload;
    double share = 1;
    std::array<double, kMostTrees> counts = {};  // scaled by the share

    explicit operator bool() const { return static_cast<bool>(payload); }
  };

  size_t part_size(size_t tree) const { return spans_[tree].size; }
  bool carries(size_t edge, size_t tree) const { return near_[edge].trees >> tree & 1; }
  size_t place(size_t edge,
               size_t tree) const;  // of a tree's part in an edge's message
  size_t message_size(size_t edge) const { return place(edge, trees_); }
  ConstVec part(size_t tree) const;  // of y
  ConstVec held_part(size_t edge, size_t tree) const;
  double count_in(const Execution&, size_t edge, size_t tree, const Payload&) const;

  size_t size_;
  DType dtype_;
  bool reuses_;
  size_t trees_ = 1;
  std::vector<Span> spans_;  // of the trees' parts, one after the other
  std::vector<Neighbourhood::Neighbour> near_;
  std::vector<Held> held_;  // by neighbour
  ConstVec y_;
  Buffer parts_, other_;  // for several trees: y tree by tree, and another part
  std::vector<Term> terms_;
};

/// Rules whose ranks relay y along one or more trees and take in S and n of each tree. The messages
/// from the neighbours are not in the state: a rank that continues elsewhere collects them again.
class RelayRule : public RoundRule {
 public:
  RelayRule(const RuleContext&, bool reuses);

  void reset(double now, ConstVec x) override;
  void enter(const Neighbourhood&) override;
  bool broadcasts() const override { return false; }
  size_t message_bytes() const override { return relay_.message_bytes(); }
  void write(int phase, size_t edge, Payload& out) override;
  /// The distance between the sum of the ranks behind the edge and as many y.
  double distance(size_t edge, const Payload&) override;
  double ranks_in(size_t edge, const Payload&) override;
  void combine(double now, int phase, std::span<const Received> in) override;
  bool conserves() const override { return false; }
  RuleCounts counts() const override { return {.relay_count = count_}; }

 protected:
  virtual ConstVec said() const = 0;  // y
  virtual void take_in(size_t tree) = 0;
  void say() { relay_.say(execution_, said()); }  // after a change of said()

  Relay relay_;

 private:
  double count_ = 1;  // the least n of the trees
};

}  // namespace grapevine
