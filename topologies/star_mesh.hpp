// StarMesh: eliminates the Laplacian of a weighted graph rank by rank. It solves with the
// Laplacian, and computes the effective resistance of every edge. Used only in topologies/.
//
// A rate is read as a conductance c. Eliminating rank k replaces its star of edges by a mesh among
// its neighbours (Kennelly's star-mesh transform). This is one step of a Cholesky factorisation:
//
//   C_k = sum_j c_kj      c_ij += c_ki c_kj / C_k      for the remaining neighbours i, j of k
//
// Nothing is ever subtracted, so every c has full relative accuracy, even if the graph is
// ill-conditioned. (A Cholesky factorisation of the grounded Laplacian subtracts on its diagonal
// and loses digits.)
//
// Resistances follow in reverse order. With p_j = c_kj / C_k, the potential of k is the p-weighted
// mean of its neighbours' potentials plus a term of C_k, so
//
//   R_kj = 1/C_k + sum_i p_i R_ij - 1/2 sum_il p_i p_l R_il     for the remaining neighbours j of k
//
// This is Takahashi's recursion for the entries of an inverse on the pattern of its factor
// (Takahashi, Fagan, Chen, PICA 1973), written for resistances. It costs as much as the
// factorisation.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "topologies/topology.hpp"

namespace grapevine {

class StarMesh {
 public:
  /// `rates`: one per edge of the topology, which is connected.
  StarMesh(const Topology&, std::span<const double> rates);

  /// Replaces b by Lambda^+ b. b has an entry per rank; its mean does not matter.
  void solve(std::span<double> b) const;

  /// e_ij^T Lambda^+ e_ij per edge, in the order of the topology's edges.
  std::vector<double> edge_resistances() const;

  size_t fill() const { return rows_.size(); }  // edges, including those of all meshes

 private:
  void find_pattern(const Topology&);
  void fill_in(const Topology&, std::span<const double> rates);
  void eliminate();
  int64_t place(int column, int row) const;
  size_t begin(int k) const { return static_cast<size_t>(start_[k]); }
  size_t end(int k) const { return static_cast<size_t>(start_[k + 1]); }

  // Below, ranks are numbered by the order of elimination: turn_[rank]. The mesh edges of k are
  // rows_[start_[k] .. start_[k+1]), ascending, each with a later turn. weight_ is c, then p.
  int ranks_ = 0;
  std::vector<int> turn_;
  std::vector<int64_t> start_;
  std::vector<int> rows_;
  std::vector<double> weight_;
  std::vector<double> total_;             // C_k
  std::vector<int64_t> place_of_edge_;  // the index in rows_ of each edge
};

}  // namespace grapevine
