#include "actors/membership/own_record.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "kernels/base/check.hpp"

namespace grapevine {

void OwnRecord::renew(Member m) {
  facts_.sign(m);
  GV_CHECK(table_.merge(m).news);
  dissemination_.member(0);
}

void OwnRecord::restate(Member m) {
  ++m.refutations;
  renew(std::move(m));
}

// --- what this node wants

void OwnRecord::become(bool ready, bool finished, MembershipEffects& out) {
  Member m = self();
  if (m.ready == ready && m.finished == finished) return;
  const bool was_ready = std::exchange(m.ready, ready);
  m.finished = finished;
  if (was_ready && !ready)
    begin_incarnation(m, m.incarnation + 1, "it is not ready any more", out);
  else
    restate(m);
}

void OwnRecord::leave() {
  Member m = self();
  m.state = m.last_word = MemberState::left;
  restate(m);
}

void OwnRecord::stop() {
  Member m = self();
  if (is_over(m) || m.stops) return;
  m.stops = true;
  restate(m);
}

void OwnRecord::ask_for_mean() {
  Member m = self();
  ++m.means_asked;
  restate(m);
}

void OwnRecord::tell_mean(const MeanTold& mean) {
  Member m = self();
  if (is_over(m) || m.mean == mean) return;
  m.mean = mean;
  restate(m);
}

bool OwnRecord::unreachable(const std::string& node, bool is) {
  Member m = self();
  const uint64_t name = name_hash(node);
  const auto place = std::lower_bound(m.unreachable.begin(), m.unreachable.end(), name);
  const bool was = place != m.unreachable.end() && *place == name;
  const bool fits = !is || (table_.find(node) && m.unreachable.size() < kMaxUnreachable);
  if (is == was) return true;
  if (!fits || is_over(m)) return fits;
  if (is)
    m.unreachable.insert(place, name);
  else
    m.unreachable.erase(place);
  restate(m);
  return true;
}

// The table refuses what a record cannot tell.
bool OwnRecord::change_ranks(std::vector<RankGone> gone) {
  Member m = self();
  m.gone = std::move(gone);
  ++m.refutations;
  facts_.sign(m);
  if (is_over(m) || !table_.merge(m).news) return false;
  dissemination_.member(0);
  return true;
}

bool OwnRecord::rank_gone(uint32_t rank) {
  std::vector<RankGone> gone = self().gone;
  const auto place =
      std::find_if(gone.begin(), gone.end(), [&](const RankGone& g) { return g.rank >= rank; });
  if (place == gone.end() || place->rank != rank) {
    gone.insert(place, {rank, self().incarnation, false});
  } else if (place->lives) {
    place->lives = false;
  } else {
    return false;
  }
  return change_ranks(std::move(gone));
}

bool OwnRecord::rank_returned(uint32_t rank) {
  std::vector<RankGone> gone = self().gone;
  const auto place = std::find_if(gone.begin(), gone.end(),
                                  [&](const RankGone& g) { return g.rank == rank && !g.lives; });
  if (place == gone.end()) return false;
  *place = {rank, place->incarnation + 1, true};
  return change_ranks(std::move(gone));
}

// --- what others say of this node

bool OwnRecord::hear(double now, const std::string& from, const Member& m, MembershipEffects& out) {
  if (is_over(self())) return false;
  bool refuted = false;
  if (m.key == self().key)
    refuted = hear_own(now, from, m);
  else
    hear_rival(now, from, m, out);
  begin_contested(now, out);
  return refuted;
}

bool OwnRecord::hear_own(double now, const std::string& from, const Member& m) {
  Member own = self();
  const bool is_present = same_word(m, own);  // what this node says now, but for the state
  const bool is_claim = is_over(m) && m.last_word == MemberState::alive;
  if (is_present && m.state == MemberState::suspect && own.refutations < kRefutationsAtMost / 2) {
    restate(own);
    return true;
  }
  if (is_claim && m.incarnation >= own.incarnation) {
    own_incarnation_.contest(now, m.incarnation, "it was declared dead", name_mark(from));
  } else if (!is_present && !newer(own, m)) {  // this node said it in an earlier life
    own.means_asked = std::max(own.means_asked, m.means_asked);
    own.stops = own.stops || (m.stops && m.generation >= own.generation);
    restate(own);
    own_incarnation_.contest(m.incarnation, "it was in the run before");
  }
  return false;
}

// Another process has said something in the name of this node, or says it now.
void OwnRecord::hear_rival(double now, const std::string& from, const Member& m,
                           MembershipEffects& out) {
  if (m.incarnation < self().incarnation) return;
  if (!incarnations_.accepts(now, 0, m.incarnation)) return;
  auto says = OwnIncarnation::Says::contest;
  if (incarnations_.in_graph(0))
    says = own_incarnation_.hear(
        now, {id_of(m.key), name_mark(from), is_over(m), table_.live_count() <= 2});
  if (says == OwnIncarnation::Says::lost) out.name_taken = true;
  if (says == OwnIncarnation::Says::contest)
    own_incarnation_.contest(m.incarnation, "another process has had its name");
}

// --- ranks and incarnations

void OwnRecord::run(double now, bool met, MembershipEffects& out) {
  if (resolve_at_ <= now) resolve_ranks(now, met, out);
  begin_contested(now, out);
}

double OwnRecord::next() const {
  return std::min(resolve_at_, own_incarnation_.due(self().incarnation));
}

void OwnRecord::resolve_ranks(double now, bool met, MembershipEffects& out) {
  resolve_at_ = std::numeric_limits<double>::infinity();
  if (self().first_rank == kAnyRank && !met) return;
  const auto first = table_.move_to();
  if (first && *first > kRankNumbersAtMost - self().ranks) return;
  Member m = self();
  const uint32_t next = last_incarnation(m) + 1;
  const bool lost_some = !m.gone.empty();
  if (first) m.first_rank = *first;
  if (first) m.gone.clear();  // all ranks of the node begin anew
  uint32_t incarnation = table_.incarnation_with(m.first_rank);
  if (!incarnations_.accepts(now, 0, incarnation)) incarnation = m.incarnation;
  if (!first && incarnation == m.incarnation) return;
  const bool begins = first ? in_graph(self()) || lost_some : incarnation > m.incarnation;
  if (begins && now < own_incarnation_.ranks_due())
    return void(resolve_at_ = own_incarnation_.ranks_due());
  if (begins) own_incarnation_.count(now);
  out.ranks_moved = first.has_value();
  if (first && begins) {
    begin_incarnation(m, std::max(incarnation, next),
                      "its ranks were taken by another node, it now has " + ranks_of(m), out);
  } else if (incarnation > m.incarnation) {
    begin_incarnation(m, incarnation, "other nodes had " + ranks_of(m) + " before", out);
  } else {
    restate(m);
  }
}

void OwnRecord::begin_contested(double now, MembershipEffects& out) {
  if (const auto next = own_incarnation_.take(now, self().incarnation))
    begin_incarnation(self(), next->incarnation, next->why, out);
}

void OwnRecord::begin_incarnation(Member m, uint32_t incarnation, const std::string& why,
                                  MembershipEffects& out) {
  m.incarnation = std::max(incarnation, last_incarnation(m) + 1);
  m.refutations = 0;
  // Ranks that are gone stay so; those that live have the node's incarnation now.
  std::erase_if(m.gone, [](const RankGone& g) { return g.lives; });
  for (RankGone& g : m.gone)
    g.incarnation = m.incarnation;
  m.state = MemberState::alive;
  m.accuser = 0;
  out.reborn = true;
  out.lines.push_back(fmt::format("begins incarnation {}: {}", m.incarnation, why));
  renew(m);
}

}  // namespace grapevine
