#include "topologies/star_mesh.hpp"

#include <Eigen/OrderingMethods>
#include <Eigen/SparseCore>
#include <algorithm>
#include <cmath>

#include "kernels/base/check.hpp"

namespace grapevine {
namespace {

/// The turn of every rank, by approximate minimum degree.
std::vector<int> elimination_order(const Topology& graph) {
  std::vector<Eigen::Triplet<double>> entries;
  for (const Edge& edge : graph.edges()) {
    entries.emplace_back(edge.i, edge.j, 1.0);
    entries.emplace_back(edge.j, edge.i, 1.0);
  }
  for (int i = 0; i < graph.ranks(); ++i) entries.emplace_back(i, i, 1.0);
  Eigen::SparseMatrix<double> pattern(graph.ranks(), graph.ranks());
  pattern.setFromTriplets(entries.begin(), entries.end());
  Eigen::PermutationMatrix<Eigen::Dynamic, Eigen::Dynamic, int> permutation;
  Eigen::AMDOrdering<int>()(pattern, permutation);
  std::vector<int> turn(static_cast<size_t>(graph.ranks()));
  for (int k = 0; k < graph.ranks(); ++k) turn[permutation.indices()[k]] = k;
  return turn;
}

}  // namespace

StarMesh::StarMesh(const Topology& graph, std::span<const double> rates)
    : ranks_(graph.ranks()), turn_(elimination_order(graph)) {
  GV_CHECK(rates.size() == graph.edges().size());
  find_pattern(graph);
  fill_in(graph, rates);
  eliminate();
}

// The mesh edges of k: its own edges, and the meshes of the ranks whose first later neighbour is k.
void StarMesh::find_pattern(const Topology& graph) {
  std::vector<int> rank_at(turn_.size());
  for (int rank = 0; rank < ranks_; ++rank) rank_at[turn_[rank]] = rank;
  std::vector<std::vector<int>> children(turn_.size());
  std::vector<int> mark(turn_.size(), -1);
  start_.assign(1, 0);
  for (int k = 0; k < ranks_; ++k) {
    const size_t first = rows_.size();
    const auto add = [&](int row) {
      if (row <= k || mark[row] == k) return;
      mark[row] = k;
      rows_.push_back(row);
    };
    for (const Neighbour& other : graph.neighbours(rank_at[k])) add(turn_[other.rank]);
    for (const int child : children[k]) {
      for (size_t at = begin(child); at < end(child); ++at) add(rows_[at]);
    }
    std::sort(rows_.begin() + static_cast<ptrdiff_t>(first), rows_.end());
    start_.push_back(static_cast<int64_t>(rows_.size()));
    if (rows_.size() > first) children[rows_[first]].push_back(k);
  }
}

int64_t StarMesh::place(int column, int row) const {
  const auto first = rows_.begin() + start_[column], last = rows_.begin() + start_[column + 1];
  return std::lower_bound(first, last, row) - rows_.begin();
}

void StarMesh::fill_in(const Topology& graph, std::span<const double> rates) {
  weight_.assign(rows_.size(), 0.0);
  for (size_t e = 0; e < rates.size(); ++e) {
    const auto [a, b] = std::minmax(turn_[graph.edges()[e].i], turn_[graph.edges()[e].j]);
    place_of_edge_.push_back(place(a, b));
    weight_[place_of_edge_.back()] = rates[e];
  }
}

namespace {

/// Calls visit(at, b) for the entries b of rows[first..last); `at` is their place in a column that
/// contains them all. Two columns of one dense block have equal rows; this is checked first.
template <class Visit>
void along(const std::vector<int>& rows, size_t first, size_t last, size_t column,
           size_t column_end, Visit visit) {
  if (last - first == column_end - column) {
    for (size_t b = first; b < last; ++b, ++column) visit(column, b);
    return;
  }
  for (size_t b = first; b < last; ++b, ++column) {
    while (rows[column] != rows[b]) ++column;
    visit(column, b);
  }
}

}  // namespace

void StarMesh::eliminate() {
  total_.assign(turn_.size(), 0.0);
  for (int k = 0; k + 1 < ranks_; ++k) {
    for (size_t at = begin(k); at < end(k); ++at) total_[k] += weight_[at];
    for (size_t a = begin(k); a < end(k); ++a) {
      const int i = rows_[a];
      const double p = weight_[a] / total_[k];
      along(rows_, a + 1, end(k), begin(i), end(i),
            [&](size_t at, size_t b) { weight_[at] += p * weight_[b]; });
    }
    for (size_t at = begin(k); at < end(k); ++at) weight_[at] /= total_[k];
  }
}

void StarMesh::solve(std::span<double> b) const {
  GV_CHECK(b.size() == turn_.size());
  std::vector<double> x(b.size());
  const auto centred = [&](std::span<const double> from, auto into) {
    double mean = 0;
    for (const double value : from) mean += value;
    mean /= static_cast<double>(from.size());
    for (int rank = 0; rank < ranks_; ++rank) into(rank, from[rank] - mean);
  };
  centred(b, [&](int rank, double value) { x[turn_[rank]] = value; });
  for (int k = 0; k + 1 < ranks_; ++k) {
    for (size_t at = begin(k); at < end(k); ++at) x[rows_[at]] += weight_[at] * x[k];
  }
  x[ranks_ - 1] = 0;  // the last rank is the ground
  for (int k = ranks_ - 2; k >= 0; --k) {
    x[k] /= total_[k];
    for (size_t at = begin(k); at < end(k); ++at) x[k] += weight_[at] * x[rows_[at]];
  }
  for (int rank = 0; rank < ranks_; ++rank) b[rank] = x[turn_[rank]];
  centred(std::vector<double>(b.begin(), b.end()), [&](int rank, double v) { b[rank] = v; });
}

std::vector<double> StarMesh::edge_resistances() const {
  std::vector<double> resistance(rows_.size());
  std::vector<double> mean;  // sum_i p_i R_ij, for the neighbours j of k
  for (int k = ranks_ - 2; k >= 0; --k) {
    const size_t first = begin(k), last = end(k);
    mean.assign(last - first, 0.0);
    for (size_t a = first; a < last; ++a) {
      const int i = rows_[a];
      double sum = 0;
      along(rows_, a + 1, last, begin(i), end(i), [&](size_t at, size_t b) {
        sum += weight_[b] * resistance[at];
        mean[b - first] += weight_[a] * resistance[at];
      });
      mean[a - first] += sum;
    }
    double half = 0;
    for (size_t a = first; a < last; ++a) half += 0.5 * weight_[a] * mean[a - first];
    for (size_t a = first; a < last; ++a) resistance[a] = 1 / total_[k] + mean[a - first] - half;
  }
  std::vector<double> of_edges;
  of_edges.reserve(place_of_edge_.size());
  for (const int64_t at : place_of_edge_) of_edges.push_back(resistance[at]);
  return of_edges;
}

}  // namespace grapevine
