// The tree of a mean: which node adds up for which, and what a mean's number is made of. Values and
// pure functions, for mean_exchange.hpp.
//
// A mean has a number: a hash of its request (the end of the run, or the serial of a snapshot), of
// the nodes that take part with their incarnations and ranks, and of the pairs of nodes that told
// the membership that they cannot reach each other. Nodes that know the same facts have the same
// number, and the tree follows from the same facts. So the nodes need not agree on a tree, and a
// piece with a number tells along which tree it is sent.
//
// The root is the lowest name. Nodes are taken breadth-first by name, and no node has more than
// four neighbours, unless cut pairs leave it the only path to another node. If cuts separate the
// nodes, the tree spans the largest part (of two equal parts, that of the lower name), and the
// other nodes are not in the mean.
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace grapevine {

constexpr size_t kMeanDegree = 4;

/// A node, as the mean sees it.
struct MeanMember {
  std::string node;
  uint32_t incarnation = 0, first_rank = 0, ranks = 0;
  bool left = false;                        // politely; else it is alive
  uint64_t told_number = 0, told_hash = 0;  // the last mean that it says it has; 0: none
  std::vector<uint64_t> unreachable;        // name hashes, as it says
  bool is_unheard = false;  // its requests are not heard here, so it numbers snapshots otherwise
};

/// The facts from which a number is computed.
struct MeanKey {
  uint64_t serial = 0;                             // of the snapshot; 0: the mean at the end
  std::vector<MeanMember> members;                 // alive, by rising name
  std::vector<std::pair<uint32_t, uint32_t>> cut;  // places in `members`, rising, first < second

  uint64_t number() const;  // never 0
};

/// Of the members that are alive.
MeanKey mean_key(uint64_t serial, const std::vector<MeanMember>&);

struct MeanTree {
  struct Place {
    bool in = false;
    int parent = -1;
    std::vector<int> children;   // by rising name
    uint32_t ranks_at_most = 0;  // of it and of all below it
  };
  int root = -1;              // none: there are no members
  std::vector<Place> places;  // as the key's members

  std::vector<int> neighbours(int place) const;
};

MeanTree mean_tree(const MeanKey&);

}  // namespace grapevine
