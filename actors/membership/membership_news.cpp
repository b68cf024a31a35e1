// What a node makes of what it hears, and what it tells others.
#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>

#include "actors/membership/membership.hpp"
#include "kernels/check.hpp"

namespace grapevine {

namespace {

using Kind = MembershipPacket::Kind;

constexpr double kLeastSuspicion_s = 5, kMostSuspicion_s = 10;
constexpr size_t kConfirmations = 3;
constexpr double kSettle_s = 0.05;  // after news of ranks: more may be on the way
constexpr double kViewAgain_s = 1;  // to the same node at the earliest
constexpr uint32_t kFirstIncarnationAtMost = 1 << 16;  // of a node that was not in the graph
constexpr double kIncarnation_s = 1;       // between two that others make this node begin
constexpr double kIncarnationsInARow = 3;  // where its ranks are taken too
constexpr uint32_t kIncarnationsAtOnce = 64, kIncarnationsPerSecond = 2;  // of one node
constexpr uint64_t kGraphsAtOnce = 1 << 16;  // versions, that a node may have missed
constexpr size_t kOthersKept = 16;
constexpr size_t kViewBytes = kControlBytes / 2;

std::string incarnation_of(const Member& m) {
  return m.node + " (incarnation " + std::to_string(m.incarnation) + ")";
}

std::string ranks_of(const Member& m) {
  if (m.ranks == 0 || m.first_rank == kAnyRank) return "no ranks yet";
  return "ranks " + std::to_string(m.first_rank) + " to " +
         std::to_string(m.first_rank + m.ranks - 1);
}

bool has_ranks_of(const Member& a, const Member& b) {
  return a.incarnation == b.incarnation && a.first_rank == b.first_rank && a.ranks == b.ranks &&
         in_graph(a) == in_graph(b);
}

}  // namespace

// --- records

void Membership::hear(double now, const std::string& from, const MembershipPacket& packet,
                      MembershipEffects& out) {
  for (const Member& m : packet.news) {
    if (const char* why = impossible(m)) {
      ++refusals_[why];
      continue;
    }
    if (m.node == self().node)
      hear_of_self(now, m, out);
    else
      hear_of(now, from, m, out);
  }
  hear_of_graph(packet.graph);
  take_in(packet.facts, out);
  for (const EdgeRate& rate : packet.rates) {
    if (table_.merge(rate)) piggyback_.rate(rate.i, rate.j);
  }
}

// The first whole view that a node hears may say any version.
void Membership::hear_of_graph(const GraphSpec& said) {
  const GraphSpec& newest = next_graph_ ? *next_graph_ : spec();
  if (said.version > kSpecsAtMost || !wins(said, newest)) return;
  if (met_ && said.version > spec().version + kGraphsAtOnce)
    ++refusals_["a graph that jumps"];
  else
    next_graph_ = said;
}

void Membership::hear_of(double now, const std::string& from, const Member& m,
                         MembershipEffects& out) {
  const auto known = table_.find(m.node);
  if (!believable(now, known.value_or(~uint32_t{0}), m.incarnation, is_over(m))) {
    ++refusals_["an incarnation that jumps"];
    return;
  }
  const bool dies = known && table_.live(*known) && is_over(m) && m.node != from &&
                    m.incarnation >= table_.at(*known).incarnation;
  if (dies && hearsay(now, from, m, out)) return;
  if (take_in(now, m, out) || m.node != from) return;
  // It may be a process that does not know of its earlier incarnations.
  if (known && newer(table_.at(*known), m)) send_record(*known, *known, out);
}

// While it lives in the graph nobody goes through more than one a second, but for restarts. (Of the
// others all nodes must believe the same, whatever each has heard before: so no jump is too far,
// and of those that are over they believe more than any can have believed while it lived.)
bool Membership::believable(double now, uint32_t member, uint32_t incarnation, bool over) const {
  const bool free =
      member >= known_.size() || known_[member].incarnation == 0 || !table_.live(member);
  if (free) return incarnation <= (over ? 2 : 1) * kFirstIncarnationAtMost;
  const Known& k = known_[member];
  const double most =
      k.incarnation + kIncarnationsAtOnce + kIncarnationsPerSecond * (now - k.since);
  return incarnation <= std::min<double>(most, kIncarnationsAtMost - 1);
}

bool Membership::accused_here(uint32_t member) const {
  const auto own = static_cast<uint32_t>(name_hash(self().node));
  return std::any_of(suspicions_.begin(), suspicions_.end(), [&](const Suspicion& s) {
    return s.member == member &&
           std::find(s.accusers.begin(), s.accusers.end(), own) != s.accusers.end();
  });
}

// `m` is over, says `from`, and lives for all that is known here. False: it is to be believed.
bool Membership::hearsay(double now, const std::string& from, const Member& m,
                         MembershipEffects& out) {
  const uint32_t member = *table_.find(m.node);
  const auto by = static_cast<uint32_t>(name_hash(from));
  if (accused_here(member)) return false;
  const auto claim = std::find_if(claims_.begin(), claims_.end(),
                                  [&](const Claim& c) { return c.member == member; });
  if (claim != claims_.end()) {
    if (claim->by != by) return false;
    return true;
  }
  MembershipPacket packet;  // it hears what is said of it
  packet.kind = Kind::sync_reply;
  packet.news.push_back(m);
  out.sends.push_back({m.node, std::move(packet)});
  Member suspect = m;
  suspect.state = MemberState::suspect;
  suspect.accuser = by;
  take_in(now, suspect, out);
  if (!table_.live(member)) return true;
  claims_.push_back({member, m.state, by});
  ProbeResults results;
  prober_.suspect(now, member, results);
  carry_out(now, results, out);
  return true;
}

bool Membership::take_in(double now, const Member& m, MembershipEffects& out) {
  const MemberTable::Merged merged = table_.merge(m);
  if (merged.refused != nullptr) ++refusals_[merged.refused];
  if (merged.news) {
    on_news(now, merged, out);
    return true;
  }
  if (merged.refused != nullptr) return false;
  const Member& known = table_.at(merged.index);
  if (m.state == MemberState::suspect && !newer(known, m)) confirm(merged.index, m.accuser);
  return false;
}

void Membership::on_news(double now, const MemberTable::Merged& merged, MembershipEffects& out) {
  const Member& m = table_.at(merged.index);
  const auto& before = merged.before;
  const bool new_incarnation = !before || before->incarnation != m.incarnation;
  if (before && !is_over(*before) && (new_incarnation || is_over(m))) out.died.push_back(m.node);
  std::erase_if(strangers_, [&](const auto& stranger) {
    if (stranger.first == m.node) connector_.link_up(now, merged.index, stranger.second, table_);
    return stranger.first == m.node;
  });
  if (new_incarnation || is_over(m)) prober_.forget(merged.index);
  if (new_incarnation && !is_over(m)) connector_.born(now, merged.index, table_);
  if (new_incarnation || before->state != m.state) connector_.changed();
  if (!before || !has_ranks_of(*before, m)) settle_at_ = std::min(settle_at_, now + kSettle_s);
  ranks_went_ |= before && in_graph(*before) && !has_ranks_of(*before, m);
  std::erase_if(suspicions_, [&](const Suspicion& s) { return s.member == merged.index; });
  std::erase_if(claims_, [&](const Claim& c) { return c.member == merged.index; });
  if (merged.index >= known_.size()) known_.resize(merged.index + 1);
  if (is_over(m)) known_[merged.index] = {};
  if (known_[merged.index].incarnation == 0 && in_graph(m))
    known_[merged.index] = {now, m.incarnation};
  if (m.state == MemberState::suspect) suspicions_.push_back({merged.index, now, {m.accuser}});
  if (new_incarnation && !is_over(m))
    out.lines.push_back(incarnation_of(m) + " is here, " + ranks_of(m));
  if (m.state == MemberState::left) out.lines.push_back(incarnation_of(m) + " has left");
  if (m.state == MemberState::dead) out.lines.push_back(incarnation_of(m) + " is dead");
  if (!met_) return;  // the first view that a newcomer hears is no news to others
  piggyback_.member(merged.index);
  fresh_ = true;
  sync_soon(now);
}

void Membership::hear_of_self(double now, const Member& m, MembershipEffects& out) {
  if (is_over(self())) return;
  Member own = self(), same = m;
  same.accuser = own.accuser;
  same.state = own.state;
  const bool ours = same == own;      // what we said, but for the state
  const bool other = m.id != own.id;  // a process of the same name said it, or says it now
  if (ours && m.state == MemberState::suspect && own.refutations < kRefutationsAtMost / 2) {
    ++own.refutations;
    prober_.ail(+1);
    renew_self(own);
  } else if (other ? m.incarnation >= own.incarnation
                   : !newer(own, m) && !(ours && m.state == own.state)) {
    if (!believable(now, 0, m.incarnation, false)) {
      ++refusals_["an incarnation that jumps"];
      return;
    }
    if (other && has_lost_name_to(now, m)) {
      out.name_taken = true;
      return;
    }
    contest(now, m.incarnation, is_over(m) ? "it was declared dead" : "it has lived before", out);
  }
}

// `m` is of another process of this name, in an incarnation as new as this one's. Of whom this
// process hears while it is there, or before its ranks are in the graph, that one did not take its
// place.
bool Membership::has_lost_name_to(double now, const Member& m) {
  const bool known = std::find(others_.begin(), others_.end(), m.id) != others_.end();
  if (known) return false;
  const bool began = !known_.empty() && known_[0].incarnation > 0;
  if (began && now < away_until_) return !is_over(m);
  if (others_.size() >= kOthersKept) others_.erase(others_.begin());
  others_.push_back(m.id);
  return false;
}

// Others know of `incarnation`, which this node has not said: it begins the next.
void Membership::contest(double now, uint32_t incarnation, const char* why,
                         MembershipEffects& out) {
  contested_ = std::max(contested_, incarnation);
  contested_why_ = why;
  if (now < contest_due()) return;
  contest_at_ = now + kIncarnation_s;
  count_incarnation(now);
  begin_incarnation(self(), contested_ + 1, why, out);
}

double Membership::incarnation_due() const {
  return incarnation_at_ - (kIncarnationsInARow - 1) * kIncarnation_s;
}

double Membership::contest_due() const { return std::max(contest_at_, incarnation_due()); }

void Membership::count_incarnation(double now) {
  incarnation_at_ = std::max(incarnation_at_, now) + kIncarnation_s;
}

void Membership::renew_self(const Member& m) {
  GV_CHECK(table_.merge(m).news);
  ranks_went_ = true;
  piggyback_.member(0);
  fresh_ = true;
}

void Membership::begin_incarnation(Member m, uint32_t incarnation, const std::string& why,
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
  out.lines.push_back("begins incarnation " + std::to_string(m.incarnation) + ": " + why);
  renew_self(m);
}

void Membership::settle_ranks(double now, MembershipEffects& out) {
  settle_at_ = std::numeric_limits<double>::infinity();
  if (self().first_rank == kAnyRank && !met_) return;
  const auto first = table_.move_to();
  if (first && *first > kRankNumbersAtMost - self().ranks) return;
  Member m = self();
  const uint32_t next = last_incarnation(m) + 1;
  const bool lost_some = !m.gone.empty();
  if (first) m.first_rank = *first;
  if (first) m.gone.clear();  // all that it has begins anew
  uint32_t incarnation = table_.incarnation_with(m.first_rank);
  if (!believable(now, 0, incarnation, false)) {
    ++refusals_["an incarnation that jumps"];
    incarnation = m.incarnation;
  }
  if (!first && incarnation == m.incarnation) return;
  const bool begins = first ? in_graph(self()) || lost_some : incarnation > m.incarnation;
  if (begins && now < incarnation_due()) return void(settle_at_ = incarnation_due());
  if (begins) count_incarnation(now);
  out.ranks_moved = first.has_value();
  if (first && begins) {
    begin_incarnation(m, std::max(incarnation, next),
                      "its ranks were taken, it has " + ranks_of(m) + " now", out);
  } else if (incarnation > m.incarnation) {
    begin_incarnation(m, incarnation, "others have had " + ranks_of(m) + " before it", out);
  } else {
    ++m.refutations;
    renew_self(m);
  }
}

// --- suspicions

void Membership::accuse(double now, uint32_t member, const std::string& why,
                        MembershipEffects& out) {
  Member m = table_.at(member);
  if (is_over(m)) return;
  const auto own_name = static_cast<uint32_t>(name_hash(self().node));
  const auto claim = std::find_if(claims_.begin(), claims_.end(),
                                  [&](const Claim& c) { return c.member == member; });
  if (claim != claims_.end()) {  // what another said is so
    const MemberState state = claim->state;
    return end_incarnation(now, member, state, why, out);
  }
  if (m.state == MemberState::suspect) return confirm(member, own_name);
  m.state = MemberState::suspect;
  m.accuser = own_name;
  out.lines.push_back(incarnation_of(m) + " is suspected: " + why);
  take_in(now, m, out);
}

// Somebody else finds the same: the suspect has less time, and others hear of it.
void Membership::confirm(uint32_t member, uint32_t accuser) {
  for (Suspicion& s : suspicions_) {
    if (s.member != member || s.accusers.size() > kConfirmations) continue;
    if (std::find(s.accusers.begin(), s.accusers.end(), accuser) != s.accusers.end()) continue;
    s.accusers.push_back(accuser);
    table_.name_accuser(member, accuser);
    piggyback_.member(member);
  }
}

// Lifeguard's: from the most to the least as the logarithm of the number of confirmations.
double Membership::dead_at(const Suspicion& s) const {
  const size_t others = table_.live_count() < 2 ? 0 : table_.live_count() - 2;
  const auto expected = static_cast<double>(std::min(kConfirmations, others));
  const auto confirmed = static_cast<double>(s.accusers.size() - 1);
  if (confirmed >= expected) return s.since + kLeastSuspicion_s;
  const double part = std::log(confirmed + 1) / std::log(expected + 1);
  return s.since + kMostSuspicion_s - (kMostSuspicion_s - kLeastSuspicion_s) * part;
}

void Membership::declare_dead(double now, uint32_t member, const std::string& why,
                              MembershipEffects& out) {
  end_incarnation(now, member, MemberState::dead, why, out);
}

void Membership::end_incarnation(double now, uint32_t member, MemberState state,
                                 const std::string& why, MembershipEffects& out) {
  Member m = table_.at(member);
  if (is_over(m)) return;
  m.state = state;
  m.accuser = 0;
  if (state == MemberState::dead)
    out.lines.push_back(incarnation_of(m) + " is taken for dead: " + why);
  take_in(now, m, out);
}

// --- telling

void Membership::carry_out(double now, ProbeResults results, MembershipEffects& out) {
  for (const ProbeResults::Failed& f : results.failed) {
    std::ostringstream why;
    why << "no answer in " << std::lround(1e3 * f.after_s) << " ms, " << f.nacks
        << " others had none either";
    accuse(now, f.member, why.str(), out);
  }
  for (auto& [to, packet] : results.sends)
    send(to, std::move(packet), out);
}

// What a member is to hear of itself: that it is not plainly alive, as known here or, where another
// says that it is over, as that one says.
std::optional<Member> Membership::said_of(uint32_t member) const {
  Member m = table_.at(member);
  for (const Claim& c : claims_)
    if (c.member == member) m.state = c.state;
  if (m.state == MemberState::alive) return std::nullopt;
  return m;
}

// Who is not plainly alive here hears what is said of it, in every packet.
void Membership::send(uint32_t to, MembershipPacket packet, MembershipEffects& out) {
  if (packet.news.empty())
    if (auto said = said_of(to)) packet.news.push_back(std::move(*said));
  piggyback_.load(table_, packet);
  out.sends.push_back({table_.at(to).node, std::move(packet)});
}

void Membership::send_record(uint32_t to, uint32_t member, MembershipEffects& out) {
  MembershipPacket packet;
  packet.kind = Kind::sync_reply;
  packet.news.push_back(table_.at(member));
  out.sends.push_back({table_.at(to).node, std::move(packet)});
}

void Membership::send_sync(const std::string& to, MembershipEffects& out) {
  MembershipPacket packet;
  packet.kind = Kind::sync;
  packet.sequence = table_.digest();
  packet.facts = facts();
  packet.news.push_back(self());
  if (const auto member = table_.find(to))
    if (auto said = said_of(*member)) packet.news.push_back(std::move(*said));
  out.sends.push_back({to, std::move(packet)});
}

void Membership::send_view(double now, uint32_t to, MembershipEffects& out) {
  if (to >= told_at_.size()) told_at_.resize(to + 1, -std::numeric_limits<double>::infinity());
  if (now < told_at_[to] + kViewAgain_s) return;
  told_at_[to] = now;
  const auto& order = table_.by_name();
  size_t done = 0;
  while (done < order.size()) {
    MembershipPacket packet;
    packet.kind = Kind::sync_reply;
    packet.graph = spec();
    packet.facts = facts();
    size_t bytes = wire_bytes(packet);
    for (; done < order.size() && bytes < kViewBytes && packet.news.size() < kMaxNews; ++done) {
      packet.news.push_back(table_.at(order[done]));
      bytes += wire_bytes(packet.news.back());
    }
    packet.sequence = done == order.size() ? table_.digest() : 0;
    out.sends.push_back({table_.at(to).node, std::move(packet)});
  }
}

// Both digests are taken with the packet's news in: if they differ, one knows what the other does
// not.
void Membership::on_view(double now, uint32_t from, const MembershipPacket& packet,
                         MembershipEffects& out) {
  const bool whole = packet.sequence != 0;
  const bool same = packet.sequence == table_.digest();
  if (whole && (same || packet.kind == Kind::sync_reply)) {
    if (!met_) settle_at_ = now;
    met_ = true;
  }
  if (whole && !same) send_view(now, from, out);
}

void Membership::forget_old_rates() {
  if (table_.rates().empty()) return;
  std::map<uint32_t, uint32_t> ranges;  // first rank -> end
  for (const uint32_t member : table_.by_name())
    if (const Member& m = table_.at(member); in_graph(m))
      ranges.emplace(m.first_rank, m.first_rank + m.ranks);
  table_.keep_rates_of([&](uint32_t rank) {
    const auto above = ranges.upper_bound(rank);
    return above != ranges.begin() && rank < std::prev(above)->second;
  });
}

}  // namespace grapevine
