#include "actors/membership/member_table.hpp"

#include <algorithm>
#include <bit>
#include <tuple>

#include "kernels/base/check.hpp"
#include "kernels/memory/hash.hpp"

namespace grapevine {

namespace {

uint64_t graph_hash(const Member& m) {
  if (!in_graph(m)) return 0;
  uint64_t h = folded(folded(folded(name_hash(m.node), m.incarnation), m.first_rank), m.ranks);
  for (const RankGone& g : m.gone)
    h = folded(folded(h, g.rank), uint64_t{g.incarnation} << 1 | uint64_t{g.lives});
  return h;
}

uint64_t record_hash(const Member& m) {
  uint64_t h = folded(name_hash(m.node), name_hash(m.address));
  h = folded(h, uint64_t{m.incarnation} << 32 | m.refutations);
  h = folded(h, uint64_t{m.first_rank} << 32 | m.ranks);
  h = folded(h, static_cast<uint64_t>(m.state) << 2 | uint64_t{m.ready} << 1 | m.finished);
  h = folded(folded(folded(h, m.id), m.mean.number), m.mean.hash);
  for (const RankGone& g : m.gone)
    h = folded(folded(h, g.rank), uint64_t{g.incarnation} << 1 | uint64_t{g.lives});
  for (const uint64_t name : m.unreachable)
    h = folded(h, name);
  return folded(h, m.gone.size() << 8 | m.unreachable.size());
}

uint64_t spec_hash(const GraphSpec& spec) {
  return folded(folded(name_hash(spec.topology), name_hash(spec.node)), spec.version);
}

uint64_t facts_hash(const RunFacts& f) {
  return folded(folded(f.run, uint64_t{f.generation} << 1 | uint64_t{f.stopping}), f.means_wanted);
}

uint32_t phase(const Member& m) {
  return is_over(m) ? 2 + kChangesAtMost : in_graph(m) ? 1 + changes_in(m) : 0;
}

uint64_t age(const Member& m) { return 256 * uint64_t{m.incarnation} + phase(m); }

// Of ranks that have gone: in the node's range, each once, in the node's incarnation or later.
bool possible_gone(const Member& m) {
  if (m.gone.empty()) return true;
  if (m.gone.size() > kMaxGone || m.first_rank == kAnyRank) return false;
  uint64_t free_from = m.first_rank;
  for (const RankGone& g : m.gone) {
    const bool fits = g.rank >= free_from && g.rank - m.first_rank < m.ranks &&
                      g.incarnation >= m.incarnation + uint32_t{g.lives} &&
                      g.incarnation <= kIncarnationsAtMost;
    if (!fits) return false;
    free_from = uint64_t{g.rank} + 1;
  }
  return changes_in(m) <= kChangesAtMost;
}

bool has_ranks(const Member& m) { return m.ranks > 0 && m.first_rank != kAnyRank; }

bool overlap(const Member& a, const Member& b) {
  return has_ranks(a) && has_ranks(b) && a.first_rank < b.first_rank + b.ranks &&
         b.first_rank < a.first_rank + a.ranks;
}

// Whether `a` keeps its ranks before `b`.
bool precedes(const Member& a, const Member& b) {
  return std::tuple<bool, uint32_t, const std::string&>(!in_graph(a), a.incarnation, a.node) <
         std::tuple<bool, uint32_t, const std::string&>(!in_graph(b), b.incarnation, b.node);
}

// Numbers that are taken, as disjoint ranges [first, end).
class Places {
 public:
  bool free(uint32_t first, uint32_t count) const {
    const auto above = ranges_.upper_bound(first);
    return (above == ranges_.end() || above->first >= first + count) &&
           (above == ranges_.begin() || std::prev(above)->second <= first);
  }
  void take(uint32_t first, uint32_t count) {
    uint32_t end = first + count;
    auto at = ranges_.upper_bound(first);
    if (at != ranges_.begin() && std::prev(at)->second >= first) first = (--at)->first;
    for (; at != ranges_.end() && at->first <= end; at = ranges_.erase(at))
      end = std::max(end, at->second);
    ranges_.emplace(first, end);
  }
  uint32_t first_free(uint32_t count) const {
    uint32_t end = 0;
    for (const auto& [first, its_end] : ranges_) {
      if (first >= end + count) break;
      end = its_end;
    }
    return end;
  }

 private:
  std::map<uint32_t, uint32_t> ranges_;
};

}  // namespace

uint64_t name_hash(std::string_view name) { return mixed(fnv1a(name)); }

const char* impossible(const Member& m) {
  const uint32_t first = m.first_rank == kAnyRank ? 0 : m.first_rank;
  if (m.node.empty() || m.node.size() > kNameBytes) return "a name that cannot be";
  if (m.incarnation == 0 || m.incarnation > kIncarnationsAtMost ||
      m.refutations > kRefutationsAtMost)
    return "an incarnation that cannot be";
  if (m.ranks > kRanksOfNodeAtMost || first > kRankNumbersAtMost - m.ranks)
    return "ranks that cannot be";
  if (!possible_gone(m)) return "ranks gone that cannot be";
  const auto& names = m.unreachable;
  if (names.size() > kMaxUnreachable || !std::is_sorted(names.begin(), names.end()))
    return "unreachable nodes that cannot be";
  return nullptr;
}

bool newer(const Member& a, const Member& b) {
  const auto order = [](const Member& m) {
    return std::tuple(m.incarnation, phase(m), m.refutations, m.state);
  };
  if (const auto first = order(a), second = order(b); first != second) return first > second;
  return record_hash(a) > record_hash(b);
}

uint32_t changes_in(const Member& m) {
  uint64_t sum = 0;
  for (const RankGone& g : m.gone)
    sum += 2 * (uint64_t{g.incarnation} - m.incarnation) + (g.lives ? 0 : 1);
  return static_cast<uint32_t>(std::min<uint64_t>(sum, ~uint32_t{0}));
}

uint32_t last_incarnation(const Member& m) {
  uint32_t last = m.incarnation;
  for (const RankGone& g : m.gone)
    last = std::max(last, g.incarnation);
  return last;
}

std::optional<uint32_t> incarnation_of(const Member& m, uint32_t rank) {
  for (const RankGone& g : m.gone) {
    if (g.rank != rank) continue;
    if (g.lives) return g.incarnation;
    return std::nullopt;
  }
  return m.incarnation;
}

bool wins(const GraphSpec& a, const GraphSpec& b) {
  return std::tie(a.version, a.node, a.topology) > std::tie(b.version, b.node, b.topology);
}

MemberTable::MemberTable(Member self, GraphSpec spec, RunFacts facts)
    : spec_(std::move(spec)), facts_(facts) {
  self.incarnation = std::max(self.incarnation, 1u);
  GV_CHECK(impossible(self) == nullptr);
  count(self, true);
  by_name_.push_back(0);
  records_.push_back(std::move(self));
}

void MemberTable::count(const Member& m, bool in) {
  const uint64_t sign = in ? 1 : ~uint64_t{0};  // sums modulo 2^64
  counter_ += sign * age(m);
  members_hash_ += sign * graph_hash(m);
  records_hash_ += sign * record_hash(m);
  live_ += is_over(m) ? 0 : sign;
}

MemberTable::Merged MemberTable::merge(const Member& m) {
  if (const char* why = impossible(m)) return {0, false, std::nullopt, why};
  const auto place = std::lower_bound(
      by_name_.begin(), by_name_.end(), m.node,
      [&](uint32_t i, const std::string& node) { return records_[i].node < node; });
  if (place == by_name_.end() || records_[*place].node != m.node) {
    if (records_.size() >= kMembersAtMost || counter_ + age(m) > kStrangersUntil)
      return {0, false, std::nullopt, "more nodes than are kept"};
    const auto index = static_cast<uint32_t>(records_.size());
    by_name_.insert(place, index);
    records_.push_back(m);
    count(m, true);
    return {index, true, std::nullopt, nullptr};
  }
  Member& known = records_[*place];
  if (!newer(m, known)) return {*place, false, std::nullopt, nullptr};
  if (m.incarnation > known.incarnation + kLeap && counter_ + age(m) - age(known) > kStrangersUntil)
    return {*place, false, std::nullopt, "more incarnations than are counted"};
  count(known, false);
  count(m, true);
  return {*place, true, std::exchange(known, m), nullptr};
}

bool MemberTable::merge(const GraphSpec& spec) {
  if (!wins(spec, spec_) || spec.version > kSpecsAtMost) return false;
  spec_ = spec;
  return true;
}

bool MemberTable::merge(const EdgeRate& rate) {
  const auto found = rates_.find({rate.i, rate.j});
  if (found != rates_.end()) {
    if (rate.stamp <= found->second.stamp) return false;
    found->second = rate;
    return true;
  }
  if (rates_.size() >= kEdgeRatesAtMost) return false;
  rates_.emplace(std::pair(rate.i, rate.j), rate);
  return true;
}

bool MemberTable::merge(const RunFacts& said) {
  const bool possible = said.run == facts_.run && said.generation <= kGenerationsAtMost &&
                        said.means_wanted <= kMeansAtMost;
  if (!possible || said.generation < facts_.generation) return false;
  RunFacts merged = said;
  if (said.generation == facts_.generation) {
    merged.stopping |= facts_.stopping;
    merged.means_wanted = std::max(merged.means_wanted, facts_.means_wanted);
  }
  if (merged == facts_) return false;
  facts_ = merged;
  return true;
}

void MemberTable::keep_rates_of(const std::function<bool(uint32_t rank)>& live) {
  std::erase_if(rates_,
                [&](const auto& r) { return !live(r.first.first) || !live(r.first.second); });
}

std::optional<uint32_t> MemberTable::find(std::string_view node) const {
  const auto place =
      std::lower_bound(by_name_.begin(), by_name_.end(), node,
                       [&](uint32_t i, std::string_view name) { return records_[i].node < name; });
  if (place == by_name_.end() || records_[*place].node != node) return std::nullopt;
  return *place;
}

uint64_t MemberTable::epoch() const {
  const uint64_t hash = mixed(members_hash_ ^ spec_hash(spec_));
  return (counter_ + spec_.version) << 32 | (hash >> 32);
}

uint64_t MemberTable::digest() const {
  const uint64_t digest = mixed(records_hash_ ^ spec_hash(spec_) ^ facts_hash(facts_));
  return digest == 0 ? 1 : digest;
}

bool MemberTable::overlapped() const {
  return std::any_of(records_.begin() + 1, records_.end(), [&](const Member& m) {
    return !is_over(m) && overlap(m, records_[0]) && precedes(m, records_[0]);
  });
}

// Live members that have ranks or want some: who comes first keeps what overlaps.
std::vector<uint32_t> MemberTable::by_precedence() const {
  std::vector<uint32_t> queue;
  for (uint32_t i = 0; i < records_.size(); ++i)
    if (!is_over(records_[i]) && records_[i].ranks > 0) queue.push_back(i);
  std::sort(queue.begin(), queue.end(),
            [&](uint32_t a, uint32_t b) { return precedes(records_[a], records_[b]); });
  return queue;
}

std::vector<MemberTable::Place> MemberTable::places() const {
  Places taken;
  std::vector<Place> all;
  for (const uint32_t member : by_precedence()) {
    const Member& m = records_[member];
    if (!in_graph(m)) break;  // these come first
    const bool fits =
        taken.free(m.first_rank, m.ranks) && all.size() + m.ranks <= kGraphRanksAtMost;
    if (!fits) continue;
    taken.take(m.first_rank, m.ranks);
    for (uint32_t rank = m.first_rank; rank < m.first_rank + m.ranks; ++rank)
      if (const auto incarnation = incarnation_of(m, rank))
        all.push_back({rank, *incarnation, member});
  }
  std::sort(all.begin(), all.end(), [](const Place& a, const Place& b) { return a.rank < b.rank; });
  return all;
}

std::optional<uint32_t> MemberTable::move_to() const {
  const Member& self = records_[0];
  if (is_over(self) || self.ranks == 0) return std::nullopt;
  if (self.first_rank != kAnyRank && !overlapped()) return std::nullopt;
  Places taken;
  std::vector<const Member*> moving;
  for (const uint32_t member : by_precedence()) {
    const Member& m = records_[member];
    if (has_ranks(m) && taken.free(m.first_rank, m.ranks)) {
      taken.take(m.first_rank, m.ranks);
    } else {
      moving.push_back(&m);
    }
  }
  for (const Member& m : records_) {
    if (m.state == MemberState::dead && has_ranks(m)) taken.take(m.first_rank, m.ranks);
  }
  for (const Member* m : moving) {
    const uint32_t first = taken.first_free(m->ranks);
    if (m == &self) return first;
    taken.take(first, m->ranks);
  }
  return std::nullopt;
}

uint32_t MemberTable::incarnation_with(uint32_t first_rank) const {
  Member self = records_[0];
  self.first_rank = first_rank;
  for (const Member& m : records_) {
    if (m.node == self.node || !is_over(m) || !overlap(m, self)) continue;
    self.incarnation =
        std::max(self.incarnation, std::min(last_incarnation(m) + 1, kIncarnationsAtMost));
  }
  return self.incarnation;
}

}  // namespace grapevine
