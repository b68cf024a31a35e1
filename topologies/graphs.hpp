// The parts of make_topology: the table of graphs, the random graphs, the file reader. Used only in
// topologies/.
//
// A graph is made from a request (the spec, the ranks, the arguments after the colons), as a list
// of links without rates. An error is one line that begins with the request.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/base/result.hpp"
#include "topologies/topology.hpp"

namespace grapevine {

struct Link {
  int i = 0, j = 0;
  int multiplicity = 1;
  uint8_t trees = 1;  // as in Edge
};

using Links = std::vector<Link>;

struct GraphRequest {
  std::string spec;
  int ranks = 0;
  std::vector<std::string> arguments;
};

/// "name:first:second", split at its colons.
GraphRequest request_of(const std::string& spec, int ranks);

struct GraphKind {
  const char* name;
  const char* arguments;  // as the user sees them
  size_t most_arguments;
  const char* sentence;
  Result<Links> (*make)(const GraphRequest&);
};

/// All named graphs. A new graph needs a row here and its function.
std::span<const GraphKind> graph_kinds();

Result<Links> random_regular(const GraphRequest&);
Result<Links> erdos_renyi(const GraphRequest&);
Result<Links> complete(const GraphRequest&);
Result<Links> relay_tree(const GraphRequest&);
Result<Links> relay_tree_reversed(const GraphRequest&);
Result<Links> double_binary_trees(const GraphRequest&);
Result<Links> three_tree(const GraphRequest&);
Result<Links> social(const GraphRequest&);
Result<Links> spanning(const GraphRequest&);

struct Sides {
  int rows = 0, columns = 0;
};
Result<Sides> torus_sides(const GraphRequest&);

struct EdgeList {
  std::vector<Edge> edges;
  bool rates_given = false;
};

/// Reads lines `i j rate`, or only lines `i j`. An error names the file and the line. Does not
/// check that the graph is connected.
Result<EdgeList> read_edge_file(const std::string& path, int ranks);

/// The error in a single edge, as a sentence; empty: there is none.
std::string edge_complaint(const Edge&, int ranks);

constexpr int kMostRanks = 1 << 23;
constexpr int64_t kMostEdges = int64_t{1} << 24;  // more would take gigabytes: surely a mistake

/// "topology 'SPEC' with N ranks: COMPLAINT"
Error refused(const GraphRequest&, const std::string& complaint);

constexpr int64_t kMostDenseEdges = int64_t{1} << 21;  // for graphs that join nearly all pairs

/// The error if the graph would have more than `most` edges.
std::optional<Error> too_many(const GraphRequest&, double edges, int64_t most = kMostEdges);

/// The text in quotes, cut if it is long, without control characters: for a one-line message.
std::string in_quotes(std::string_view);

}  // namespace grapevine
