#include "actors/cluster/mean_tree.hpp"

#include <algorithm>

#include "actors/membership/member_table.hpp"
#include "kernels/base/check.hpp"
#include "kernels/memory/hash.hpp"

namespace grapevine {

namespace {

// A piece is sent, and is as long again under way.
constexpr size_t kHopTimes = 2;

size_t depth(size_t nodes, size_t degree) {
  size_t depth = 0;
  for (size_t reached = 1, layer = degree; reached < nodes; layer *= degree - 1, ++depth)
    reached += layer;
  return depth;
}

size_t best_degree(size_t nodes, uint32_t pieces) {
  const auto lasts = [&](size_t degree) {
    const size_t widest = std::min(degree, nodes - 1);
    return widest * pieces + 2 * kHopTimes * depth(nodes, degree);
  };
  size_t best = kMostMeanDegree;
  for (size_t degree = kMostMeanDegree - 1; degree >= 2; --degree)
    if (lasts(degree) < lasts(best)) best = degree;
  return best;
}

bool is_cut(const MeanKey& key, int a, int b) {
  const std::pair<uint32_t, uint32_t> pair{std::min(a, b), std::max(a, b)};
  return std::binary_search(key.cut.begin(), key.cut.end(), pair);
}

// The largest connected set of members, by rising place.
std::vector<int> largest_part(const MeanKey& key) {
  std::vector<int> left(key.members.size()), best;
  for (size_t k = 0; k < left.size(); ++k)
    left[k] = static_cast<int>(k);
  while (left.size() > best.size()) {
    std::vector<int> part{left.front()};
    left.erase(left.begin());
    for (size_t k = 0; k < part.size(); ++k) {
      std::erase_if(left, [&](int other) {
        const bool reached = !is_cut(key, part[k], other);
        if (reached) part.push_back(other);
        return reached;
      });
    }
    if (part.size() > best.size()) best = std::move(part);
  }
  std::sort(best.begin(), best.end());
  return best;
}

// A node that found no free neighbour joins the reachable node with the fewest children.
void attach_rest(const MeanKey& key, std::vector<int> waiting, std::vector<int>& in,
                 MeanTree& tree) {
  while (!waiting.empty()) {
    const size_t before = waiting.size();
    std::erase_if(waiting, [&](int place) {
      int best = -1;
      for (const int other : in) {
        if (is_cut(key, place, other)) continue;
        const auto burden = [&](int p) {
          return tree.places[static_cast<size_t>(p)].children.size();
        };
        if (best < 0 || burden(other) < burden(best)) best = other;
      }
      if (best < 0) return false;
      tree.places[static_cast<size_t>(best)].children.push_back(place);
      tree.places[static_cast<size_t>(place)].parent = best;
      in.push_back(place);
      return true;
    });
    GV_CHECK(waiting.size() < before);  // all places of a part are connected
  }
}

}  // namespace

// Of the largest part alone: what the others say of themselves starts no mean again.
uint64_t MeanKey::number() const {
  std::vector<uint32_t> places(members.size());  // in the largest part, from 1; 0: not in it
  uint32_t last = 0;
  uint64_t hash = folded(kHashStart, serial);
  for (const int place : part) {
    places[static_cast<size_t>(place)] = ++last;
    const MeanMember& m = members[static_cast<size_t>(place)];
    hash = fnv1a(m.node, folded(hash, m.node.size()));
    hash = folded(hash, uint64_t{m.incarnation} << 32 | m.ranks);
    hash = folded(hash, m.first_rank);
  }
  for (const auto& [a, b] : cut)
    if (places[a] > 0 && places[b] > 0) hash = folded(hash, uint64_t{places[a]} << 32 | places[b]);
  return hash != 0 ? hash : 1;
}

MeanKey mean_key(uint64_t serial, const std::vector<MeanMember>& members) {
  MeanKey key;
  key.serial = serial;
  for (const MeanMember& m : members)
    if (!m.left && !(serial != 0 && m.is_unheard)) key.members.push_back(m);
  std::sort(key.members.begin(), key.members.end(),
            [](const MeanMember& a, const MeanMember& b) { return a.node < b.node; });
  std::vector<std::pair<uint64_t, uint32_t>> names;
  for (uint32_t k = 0; k < key.members.size(); ++k)
    names.push_back({name_hash(key.members[k].node), k});
  std::sort(names.begin(), names.end());
  for (uint32_t k = 0; k < key.members.size(); ++k) {
    for (const uint64_t name : key.members[k].unreachable) {
      const auto at = std::lower_bound(names.begin(), names.end(), std::pair{name, uint32_t{0}});
      if (at == names.end() || at->first != name || at->second == k) continue;
      key.cut.push_back({std::min(k, at->second), std::max(k, at->second)});
    }
  }
  std::sort(key.cut.begin(), key.cut.end());
  key.cut.erase(std::unique(key.cut.begin(), key.cut.end()), key.cut.end());
  key.part = largest_part(key);
  return key;
}

std::vector<int> MeanTree::neighbours(int place) const {
  const Place& here = places[static_cast<size_t>(place)];
  std::vector<int> all = here.children;
  if (here.parent >= 0) all.push_back(here.parent);
  return all;
}

MeanTree mean_tree(const MeanKey& key, uint32_t pieces) {
  MeanTree tree;
  tree.places.resize(key.members.size());
  std::vector<int> waiting = key.part;
  if (waiting.empty()) return tree;
  const size_t degree = best_degree(waiting.size(), pieces);
  tree.root = waiting.front();
  std::vector<int> in{tree.root};
  waiting.erase(waiting.begin());
  for (size_t k = 0; k < in.size(); ++k) {
    const int here = in[k];
    MeanTree::Place& place = tree.places[static_cast<size_t>(here)];
    size_t free = degree - (here != tree.root ? 1 : 0);
    for (size_t w = 0; w < waiting.size() && free > 0;) {
      const int other = waiting[w];
      if (is_cut(key, here, other)) {
        ++w;
        continue;
      }
      waiting.erase(waiting.begin() + static_cast<ptrdiff_t>(w));
      place.children.push_back(other);
      tree.places[static_cast<size_t>(other)].parent = here;
      in.push_back(other);
      --free;
    }
  }
  attach_rest(key, std::move(waiting), in, tree);
  for (auto at = in.rbegin(); at != in.rend(); ++at) {  // children before their parents
    MeanTree::Place& place = tree.places[static_cast<size_t>(*at)];
    place.in = true;
    std::sort(place.children.begin(), place.children.end());
    place.ranks_at_most = key.members[static_cast<size_t>(*at)].ranks;
    for (const int child : place.children)
      place.ranks_at_most += tree.places[static_cast<size_t>(child)].ranks_at_most;
  }
  return tree;
}

}  // namespace grapevine
