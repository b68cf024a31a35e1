#include "actors/membership/member_table.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <tuple>

#include "kernels/base/check.hpp"
#include "kernels/memory/hash.hpp"
#include "messages/facts.hpp"

namespace grapevine {

namespace {

uint64_t graph_hash(const Member& m) {
  if (!in_graph(m)) return 0;
  uint64_t h = folded(folded(folded(name_hash(m.node), m.incarnation), m.first_rank), m.ranks);
  h = folded(h, id_of(m.key));
  for (const RankGone& g : m.gone)
    h = folded(folded(h, g.rank), uint64_t{g.incarnation} << 1 | uint64_t{g.lives});
  return h;
}

uint64_t record_hash(const Member& m) {
  return folded(fnv1a(fact_bytes(0, m)), static_cast<uint64_t>(m.state));
}

uint64_t spec_hash(const GraphSpec& spec) {
  return folded(folded(name_hash(spec.topology), name_hash(spec.node)), spec.version);
}

uint32_t phase(const Member& m) {
  return is_over(m) ? 2 + kChangesAtMost : in_graph(m) ? 1 + changes_in(m) : 0;
}

uint64_t age(const Member& m) { return 256 * uint64_t{m.incarnation} + phase(m); }

// Only the node itself says that it has left.
bool possible_state(const Member& m) {
  if (m.last_word == MemberState::alive) return m.state != MemberState::left;
  return m.last_word == MemberState::left && m.state == MemberState::left;
}

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

uint32_t name_mark(std::string_view name) { return static_cast<uint32_t>(name_hash(name)); }

const char* impossible(const Member& m) {
  const uint32_t first = m.first_rank == kAnyRank ? 0 : m.first_rank;
  if (m.node.empty() || m.node.size() > kNameBytes) return "an invalid name";
  if (m.incarnation == 0 || m.incarnation > kIncarnationsAtMost ||
      m.refutations > kRefutationsAtMost || m.generation > kGenerationsAtMost)
    return "an invalid incarnation";
  if (!possible_state(m)) return "an invalid state";
  if (m.ranks > kRanksOfNodeAtMost || first > kRankNumbersAtMost - m.ranks) return "invalid ranks";
  if (!possible_gone(m)) return "invalid gone ranks";
  const auto& names = m.unreachable;
  if (names.size() > kMaxUnreachable || !std::is_sorted(names.begin(), names.end()))
    return "invalid unreachable nodes";
  return nullptr;
}

bool same_word(const Member& a, const Member& b) {
  Member other = b;
  other.state = a.state;
  other.accuser = a.accuser;
  return a == other;
}

bool contradict(const Member& a, const Member& b) {
  return a.key == b.key && a.life == b.life && a.incarnation == b.incarnation &&
         a.refutations == b.refutations && fact_bytes(0, a) != fact_bytes(0, b);
}

uint64_t means_asked_by(const Member& m) {
  return m.means_asked == 0 ? 0 : folded(id_of(m.key), m.means_asked);
}

bool newer(const Member& a, const Member& b) {
  const auto order = [](const Member& m) {
    return std::tuple(m.incarnation, phase(m), m.refutations, m.state);
  };
  if (const auto first = order(a), second = order(b); first != second) return first > second;
  return fact_bytes(0, a) > fact_bytes(0, b);
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

std::string ranks_of(const Member& m) {
  if (m.ranks == 0 || m.first_rank == kAnyRank) return "no ranks yet";
  return fmt::format("ranks {} to {}", m.first_rank, m.first_rank + m.ranks - 1);
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

MemberTable::MemberTable(Member self, GraphSpec spec) : spec_(std::move(spec)) {
  GV_CHECK(impossible(self) == nullptr);
  by_name_.push_back(0);
  by_id_[id_of(self.key)] = 0;
  records_.push_back(std::move(self));
  count(records_[0], true);
}

void MemberTable::count(const Member& m, bool in) {
  const uint64_t sign = in ? 1 : ~uint64_t{0};  // sums modulo 2^64
  counter_ += sign * age(m);
  members_hash_ += sign * graph_hash(m);
  records_hash_ += sign * record_hash(m);
  means_asked_ += sign * means_asked_by(m);
  live_ += is_over(m) ? 0 : sign;
  stopping_ += m.stops && m.generation >= records_[0].generation ? sign : 0;
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
    by_id_.emplace(id_of(m.key), index);
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
  has_old_rates_ = has_old_rates_ || is_over(m) || m.incarnation > known.incarnation;
  if (known.key != m.key) {
    const auto before = by_id_.find(id_of(known.key));
    if (before != by_id_.end() && before->second == *place) by_id_.erase(before);
    by_id_.emplace(id_of(m.key), *place);
    std::erase_if(rates_, [&](const auto& r) { return r.first.first == *place; });
  }
  return {*place, true, std::exchange(known, m), nullptr};
}

bool MemberTable::merge(const GraphSpec& spec) {
  if (!wins(spec, spec_) || spec.version > kSpecsAtMost) return false;
  spec_ = spec;
  return true;
}

bool MemberTable::merge(const RateFact& fact) {
  const auto owner = find(fact.owner);
  if (!owner || !live(*owner) || fact.part >= kRatePartsAtMost) return false;
  const RatePart part{*owner, fact.part};
  const auto found = rates_.find(part);
  if (found == rates_.end() && rates_.size() >= kRateFactsAtMost) return false;
  if (found != rates_.end() && std::tie(fact.incarnation, fact.number) <=
                                   std::tie(found->second.incarnation, found->second.number))
    return false;
  rates_.insert_or_assign(part, fact);
  return true;
}

bool MemberTable::merge(const WorkFact& fact) {
  if (!find(fact.owner)) return false;
  if (work_.size() >= kWorkFactsAtMost && !work_.contains(fact.owner)) return false;
  const auto [known, first] = work_.try_emplace(fact.owner, fact);
  if (first) return true;
  if (fact.number <= known->second.number || fact.taken < known->second.taken) return false;
  known->second = fact;
  return true;
}

void MemberTable::forget_old_rates() {
  has_old_rates_ = false;
  std::erase_if(rates_, [&](const auto& r) {
    const Member& owner = records_[r.first.first];
    return is_over(owner) || r.second.incarnation < owner.incarnation;
  });
}

std::vector<EdgeRate> MemberTable::edge_rates() const {
  struct Word {
    uint64_t number = 0;  // of the fact that says so; 0: nothing is said
    uint32_t by = 0;
    double per_second = 0;
  };
  struct Words {
    Word of_i, of_j;
  };
  const std::vector<Place> all = places();
  const auto has = [&](uint32_t member, uint32_t rank) {
    const auto at = std::lower_bound(all.begin(), all.end(), rank,
                                     [](const Place& p, uint32_t r) { return p.rank < r; });
    return at != all.end() && at->rank == rank && at->member == member;
  };
  std::map<std::pair<uint32_t, uint32_t>, Words> said;
  for (const auto& [part, fact] : rates_) {
    if (fact.incarnation < records_[part.first].incarnation) continue;
    for (const EdgeRate& rate : fact.rates) {
      if (rate.i >= rate.j) continue;
      const Word word{fact.number, part.first, rate.per_second};
      const bool at_i = has(word.by, rate.i), at_j = has(word.by, rate.j);
      if (!at_i && !at_j) continue;
      Words& words = said[{rate.i, rate.j}];
      if (at_i && word.number >= words.of_i.number) words.of_i = word;
      if (at_j && word.number >= words.of_j.number) words.of_j = word;
    }
  }
  std::vector<EdgeRate> rates;
  for (const auto& [edge, words] : said) {
    const auto& [i, j] = words;
    const auto is_own = [](const Word& w) { return w.number > 0 && w.by == 0; };
    const auto [low, high] = std::minmax(i.per_second, j.per_second);
    const bool both = i.number > 0 && j.number > 0;
    double rate = std::min(high, 2 * low);
    if (is_own(i) || is_own(j)) {
      const double own = is_own(i) ? i.per_second : j.per_second;
      if (!both || rate > kOwnWins * own || own > kOwnWins * rate) rate = own;
    } else if (!both) {
      continue;
    }
    rates.push_back({edge.first, edge.second, rate});
  }
  return rates;
}

std::optional<uint32_t> MemberTable::find(std::string_view node) const {
  const auto place =
      std::lower_bound(by_name_.begin(), by_name_.end(), node,
                       [&](uint32_t i, std::string_view name) { return records_[i].node < name; });
  if (place == by_name_.end() || records_[*place].node != node) return std::nullopt;
  return *place;
}

std::optional<uint32_t> MemberTable::find(uint64_t id) const {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? std::nullopt : std::optional(found->second);
}

uint64_t MemberTable::epoch() const {
  const uint64_t hash = mixed(members_hash_ ^ spec_hash(spec_));
  return (counter_ + spec_.version) << 32 | (hash >> 32);
}

uint64_t MemberTable::digest() const {
  const uint64_t digest = mixed(records_hash_ ^ spec_hash(spec_));
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
