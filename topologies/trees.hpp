// Trees: the properties of a graph that relaying methods need: whether it is a tree or a union of
// trees, the distances of its ranks, and the delays of relayed values.
//
// RelaySum (Vogels et al., "RelaySum for Decentralized Deep Learning on Heterogeneous Data",
// NeurIPS 2021, arXiv:2110.04175) passes sums along the edges of a tree, one hop per step. A value
// of rank j reaches rank i after delta_ij = max(hops(i, j) - 1, 0) steps. The learning rate for
// these delays is 1 + the mean of delta_ij over all n^2 pairs (i, j), times that of an all-reduce.
//
// A graph may be the union of several trees on the same ranks (Edge::trees says which trees an edge
// belongs to). Each tree carries its own part of the vector, with its own counts.
#pragma once
#include <vector>

#include "kernels/base/result.hpp"
#include "topologies/topology.hpp"

namespace grapevine {

/// Connected and without cycles: ranks - 1 edges.
bool is_tree(const Topology&);

/// The number of trees in the union, by the edges' masks: 1 for every tree, 2 for
/// double-binary-trees (1 with a single rank); 0: one of them is not a tree on all ranks.
int tree_count(const Topology&);

/// If tree_count() is 0: an error of one sentence that proposes `spanning:...`.
Status check_trees(const Topology&);

/// Tree `tree` of tree_count() as a separate graph; an edge keeps its rate in the complete graph,
/// as an absolute rate.
Topology tree_of(const Topology&, int tree);

/// Breadth-first search from one rank; neighbours in ascending order.
struct BreadthFirst {
  std::vector<int> order;   // all ranks in the order found; the root first, a farthest one last
  std::vector<int> parent;  // of each rank, the rank that found it; -1: the root
};

BreadthFirst breadth_first(const Topology&, int root);

/// The length of the shortest path to each rank.
std::vector<int> hops_from(const Topology&, int rank);

/// The most hops between two ranks of a tree. Relayed counts are complete everywhere at step
/// relay_diameter - 1 (steps counted from 0).
int relay_diameter(const Topology& tree);

/// (1 / n^2) sum over all i, j of max(hops(i, j) - 1, 0), in O(n). A chain has
/// (n - 1) (n - 2) / (3 n).
double mean_relay_delay(const Topology& tree);

/// The same for the tree defined by the parents.
double mean_relay_delay(const BreadthFirst&);

}  // namespace grapevine
