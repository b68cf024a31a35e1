// StarMesh: the Laplacian of a weighted graph, eliminated rank by rank. Solves with it, and gives
// the effective resistance of every edge. Internal to this room.
//
// Read a rate as a conductance c. Eliminating rank k replaces its star of edges by a mesh among its
// neighbours (Kennelly's star-mesh transform), which is one step of a Cholesky factorisation:
//
//   C_k = sum_j c_kj          c_ij += c_ki c_kj / C_k          for the neighbours i, j of k left
//
// Nothing is ever subtracted, so every c has full relative accuracy however ill-conditioned the
// graph is. (A Cholesky of the grounded Laplacian subtracts on its diagonal and loses digits.)
//
// Resistances come back in reverse order. With p_j = c_kj / C_k, the potential of k is the
// p-weighted mean of its neighbours' plus what C_k adds, hence
//
//   R_kj = 1/C_k + sum_i p_i R_ij - 1/2 sum_il p_i p_l R_il     for the neighbours j of k left
//
// which is Takahashi's recursion for the entries of an inverse on the pattern of its factor
// (Takahashi, Fagan, Chen, PICA 1973), written for resistances. Cost: that of the factorisation.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "topologies/topology.hpp"

namespace grapevine {

class StarMesh {
 public:
  /// `rates`: one per edge of the (connected) topology.
  StarMesh(const Topology&, std::span<const double> rates);

  /// Replaces b by Lambda^+ b. b has an entry per rank; its mean does not matter.
  void solve(std::span<double> b) const;

  /// e_ij^T Lambda^+ e_ij per edge, in the order of the topology's edges.
  std::vector<double> edge_resistances() const;

  size_t fill() const { return rows_.size(); }  // edges, those of all meshes included

 private:
  void find_pattern(const Topology&);
  void fill_in(const Topology&, std::span<const double> rates);
  void eliminate();
  int64_t place(int column, int row) const;
  size_t begin(int k) const { return static_cast<size_t>(start_[k]); }
  size_t end(int k) const { return static_cast<size_t>(start_[k + 1]); }

  // Below, ranks are numbered by their turn: turn_[rank] is when a rank is eliminated. The mesh
  // edges of k are rows_[start_[k] .. start_[k+1]), ascending, all of a later turn; weight_ is c,
  // then p.
  int ranks_ = 0;
  std::vector<int> turn_;
  std::vector<int64_t> start_;
  std::vector<int> rows_;
  std::vector<double> weight_;
  std::vector<double> total_;             // C_k
  std::vector<int64_t> place_of_edge_;  // where in rows_ an edge of the topology is
};

}  // namespace grapevine
