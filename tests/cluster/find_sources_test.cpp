// From whom a newcomer fetches.
#include "actors/cluster/find_sources.hpp"

#include <set>

#include "tests/catch.hpp"

using namespace grapevine;

namespace {

std::vector<Member> graph_of(int nodes) {
  std::vector<Member> graph(static_cast<size_t>(nodes));
  for (size_t k = 0; k < graph.size(); ++k) {
    graph[k].node = std::string(1, static_cast<char>('a' + k));
    graph[k].first_rank = static_cast<uint32_t>(2 * k);
  }
  return graph;
}

bool nobody(const std::string&) { return false; }
bool everybody(const std::string&) { return true; }

}  // namespace

TEST_CASE("a newcomer asks those that it has links with, each for a rank of theirs, not itself") {
  const FoundSources found = find_sources(
      graph_of(4), "b", [](const std::string& node) { return node == "b" || node == "d"; });
  REQUIRE(found.sources.size() == 1);
  CHECK(found.sources[0].node == "d");
  CHECK(found.sources[0].rank == 6);
  CHECK(found.dials.empty());
}

TEST_CASE("who has no link dials three others, and who is alone nobody") {
  const FoundSources found = find_sources(graph_of(9), "a", nobody);
  CHECK(found.sources.empty());
  const std::set<std::string> dials(found.dials.begin(), found.dials.end());
  CHECK(dials.size() == 3);
  CHECK(dials.count("a") == 0);
  const FoundSources alone = find_sources(graph_of(1), "a", nobody);
  CHECK((alone.sources.empty() && alone.dials.empty()));
}

TEST_CASE("newcomers that come at once do not all ask the same node first") {
  std::set<std::string> first;
  for (const std::string newcomer : {"x", "y", "z", "v", "w"}) {
    const FoundSources found = find_sources(graph_of(8), newcomer, everybody);
    CHECK(found.sources.size() == 8);
    first.insert(found.sources.front().node);
  }
  CHECK(first.size() >= 3);
}

TEST_CASE("newcomers without links do not all dial the same nodes") {
  std::set<std::string> dialled;
  for (const std::string newcomer : {"x", "y", "z", "v", "w"})
    for (const std::string& node : find_sources(graph_of(8), newcomer, nobody).dials)
      dialled.insert(node);
  CHECK(dialled.size() > 3);
}
