#include "actors/membership/member_table.hpp"

#include <algorithm>
#include <bit>
#include <tuple>

#include "kernels/check.hpp"
#include "kernels/hash.hpp"

namespace grapevine {

namespace {

uint64_t graph_hash(const Member& m) {
  if (!in_graph(m)) return 0;
  return folded(folded(folded(name_hash(m.node), m.incarnation), m.first_rank), m.ranks);
}

uint64_t record_hash(const Member& m) {
  uint64_t h = folded(name_hash(m.node), name_hash(m.address));
  h = folded(h, uint64_t{m.incarnation} << 32 | m.refutations);
  h = folded(h, uint64_t{m.first_rank} << 32 | m.ranks);
  return folded(h, static_cast<uint64_t>(m.state) << 2 | uint64_t{m.ready} << 1 | m.finished);
}

uint64_t spec_hash(const GraphSpec& spec) {
  return folded(folded(name_hash(spec.topology), name_hash(spec.node)), spec.version);
}

uint64_t age(const Member& m) {
  const uint64_t phase = is_over(m) ? 2 : in_graph(m) ? 1 : 0;
  return 4 * uint64_t{m.incarnation} + phase;
}

bool possible(const Member& m) {
  const uint32_t first = m.first_rank == kAnyRank ? 0 : m.first_rank;
  const bool ranks = first <= kRanksAtMost && m.ranks <= kRanksAtMost - first;
  return !m.node.empty() && m.node.size() <= kNameBytes && m.incarnation > 0 &&
         m.incarnation <= kIncarnationsAtMost && ranks;
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

bool newer(const Member& a, const Member& b) {
  return std::tuple(a.incarnation, is_over(a), a.refutations, a.state) >
         std::tuple(b.incarnation, is_over(b), b.refutations, b.state);
}

bool wins(const GraphSpec& a, const GraphSpec& b) {
  return std::tie(a.version, a.node, a.topology) > std::tie(b.version, b.node, b.topology);
}

MemberTable::MemberTable(Member self, GraphSpec spec) : spec_(std::move(spec)) {
  self.incarnation = std::max(self.incarnation, 1u);
  GV_CHECK(possible(self));
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
  if (!possible(m)) return {0, false, std::nullopt, true};
  const auto place = std::lower_bound(
      by_name_.begin(), by_name_.end(), m.node,
      [&](uint32_t i, const std::string& node) { return records_[i].node < node; });
  if (place == by_name_.end() || records_[*place].node != m.node) {
    if (records_.size() >= kMembersAtMost) return {0, false, std::nullopt, true};
    const auto index = static_cast<uint32_t>(records_.size());
    by_name_.insert(place, index);
    records_.push_back(m);
    count(m, true);
    return {index, true, std::nullopt, false};
  }
  Member& known = records_[*place];
  if (!newer(m, known)) return {*place, false, std::nullopt, false};
  count(known, false);
  count(m, true);
  return {*place, true, std::exchange(known, m), false};
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
  const uint64_t digest = mixed(records_hash_ ^ spec_hash(spec_));
  return digest == 0 ? 1 : digest;
}

bool MemberTable::overlapped() const {
  return std::any_of(records_.begin() + 1, records_.end(), [&](const Member& m) {
    return !is_over(m) && overlap(m, records_[0]) && precedes(m, records_[0]);
  });
}

std::optional<uint32_t> MemberTable::move_to() const {
  const Member& self = records_[0];
  if (is_over(self) || self.ranks == 0) return std::nullopt;
  if (self.first_rank != kAnyRank && !overlapped()) return std::nullopt;
  Places taken;
  std::vector<const Member*> queue, moving;
  for (const Member& m : records_) {
    if (!is_over(m) && m.ranks > 0) queue.push_back(&m);
  }
  std::sort(queue.begin(), queue.end(),
            [](const Member* a, const Member* b) { return precedes(*a, *b); });
  for (const Member* m : queue) {
    if (has_ranks(*m) && taken.free(m->first_rank, m->ranks)) {
      taken.take(m->first_rank, m->ranks);
    } else {
      moving.push_back(m);
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
    if (m.node != self.node && is_over(m) && overlap(m, self))
      self.incarnation =
          std::max(self.incarnation, std::min(m.incarnation + 1, kIncarnationsAtMost));
  }
  return self.incarnation;
}

}  // namespace grapevine
