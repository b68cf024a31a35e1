// Lockstep: all ranks of one round method in one loop, without actors, messages in memory.
//
// A round: every rank takes the gradient at its parameters and its local step; then per phase
// everybody writes, what is lost is lost, everybody combines. So what a run of the actors without
// delays computes, and what the published scripts compute. Where a method does not wait everybody
// combines what was written in the last round, and then writes. Double precision.
#pragma once
#include <Eigen/Dense>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "actors/algorithms/method_registry.hpp"
#include "kernels/memory/layout.hpp"
#include "kernels/memory/snapshot_pool.hpp"
#include "models/objective.hpp"
#include "topologies/schedule.hpp"
#include "topologies/topology.hpp"

namespace grapevine::test {

struct LockstepOptions {
  using Row = Eigen::RowVectorXd;

  std::string method;
  std::function<std::unique_ptr<Rule>(const RuleContext&)> make;  // empty: the method's
  int ranks = 2;
  std::string topology = "ring";       // of make_topology
  std::string weights = "metropolis";  // of gossip_matrix
  ParameterLayout layout = ParameterLayout::flat(1, DType::f64);
  RuleSettings rule;
  uint64_t seed = 1;
  Eigen::MatrixXd start;  // ranks x size: one row per rank; empty: all at 0
  std::function<Row(int rank, uint64_t round, const Row& x)> gradient;  // empty: always 0
  std::function<bool(uint64_t round, int from, int to)> lost;           // empty: nothing is
};

/// The gradients and the start of an objective; it must outlive them.
std::function<LockstepOptions::Row(int, uint64_t, const LockstepOptions::Row&)> gradient_of(
    Objective&);
Eigen::MatrixXd start_of(const Objective&, int ranks);

class Lockstep {
 public:
  using Row = LockstepOptions::Row;

  explicit Lockstep(LockstepOptions);

  void round(double lr);
  void rounds(int count, double lr);
  /// The graph from the next round on; with `weights` where they are given.
  void enter(const std::string& topology, const std::string& weights = "metropolis");
  void enter(const Topology&, const std::string& weights = "metropolis");

  Row x(int rank) const;
  Row mean() const;
  Eigen::MatrixXd all() const;        // one row per rank
  double farthest(const Row&) const;  // max over ranks and coordinates of |x - what is given|
  double spread() const;              // consensus distance: mean over ranks of |x - mean|^2
  RoundRule& rule(int rank) { return *rules_[static_cast<size_t>(rank)]; }
  const Topology& topology() const { return topology_; }
  uint64_t messages() const { return messages_; }  // of all ranks so far, lost ones too
  uint64_t bytes() const { return bytes_; }

 private:
  Payload written(int from, int phase, size_t edge);
  using Incoming = std::vector<std::vector<Received>>;  // [rank][sender]
  Incoming exchange(int phase);
  void combine(int phase, const Incoming&);
  std::vector<Received> incoming(int rank, int phase, const std::vector<std::vector<Payload>>&);

  LockstepOptions options_;
  const Method& method_;
  Topology topology_;
  std::unique_ptr<SnapshotPool> pool_;
  std::vector<std::unique_ptr<RoundRule>> rules_;
  Incoming arrived_;  // where a method does not wait: for the next round
  uint64_t round_ = 0;
  uint64_t messages_ = 0, bytes_ = 0;
};

}  // namespace grapevine::test
