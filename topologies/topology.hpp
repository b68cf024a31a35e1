// Topology: which ranks exchange with each other, and how often. A connected, undirected graph with
// a rate per edge. A value.
//
// Ranks are 0..ranks-1. Edges are stored once, i < j, sorted by (i, j). Rates are exchanges per
// unit of time; the caller chooses the unit (here: the mean gradient time). A graph from a spec
// gives every rank the rate r on average: rate_ij = r/2 (1/d_i + 1/d_j) per listed edge, where d
// counts a doubly listed neighbour twice. This is the normalisation of the A2CiD2 reference: n r /
// 2 exchanges per unit of time in all.
//
// A graph is a pure function of (spec, ranks): every node that knows both has the same graph.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "kernels/base/result.hpp"

namespace grapevine {

struct Edge {
  int i = 0, j = 0;      // i < j
  double rate = 0;       // events per unit of time, > 0; doubly listed: of both together
  int multiplicity = 1;  // 2: listed twice (exponential, as published: both edges to i +- n/2)
  // Bit k: it belongs to tree k (double-binary-trees: 1, 2 or 3), see trees.hpp.
  uint8_t trees = 1;
};

struct Neighbour {
  int rank = 0;
  int edge = 0;  // index into edges()
};

class Topology {
 public:
  Topology() = default;

  /// Takes edges in any order and direction. Refuses self-loops, ranks out of range, rates that are
  /// not positive and finite, repeated edges, and graphs that are not connected, each with a
  /// sentence. One rank without edges is a graph. The rates are absolute: rates_given().
  static Result<Topology> from_edges(int ranks, std::vector<Edge> edges, std::string name);

  int ranks() const { return ranks_; }
  const std::string& name() const { return name_; }  // its spec
  const std::vector<Edge>& edges() const { return edges_; }
  std::span<const Neighbour> neighbours(int rank) const;  // ascending
  int degree(int rank) const { return static_cast<int>(neighbours(rank).size()); }
  bool rates_given() const { return rates_given_; }  // absolute, from a file; not computed from r

 private:
  friend Result<Topology> make_topology(const std::string&, int, double);
  int ranks_ = 0;
  bool rates_given_ = false;
  std::string name_;
  std::vector<Edge> edges_;
  std::vector<int> first_;  // neighbours of k: neighbour_[first_[k]] .. neighbour_[first_[k+1]-1]
  std::vector<Neighbour> neighbour_;
};

/// spec: ring | chain | star | complete | exponential | exponential-simple | torus[:ROWSxCOLUMNS] |
/// hypercube | binary-tree | relay-tree | relay-tree-reversed | double-binary-trees | three-tree |
/// random-regular[:DEGREE[:SEED]] | erdos-renyi[:PROBABILITY[:SEED]] | cliques (two, joined by an
/// edge) | social | spanning:GRAPH[@ROOT] (a tree of any of these) | a file (a spec with '/' or
/// '.'; lines `i j rate`, # comments). `rate` is r, exchanges per rank and unit of time.
Result<Topology> make_topology(const std::string& spec, int ranks, double rate);

/// A graph that the caller adds; its spec is NAME[:ARGUMENT[:ARGUMENT]].
struct TopologyKind {
  std::string name;
  std::string arguments = {};  // as users see them: "[:WIDTH]"
  size_t most_arguments = 0;   // a spec with more is refused
  std::string sentence = {};   // for --help
  /// Returns each edge once, in any order and direction, without rates (they follow from the
  /// degrees). A pure function, because every node calls it; any thread may call it.
  std::function<Result<std::vector<Edge>>(int ranks, const std::vector<std::string>& arguments)>
      make;
};

/// After this call make_topology accepts its name. Errors (user): the name is taken or invalid, or
/// there is no `make`.
Status register_topology(TopologyKind);

/// Whether make_topology would read a file for this spec or for the graph that it spans.
bool names_edge_file(const std::string& spec);

/// One line per spec, for --help and error messages.
std::string topology_specs();

/// The rates if rank i computes g_i gradients per unit of time: r/2 (g_i/d_i + g_j/d_j) per listed
/// edge; a file's rates unchanged. One per edge.
std::vector<double> wanted_rates(const Topology&, double r, std::span<const double> gradient_rates);

/// A proper edge colouring, one colour per edge (greedy in edge order: at most 2 max degree - 1
/// colours).
std::vector<int> edge_colouring(const Topology&);

/// The graph as an SVG file.
std::string draw_svg(const Topology&);

}  // namespace grapevine
