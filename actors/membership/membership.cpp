#include "actors/membership/membership.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace grapevine {

namespace {

using Kind = MembershipPacket::Kind;

constexpr double kLate_s = 0.02, kNap_s = 0.1, kSleep_s = 2;  // of timers
constexpr double kAway_s = 0.9;  // somewhat less than others wait for it when its name is asked for
constexpr double kAwayIsHeard_s = 30;  // for the news of who has it by now
constexpr double kTellAgain_s = 0.005;
constexpr size_t kTellAtOnce = 2;                        // nodes, of what is new
constexpr double kForgetAgain_s = 1;                     // rates of those who have gone
constexpr double kSync_s = 10, kSyncStranger_s = 0.5;    // between two comparisons, at most
constexpr double kQuiet_s = 0.3, kQuietOfNode_s = 1e-3;  // after news
constexpr double kRateMoves = 0.05;                      // by less it is not told again
constexpr double kGraphStands_s = 1, kGraphsInARow = 4;
constexpr double kLonely_s = 2;  // then a node that meets nobody begins alone

MemberTable first_table(Member self, const MembershipOptions& options) {
  self.state = MemberState::alive;
  self.refutations = 0;
  return {std::move(self), {0, "", options.topology}, {options.run, options.generation, false, 0}};
}

uint32_t stream_of(const std::string& node) { return static_cast<uint32_t>(name_hash(node)); }

}  // namespace

Membership::Membership(Member self, const MembershipOptions& options)
    : options_(options),
      table_(first_table(std::move(self), options)),
      random_(options.seed, stream_of(table_.self().node), Purpose::membership),
      connector_(options.join),
      prober_(table_, connector_, random_) {}

// --- events

// There are news: once there are no more, do all know the same?
void Membership::sync_soon(double now) {
  sync_gap_s_ = std::max(kQuiet_s, kQuietOfNode_s * static_cast<double>(table_.live_count()));
  const double at = std::min(now + sync_gap_s_, synced_at_ + kSync_s);
  sync_at_ = strangers_.empty() ? at : std::min(at, sync_at_);
}

void Membership::begin(double now, MembershipEffects& out) {
  const double late_s = now - armed_at_;
  if (late_s < kLate_s) return;
  prober_.overslept(late_s);
  if (late_s < kNap_s) return;
  for (Suspicion& s : suspicions_)
    s.since += late_s;
  if (late_s >= kAway_s) away_until_ = now + kAwayIsHeard_s;
  if (late_s < kSleep_s) return;
  sync_at_ = now;  // what has become of us meanwhile?
  out.lines.push_back("stood still for " + std::to_string(late_s) + " s");
}

void Membership::finish(double now, MembershipEffects& out) {
  if (is_over(self())) {
    armed_at_ = out.timer_at = std::numeric_limits<double>::infinity();
    return;
  }
  if (settle_at_ <= now) settle_ranks(now, out);
  if (contested_ >= self().incarnation && contest_due() <= now)
    contest(now, contested_, contested_why_, out);
  change_graph(now, out);
  connector_.run(now, table_, random_, out.dials, out.closes);
  if (const auto member = connector_.revisit()) send_sync(table_.at(*member).node, out);
  if (fresh_ && tell_at_ <= now) {
    tell_at_ = now + kTellAgain_s;
    const std::vector<uint32_t> some = prober_.some_linked(kTellAtOnce, 0);
    for (const uint32_t to : some) {
      MembershipPacket packet;
      packet.kind = Kind::sync_reply;
      send(to, std::move(packet), out);
    }
    fresh_ = !some.empty() && piggyback_.fresh(table_);
  }
  if (known_.empty()) known_.resize(1);
  if (known_[0].incarnation == 0 && in_graph(self())) known_[0] = {now, self().incarnation};
  if (known_epoch_ != epoch()) {
    known_epoch_ = epoch();
    out.changed = true;
  }
  if (ranks_went_ && forget_at_ <= now) {
    ranks_went_ = false;
    forget_at_ = now + kForgetAgain_s;
    forget_old_rates();
  }
  double at = std::min({prober_.next(), connector_.next(), sync_at_, lonely_at_, settle_at_});
  if (fresh_) at = std::min(at, tell_at_);
  if (ranks_went_) at = std::min(at, forget_at_);
  if (next_graph_) at = std::min(at, graph_due());
  if (contested_ >= self().incarnation) at = std::min(at, contest_due());
  for (const Suspicion& s : suspicions_)
    at = std::min(at, dead_at(s));
  armed_at_ = out.timer_at = std::max(at, now);
}

void Membership::start(double now, MembershipEffects& out) {
  armed_at_ = now;
  prober_.start(now);
  connector_.start(now);
  synced_at_ = now;
  sync_gap_s_ = kSync_s;
  sync_at_ = now + kSync_s * random_.uniform(0.5, 1.5);
  met_ = options_.join.empty();
  settle_at_ = now;
  lonely_at_ = met_ ? std::numeric_limits<double>::infinity() : now + kLonely_s;
  finish(now, out);
}

void Membership::timer(double now, MembershipEffects& out) {
  begin(now, out);
  if (lonely_at_ <= now) {
    lonely_at_ = std::numeric_limits<double>::infinity();
    met_ = true;
    settle_at_ = now;
  }
  ProbeResults results;
  prober_.run(now, results);
  carry_out(now, results, out);
  std::vector<uint32_t> lapsed;
  for (const Suspicion& s : suspicions_) {
    if (dead_at(s) <= now) lapsed.push_back(s.member);
  }
  for (const uint32_t member : lapsed)
    declare_dead(now, member, "it did not refute its suspicion", out);
  if (sync_at_ <= now) {
    synced_at_ = now;
    sync_gap_s_ = std::min(2 * sync_gap_s_, kSync_s);
    const double gap_s = strangers_.empty() ? sync_gap_s_ : kSyncStranger_s;
    sync_at_ = now + gap_s * random_.uniform(0.75, 1.25);
    for (const auto& [node, dialled] : strangers_)
      send_sync(node, out);
    for (const uint32_t to : prober_.some_linked(1, 0))
      send_sync(table_.at(to).node, out);
  }
  finish(now, out);
}

void Membership::packet(double now, const std::string& from, const MembershipPacket& packet,
                        MembershipEffects& out) {
  if (is_over(self())) return finish(now, out);
  begin(now, out);
  hear(now, from, packet, out);
  const auto known = table_.find(from);
  if (!known || *known == 0) return finish(now, out);
  if (packet.kind == Kind::sync || packet.kind == Kind::sync_reply) {
    on_view(now, *known, packet, out);
  } else {
    ProbeResults results;
    prober_.packet(now, *known, packet, results);
    carry_out(now, results, out);
  }
  finish(now, out);
}

void Membership::link_up(double now, const std::string& node, const std::string& dialled,
                         MembershipEffects& out) {
  begin(now, out);
  const auto member = table_.find(node);
  if (member) {
    connector_.link_up(now, *member, dialled, table_);
    ProbeResults results;
    prober_.link_up(now, *member, results);
    carry_out(now, results, out);
    if (*member < told_at_.size()) told_at_[*member] = -std::numeric_limits<double>::infinity();
  } else {
    strangers_.push_back({node, dialled});
    sync_at_ = std::min(sync_at_, now + kSyncStranger_s);
  }
  if (member != 0u) send_sync(node, out);
  finish(now, out);
}

void Membership::link_down(double now, const std::string& node, MembershipEffects& out,
                           bool goodbye) {
  begin(now, out);
  std::erase_if(strangers_, [&](const auto& s) { return s.first == node; });
  if (const auto member = table_.find(node); member && connector_.linked(*member)) {
    connector_.link_down(now, *member, table_, goodbye);
    if (goodbye) prober_.goodbye(*member);
    if (!goodbye) connector_.need(now, *member);  // is its port still there?
    if (!goodbye) accuse(now, *member, "its link broke", out);
  }
  finish(now, out);
}

void Membership::talks_with(double now, const std::vector<uint32_t>& members,
                            MembershipEffects& out) {
  begin(now, out);
  connector_.talks_with(members);
  finish(now, out);
}

void Membership::need_link(double now, const std::string& node, MembershipEffects& out) {
  begin(now, out);
  if (const auto member = table_.find(node); member && table_.live(*member))
    connector_.need(now, *member);
  finish(now, out);
}

void Membership::refused(double now, const std::string& address, MembershipEffects& out) {
  begin(now, out);
  if (const auto member = connector_.owner_of(address, table_)) {
    declare_dead(now, *member, "its link broke and its port refuses", out);
  }
  finish(now, out);
}

void Membership::suspect(double now, const std::string& node, MembershipEffects& out) {
  begin(now, out);
  if (const auto member = table_.find(node)) {
    ProbeResults results;
    prober_.suspect(now, *member, results);
    carry_out(now, results, out);
  }
  finish(now, out);
}

void Membership::become(double now, bool ready, bool finished, MembershipEffects& out) {
  begin(now, out);
  Member m = self();
  if (m.ready != ready || m.finished != finished) {
    if (m.ready && !ready) {
      m.ready = ready;
      m.finished = finished;
      begin_incarnation(m, m.incarnation + 1, "it is not ready any more", out);
    } else {
      m.ready = ready;
      m.finished = finished;
      ++m.refutations;
      renew_self(m);
    }
  }
  finish(now, out);
}

void Membership::renew(double now, const std::string& why, MembershipEffects& out) {
  if (is_over(self())) return finish(now, out);
  begin(now, out);
  begin_incarnation(self(), self().incarnation + 1, why, out);
  finish(now, out);
}

void Membership::leave(double now, MembershipEffects& out, MemberState last_word) {
  if (is_over(self())) return finish(now, out);
  begin(now, out);
  Member m = self();
  ++m.refutations;
  m.state = last_word;
  renew_self(m);
  for (uint32_t to = 1; to < table_.size(); ++to) {
    if (connector_.linked(to)) send_record(to, 0, out);
  }
  finish(now, out);
}

void Membership::reconfigure(double now, const std::string& topology, MembershipEffects& out) {
  begin(now, out);
  const uint64_t newest = next_graph_ ? next_graph_->version : spec().version;
  if (newest < kSpecsAtMost)
    next_graph_ = GraphSpec{newest + 1, self().node, topology};
  else
    out.lines.push_back("the graph has changed too often, it stays " + spec().topology);
  finish(now, out);
}

double Membership::graph_due() const { return graph_at_ - (kGraphsInARow - 1) * kGraphStands_s; }

void Membership::change_graph(double now, MembershipEffects& out) {
  if (!next_graph_ || now < graph_due()) return;
  graph_at_ = std::max(graph_at_, now) + kGraphStands_s;
  if (table_.merge(*std::exchange(next_graph_, std::nullopt))) {
    piggyback_.spec();
    fresh_ = true;
    out.lines.push_back("the graph is to be " + spec().topology + ", says " + spec().node);
  }
}

void Membership::rates(double now, std::span<const EdgeRate> measured, MembershipEffects& out) {
  begin(now, out);
  ++measurements_;
  for (EdgeRate rate : measured) {
    const auto told = table_.rates().find({rate.i, rate.j});
    if (told != table_.rates().end() &&
        std::abs(rate.per_second - told->second.per_second) <= kRateMoves * told->second.per_second)
      continue;
    rate.stamp = uint64_t{self().incarnation} << 32 | measurements_;
    if (table_.merge(rate)) piggyback_.rate(rate.i, rate.j);
  }
  finish(now, out);
}

// --- facts of the run, and of the own record

void Membership::take_in(const RunFacts& said, MembershipEffects& out) {
  if (said.run != 0 && said.run != facts().run) ++refusals_["facts of another run"];
  if (!table_.merge(said)) return;
  piggyback_.facts();
  fresh_ = true;
  out.facts = true;
}

void Membership::stop(double now, MembershipEffects& out) {
  begin(now, out);
  RunFacts said = facts();
  said.stopping = true;
  take_in(said, out);
  finish(now, out);
}

uint32_t Membership::want_mean(double now, MembershipEffects& out) {
  begin(now, out);
  RunFacts said = facts();
  ++said.means_wanted;
  take_in(said, out);
  finish(now, out);
  return facts().means_wanted;
}

void Membership::tell_mean(double now, MeanTold mean, MembershipEffects& out) {
  if (is_over(self()) || self().mean == mean) return finish(now, out);
  begin(now, out);
  Member m = self();
  m.mean = mean;
  ++m.refutations;
  renew_self(m);
  finish(now, out);
}

bool Membership::unreachable(double now, const std::string& node, bool is, MembershipEffects& out) {
  begin(now, out);
  Member m = self();
  const uint64_t name = name_hash(node);
  const auto place = std::lower_bound(m.unreachable.begin(), m.unreachable.end(), name);
  const bool was = place != m.unreachable.end() && *place == name;
  const bool fits = !is || (table_.find(node) && m.unreachable.size() < kMaxUnreachable);
  if (is != was && fits && !is_over(m)) {
    if (is)
      m.unreachable.insert(place, name);
    else
      m.unreachable.erase(place);
    ++m.refutations;
    renew_self(m);
  }
  finish(now, out);
  return is == was || fits;
}

// The table refuses what a record cannot tell.
bool Membership::change_ranks(std::vector<RankGone> gone) {
  Member m = self();
  m.gone = std::move(gone);
  ++m.refutations;
  if (is_over(m) || !table_.merge(m).news) return false;
  piggyback_.member(0);
  fresh_ = true;
  return true;
}

bool Membership::rank_gone(double now, uint32_t rank, MembershipEffects& out) {
  begin(now, out);
  std::vector<RankGone> gone = self().gone;
  const auto place =
      std::find_if(gone.begin(), gone.end(), [&](const RankGone& g) { return g.rank >= rank; });
  bool told = false;
  if (place == gone.end() || place->rank != rank) {
    gone.insert(place, {rank, self().incarnation, false});
    told = change_ranks(std::move(gone));
  } else if (place->lives) {
    place->lives = false;
    told = change_ranks(std::move(gone));
  }
  finish(now, out);
  return told;
}

bool Membership::rank_returned(double now, uint32_t rank, MembershipEffects& out) {
  begin(now, out);
  std::vector<RankGone> gone = self().gone;
  const auto place = std::find_if(gone.begin(), gone.end(),
                                  [&](const RankGone& g) { return g.rank == rank && !g.lives; });
  bool told = false;
  if (place != gone.end()) {
    *place = {rank, place->incarnation + 1, true};
    told = change_ranks(std::move(gone));
  }
  finish(now, out);
  return told;
}

// --- what is known

std::vector<Member> Membership::members() const {
  std::vector<Member> all;
  for (const uint32_t member : table_.by_name())
    all.push_back(table_.at(member));
  return all;
}

std::vector<Member> Membership::graph() const {
  std::vector<Member> all = members();
  std::erase_if(all, [](const Member& m) { return !in_graph(m); });
  std::stable_sort(all.begin(), all.end(),
                   [](const Member& a, const Member& b) { return a.first_rank < b.first_rank; });
  return all;
}

std::vector<EdgeRate> Membership::edge_rates() const {
  std::vector<EdgeRate> all;
  for (const auto& [edge, rate] : table_.rates())
    all.push_back(rate);
  return all;
}

bool Membership::linked(const std::string& node) const {
  const auto member = table_.find(node);
  return member && connector_.linked(*member);
}

bool Membership::needs_link(double now, const std::string& node) const {
  const auto member = table_.find(node);
  return member && table_.live(*member) && connector_.needs(now, *member);
}

double Membership::round_trip_s(const std::string& node) const {
  const auto member = table_.find(node);
  return member ? prober_.round_trip_s(*member) : 0;
}

}  // namespace grapevine
