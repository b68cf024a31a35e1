// The tree of a mean follows from its number, spans whoever can be reached, and is low.
#include <algorithm>
#include <set>

#include "actors/cluster/mean_tree.hpp"
#include "actors/membership/member_table.hpp"
#include "kernels/base/random.hpp"
#include "tests/catch.hpp"

using namespace grapevine;

namespace {

std::vector<MeanMember> members_of(size_t count) {
  std::vector<MeanMember> all;
  for (size_t k = 0; k < count; ++k) {
    MeanMember m;
    m.node = "n" + std::to_string(1000 + k);
    m.incarnation = 1;
    m.first_rank = static_cast<uint32_t>(2 * k);
    m.ranks = 2;
    all.push_back(m);
  }
  return all;
}

void cut(std::vector<MeanMember>& all, size_t a, size_t b) {
  all[a].unreachable.push_back(name_hash(all[b].node));
}

int depth_of(const MeanTree& tree, int place) {
  int depth = 0;
  for (; tree.places[static_cast<size_t>(place)].parent >= 0; ++depth)
    place = tree.places[static_cast<size_t>(place)].parent;
  return depth;
}

size_t in_tree(const MeanTree& tree) {
  return static_cast<size_t>(std::count_if(tree.places.begin(), tree.places.end(),
                                           [](const MeanTree::Place& p) { return p.in; }));
}

}  // namespace

TEST_CASE(
    "a tree spans all nodes, has their lowest name as its root, and no node has five neighbours") {
  for (const size_t count : {1u, 2u, 5u, 6u, 64u, 256u, 1000u}) {
    const MeanTree tree = mean_tree(mean_key(1, members_of(count)), 1);
    INFO(count << " nodes");
    REQUIRE(in_tree(tree) == count);
    CHECK(tree.root == 0);
    CHECK(tree.places[0].ranks_at_most == 2 * count);
    int deepest = 0;
    size_t widest = 0;
    for (size_t k = 0; k < count; ++k) {
      deepest = std::max(deepest, depth_of(tree, static_cast<int>(k)));
      widest = std::max(widest, tree.neighbours(static_cast<int>(k)).size());
    }
    CHECK(widest <= kMostMeanDegree);
    size_t reached = 1, layer = 4;  // 4 x 3^k nodes at depth k + 1
    int least = 0;
    for (; reached < count; ++least, layer *= 3)
      reached += layer;
    CHECK(deepest == least);
  }
}

// 11 MB are 22 pieces of fp32, 43 MB 83.
TEST_CASE("the links of a large model carry fewer models, as long as the path is not long") {
  struct Row {
    size_t nodes;
    uint32_t pieces;
    size_t degree, deepest;
  };
  for (const Row& row :
       {Row{2, 83, 1, 1}, Row{4, 1, 3, 1}, Row{4, 22, 2, 2}, Row{4, 83, 2, 2}, Row{16, 22, 2, 8},
        Row{16, 83, 2, 8}, Row{64, 22, 3, 5}, Row{64, 83, 3, 5}, Row{64, 1000, 2, 32}}) {
    const MeanTree tree = mean_tree(mean_key(1, members_of(row.nodes)), row.pieces);
    INFO(row.nodes << " nodes, " << row.pieces << " pieces");
    size_t widest = 0;
    int deepest = 0;
    for (size_t k = 0; k < row.nodes; ++k) {
      widest = std::max(widest, tree.neighbours(static_cast<int>(k)).size());
      deepest = std::max(deepest, depth_of(tree, static_cast<int>(k)));
    }
    CHECK(in_tree(tree) == row.nodes);
    CHECK(widest == row.degree);
    CHECK(deepest == static_cast<int>(row.deepest));
  }
}

TEST_CASE("a number names who wanted it, each node's incarnation and ranks, and the cut pairs") {
  const std::vector<MeanMember> all = members_of(4);
  std::set<uint64_t> numbers{mean_key(0, all).number(), mean_key(1, all).number()};
  const auto with = [&](auto change) {
    std::vector<MeanMember> other = all;
    change(other);
    numbers.insert(mean_key(1, other).number());
  };
  with([](auto& m) { m[2].incarnation = 2; });
  with([](auto& m) { m[2].ranks = 3; });
  with([](auto& m) { m[2].first_rank = 40; });
  with([](auto& m) { m.pop_back(); });
  with([](auto& m) { m[1].left = true; });
  with([](auto& m) { cut(m, 0, 3); });
  with([](auto& m) { cut(m, 1, 3); });
  CHECK(numbers.size() == 9);
  CHECK(numbers.count(0) == 0);
}

TEST_CASE(
    "a number is the same whoever says that a pair is cut, and in whatever order nodes are known") {
  std::vector<MeanMember> one = members_of(5), other = one, both = one;
  cut(one, 1, 3);
  cut(other, 3, 1);
  cut(both, 1, 3);
  cut(both, 3, 1);
  std::reverse(other.begin(), other.end());
  const uint64_t number = mean_key(7, one).number();
  CHECK(mean_key(7, other).number() == number);
  CHECK(mean_key(7, both).number() == number);
}

TEST_CASE(
    "a number does not change with what nodes say that they have, nor with strangers' names") {
  std::vector<MeanMember> all = members_of(3);
  const uint64_t number = mean_key(1, all).number();
  all[1].told_number = 5;
  all[1].told_hash = 6;
  all[2].unreachable = {name_hash("nobody"), name_hash(all[2].node)};
  CHECK(mean_key(1, all).number() == number);
}

TEST_CASE("a number does not change with what nodes say that no other can reach") {
  std::vector<MeanMember> all = members_of(4);
  for (const size_t k : {0u, 2u, 3u})
    cut(all, k, 1);
  const uint64_t number = mean_key(1, all).number();
  cut(all, 1, 3);
  all[1].incarnation = 9;
  CHECK(mean_key(1, all).number() == number);
  all.erase(all.begin() + 1);
  CHECK(mean_key(1, all).number() == number);
  cut(all, 0, 2);
  CHECK(mean_key(1, all).number() != number);
}

TEST_CASE("whatever pairs are cut, the tree spans the largest part and uses none of them") {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    Random random(seed, 0, Purpose::test);
    const size_t count = 2 + random.below(12);
    std::vector<MeanMember> all = members_of(count);
    std::set<std::pair<size_t, size_t>> pairs;
    for (uint32_t k = random.below(static_cast<uint32_t>(count * count)); k > 0; --k) {
      const size_t a = random.below(static_cast<uint32_t>(count));
      const size_t b = random.below(static_cast<uint32_t>(count));
      if (a == b) continue;
      cut(all, a, b);
      pairs.insert({std::min(a, b), std::max(a, b)});
    }
    std::vector<size_t> part(count);  // by union of what can be reached
    for (size_t k = 0; k < count; ++k)
      part[k] = k;
    for (size_t round = 0; round < count; ++round)
      for (size_t a = 0; a < count; ++a)
        for (size_t b = a + 1; b < count; ++b)
          if (pairs.count({a, b}) == 0) part[a] = part[b] = std::min(part[a], part[b]);
    size_t largest = 0;
    for (size_t k = 0; k < count; ++k)
      largest = std::max(largest, static_cast<size_t>(std::count(part.begin(), part.end(), k)));
    const MeanTree tree = mean_tree(mean_key(1, all), seed % 2 == 0 ? 1 : 1000);
    INFO("seed " << seed);
    CHECK(in_tree(tree) == largest);
    for (size_t k = 0; k < count; ++k) {
      const int parent = tree.places[k].parent;
      if (parent < 0) continue;
      const auto p = static_cast<size_t>(parent);
      CHECK(pairs.count({std::min(k, p), std::max(k, p)}) == 0);
      CHECK(depth_of(tree, static_cast<int>(k)) < static_cast<int>(count));
    }
  }
}
