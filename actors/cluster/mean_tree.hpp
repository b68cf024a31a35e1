// The tree of a mean: which node sums for which others, and how a mean gets its number. Values and
// pure functions, for mean_exchange.hpp.
//
// A mean has a number: a hash of its request (the end of the run, or the serial of a snapshot), of
// the nodes in the tree with their incarnations and ranks, and of the pairs of them that told the
// membership that they cannot reach each other. Nodes that know the same facts have the same number
// and derive the same tree. So the nodes need not agree on a tree, and the number of a piece names
// the tree along which it is sent.
//
// The root is the lowest name. Nodes are taken breadth-first by name. No node has more neighbours
// than the degree, unless cut pairs leave it the only path to another node. If cuts separate the
// nodes, the tree spans the largest part (of two equal parts, the one with the lowest name), and
// the other nodes are not in the mean.
//
// The degree follows from the size of the model. A link carries one model up and one down for each
// neighbour of its node. A piece makes two hops for each level of the tree: it is sent, and is as
// long again under way. In times of a piece on a link, a mean of `pieces` lasts about
//
//   degree pieces + 4 depth(nodes, degree)
//
// and the degree of two to four with the least is taken. So a large model goes along a path.
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace grapevine {

constexpr size_t kMostMeanDegree = 4;

/// A node, as a mean needs it.
struct MeanMember {
  std::string node;
  uint32_t incarnation = 0, first_rank = 0, ranks = 0;
  bool left = false;                        // it said so; else it is alive
  uint64_t told_number = 0, told_hash = 0;  // the last mean that it reports; 0: none
  std::vector<uint64_t> unreachable;        // name hashes, as it reports
  bool is_unheard = false;  // its requests do not count here, so its snapshots have other numbers
};

/// The facts from which a number is computed.
struct MeanKey {
  uint64_t serial = 0;                             // of the snapshot; 0: the mean at the end
  std::vector<MeanMember> members;                 // alive, by rising name
  std::vector<std::pair<uint32_t, uint32_t>> cut;  // places in `members`, rising, first < second
  std::vector<int> part;  // places of the largest set of members that cuts do not divide, rising

  uint64_t number() const;  // never 0
};

/// The key of the members that are alive.
MeanKey mean_key(uint64_t serial, const std::vector<MeanMember>&);

struct MeanTree {
  struct Place {
    bool in = false;
    int parent = -1;
    std::vector<int> children;   // by rising name
    uint32_t ranks_at_most = 0;  // in its subtree
  };
  int root = -1;              // -1: there are no members
  std::vector<Place> places;  // in the order of the key's members

  std::vector<int> neighbours(int place) const;
};

/// `pieces`: of the model.
MeanTree mean_tree(const MeanKey&, uint32_t pieces);

}  // namespace grapevine
