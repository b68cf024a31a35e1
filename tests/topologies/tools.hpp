// Shared by the tests of topologies/: a graph or a failed test, random graphs, files.
#pragma once
#include <rapidcheck.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/catch.hpp"
#include "topologies/spectrum.hpp"
#include "topologies/topology.hpp"
#include "topologies/trees.hpp"

namespace grapevine::test {

inline Topology graph(const std::string& spec, int ranks, double rate = 1) {
  auto made = make_topology(spec, ranks, rate);
  INFO(spec << " with " << ranks << (made ? "" : ": " + made.error().message));
  REQUIRE(made);
  return *std::move(made);
}

/// The result of spectrum(), or a failed test.
inline Spectrum spectrum_of(const Topology& made, std::span<const double> rates = {}) {
  auto solved = spectrum(made, rates);
  INFO(made.name() << (solved ? "" : ": " + solved.error().message));
  REQUIRE(solved);
  return *std::move(solved);
}

inline std::string refusal(const std::string& spec, int ranks, double rate = 1) {
  const auto made = make_topology(spec, ranks, rate);
  INFO(spec << " with " << ranks << " ranks and rate " << rate);
  REQUIRE_FALSE(made);
  CHECK(made.error().exit_status() == 2);
  CHECK(made.error().message.find('\n') == std::string::npos);
  return made.error().message;
}

using Ends = std::vector<std::pair<int, int>>;

inline Ends ends_of(const Topology& graph) {
  Ends ends;
  for (const Edge& edge : graph.edges()) ends.emplace_back(edge.i, edge.j);
  return ends;
}

/// The most hops between any two ranks, from every rank.
inline int diameter(const Topology& graph) {
  int most = 0;
  for (int rank = 0; rank < graph.ranks(); ++rank) {
    most = std::max(most, std::ranges::max(hops_from(graph, rank)));
  }
  return most;
}

/// A spec with a number of ranks that it accepts, up to about 70.
inline rc::Gen<std::pair<std::string, int>> any_spec() {
  return rc::gen::exec([] {
    using Spec = std::pair<std::string, int>;
    const int any = *rc::gen::inRange(1, 70), power = 1 << *rc::gen::inRange(0, 7);
    const std::string seed = std::to_string(*rc::gen::inRange(0, 1000));
    const int even = 2 * *rc::gen::inRange(4, 35), degree = *rc::gen::inRange(2, 8);
    const std::string sides = std::to_string(degree) + "x" + std::to_string(any);
    return *rc::gen::elementOf(std::vector<Spec>{
        {"ring", any}, {"chain", any}, {"star", any}, {"complete", any}, {"binary-tree", any},
        {"cliques", any}, {"exponential", power}, {"exponential-simple", power},
        {"hypercube", power}, {"torus:" + sides, degree * any}, {"torus", 4 * any},
        {"random-regular:" + std::to_string(degree) + ":" + seed, even},
        {"erdos-renyi:0.5:" + seed, even}, {"relay-tree", any}, {"relay-tree-reversed", any},
        {"double-binary-trees", any}, {"three-tree", any}, {"social", 32},
        {"spanning:random-regular:3:" + seed, even},
        {"spanning:erdos-renyi:0.5:" + seed + "@" + std::to_string(degree), even}});
  });
}

/// A file that lives as long as this object. Its path contains a '/', so it is a spec.
class TextFile {
 public:
  explicit TextFile(const std::string& text) {
    static int files = 0;
    const auto folder = std::filesystem::temp_directory_path();
    path_ = folder / ("grapevine-" + std::to_string(getpid()) + "-" + std::to_string(files++));
    std::ofstream(path_) << text;
  }
  ~TextFile() { std::filesystem::remove(path_); }
  TextFile(const TextFile&) = delete;
  TextFile& operator=(const TextFile&) = delete;

  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

}  // namespace grapevine::test
