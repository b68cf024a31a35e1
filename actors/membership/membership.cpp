#include "actors/membership/membership.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "kernels/base/check.hpp"
#include "messages/facts.hpp"

namespace grapevine {

namespace {

using Kind = MembershipPacket::Kind;

constexpr double kLate_s = 0.02, kNap_s = 0.1, kSleep_s = 2;  // of timers
constexpr double kAway_s = 0.9;  // somewhat less than others wait for it when its name is asked for
constexpr double kTellAgain_s = 0.005;
constexpr size_t kTellAtOnce = 2;                        // nodes, of what is new
constexpr double kForgetAgain_s = 1;                     // rates of those who have gone
constexpr double kSync_s = 10, kSyncStranger_s = 0.5;    // between two comparisons, at most
constexpr double kQuiet_s = 0.3, kQuietOfNode_s = 1e-3;  // after news
constexpr double kRateMoves = 0.05;                      // by less it is not told again
constexpr double kLonely_s = 2;           // then a node that meets nobody begins alone
constexpr double kResolveAfter_s = 0.05;  // after news of ranks: more may be on the way
constexpr double kViewAgain_s = 1;        // to the same node at the earliest
constexpr uint32_t kFirstIncarnationAtMost = 1 << 16;  // of a node that was not in the graph
constexpr uint32_t kIncarnationsAtOnce = 64, kIncarnationsPerSecond = 2;  // of one node
constexpr size_t kViewBytes = kControlBytes / 2;
constexpr size_t kAccusedAtMost = 1000;

MemberTable first_table(Member self, const MembershipOptions& options) {
  self.state = self.last_word = MemberState::alive;
  self.incarnation = std::max(self.incarnation, 1u);
  self.refutations = 0;
  self.generation = options.generation;
  self.key = options.signing.key;
  self.signature = options.signing.sign(fact_bytes(options.run, self));
  return {std::move(self), {0, "", options.topology, {}, {}}};
}

std::string incarnation_of(const Member& m) {
  return fmt::format("{} (incarnation {})", m.node, m.incarnation);
}

std::string ranks_of(const Member& m) {
  if (m.ranks == 0 || m.first_rank == kAnyRank) return "no ranks yet";
  return fmt::format("ranks {} to {}", m.first_rank, m.first_rank + m.ranks - 1);
}

bool has_ranks_of(const Member& a, const Member& b) {
  return a.incarnation == b.incarnation && a.first_rank == b.first_rank && a.ranks == b.ranks &&
         in_graph(a) == in_graph(b);
}

uint32_t short_hash(const std::string& node) { return static_cast<uint32_t>(name_hash(node)); }

}  // namespace

Membership::Membership(Member self, const MembershipOptions& options)
    : options_(options),
      table_(first_table(std::move(self), options)),
      random_(options.seed, short_hash(table_.self().node), Purpose::membership),
      connector_(options.join),
      prober_(table_, connector_, random_),
      work_before_(options.work_before) {}

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
  suspicions_.stood_still(late_s);
  if (late_s >= kAway_s) own_incarnation_.stood_still(now);
  if (late_s < kSleep_s) return;
  sync_at_ = now;  // what has become of us meanwhile?
  out.lines.push_back(fmt::format("stood still for {:.3f} s", late_s));
}

void Membership::finish(double now, MembershipEffects& out) {
  if (is_over(self())) {
    armed_at_ = out.timer_at = std::numeric_limits<double>::infinity();
    return;
  }
  if (resolve_at_ <= now) resolve_ranks(now, out);
  begin_contested(now, out);
  change_graph(now, out);
  const bool is_alone = table_.size() == 1;  // nobody else has work with it
  if (mean_wanted_ && (is_alone || own_means_.due() <= now)) ask_for_mean(now);
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
    table_.forget_old_rates();
  }
  double at = std::min({prober_.next(), connector_.next(), sync_at_, lonely_at_, resolve_at_,
                        next_graph_.due(), own_incarnation_.due(self().incarnation),
                        suspicions_.next(table_.live_count())});
  if (fresh_) at = std::min(at, tell_at_);
  if (mean_wanted_) at = std::min(at, own_means_.due());
  if (ranks_went_) at = std::min(at, forget_at_);
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
  next_graph_.start(now);
  resolve_at_ = now;
  lonely_at_ = met_ ? std::numeric_limits<double>::infinity() : now + kLonely_s;
  finish(now, out);
}

void Membership::timer(double now, MembershipEffects& out) {
  begin(now, out);
  if (lonely_at_ <= now) {
    lonely_at_ = std::numeric_limits<double>::infinity();
    met_ = true;
    resolve_at_ = now;
  }
  ProbeResults results;
  prober_.run(now, results);
  carry_out(now, results, out);
  for (const uint32_t member : suspicions_.lapsed(now, table_.live_count()))
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
  const bool is_heard = hear(now, from, packet, out);
  const auto known = table_.find(from);
  if (!is_heard || !known || *known == 0) return finish(now, out);
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

void Membership::leave(double now, MembershipEffects& out) {
  if (is_over(self())) return finish(now, out);
  begin(now, out);
  Member m = self();
  ++m.refutations;
  m.state = m.last_word = MemberState::left;
  renew_self(m);
  for (uint32_t to = 1; to < table_.size(); ++to) {
    if (connector_.linked(to)) send_record(to, 0, out);
  }
  finish(now, out);
}

void Membership::reconfigure(double now, const std::string& topology, MembershipEffects& out) {
  begin(now, out);
  if (!next_graph_.wish(self().node, topology, spec()))
    out.lines.push_back("the graph has changed too often, it stays " + spec().topology);
  finish(now, out);
}

void Membership::change_graph(double now, MembershipEffects& out) {
  std::optional<GraphSpec> next = next_graph_.take(now);
  if (next && next->key == PublicKey{}) {  // this node's own wish
    next->key = options_.signing.key;
    next->signature = options_.signing.sign(fact_bytes(options_.run, *next));
  }
  if (!next || !table_.merge(*next)) return;
  piggyback_.spec();
  fresh_ = true;
  out.lines.push_back("the graph is to be " + spec().topology + ", says " + spec().node);
}

// In parts, each of which is signed: those are told again in which an edge has moved, or that have
// other edges than before.
void Membership::rates(double now, std::span<const EdgeRate> measured, MembershipEffects& out) {
  begin(now, out);
  ++measurements_;
  const auto near = [](const EdgeRate& a, const EdgeRate& b) {
    return a.i == b.i && a.j == b.j &&
           std::abs(a.per_second - b.per_second) <= kRateMoves * b.per_second;
  };
  for (uint32_t part = 0; part < kRatePartsAtMost && part * kMaxRates < measured.size(); ++part) {
    const size_t begin = part * kMaxRates, end = std::min(begin + kMaxRates, measured.size());
    RateFact fact{id_of(self().key), self().incarnation, part, measurements_, {}, {}};
    fact.rates.assign(measured.begin() + static_cast<ptrdiff_t>(begin),
                      measured.begin() + static_cast<ptrdiff_t>(end));
    const auto told = table_.rates().find({0, part});
    if (told != table_.rates().end() && told->second.incarnation == fact.incarnation &&
        std::ranges::equal(fact.rates, told->second.rates, near))
      continue;
    fact.signature = options_.signing.sign(fact_bytes(options_.run, options_.signing.key, fact));
    if (table_.merge(fact)) piggyback_.rates({0, part});
  }
  finish(now, out);
}

void Membership::work(double now, uint64_t taken, double per_second, MembershipEffects& out) {
  begin(now, out);
  const uint64_t id = id_of(self().key);
  const auto told = table_.work().find(id);
  WorkFact fact{id, 1, work_before_ + taken, per_second, {}};
  if (told != table_.work().end()) fact.number = told->second.number + 1;
  fact.signature = options_.signing.sign(fact_bytes(options_.run, self().key, fact));
  if (table_.merge(fact)) {
    piggyback_.work(id);
    fresh_ = true;
  }
  finish(now, out);
}

// --- the own record

void Membership::stop(double now, MembershipEffects& out) {
  if (is_over(self()) || self().stops) return finish(now, out);
  begin(now, out);
  Member m = self();
  m.stops = true;
  ++m.refutations;
  renew_self(m);
  finish(now, out);
}

void Membership::want_mean(double now, MembershipEffects& out) {
  begin(now, out);
  mean_wanted_ = !is_over(self());
  finish(now, out);
}

void Membership::ask_for_mean(double now) {
  mean_wanted_ = false;
  if (table_.size() > 1) own_means_.count(now);
  Member m = self();
  ++m.means_asked;
  ++m.refutations;
  renew_self(m);
}

std::vector<std::string> Membership::unheard() const {
  std::vector<std::string> nodes;
  for (const uint32_t member : too_often_)
    nodes.push_back(table_.at(member).node);
  return nodes;
}

uint64_t Membership::means_asked() const {
  uint64_t asked = table_.means_asked();
  for (const uint32_t member : too_often_)
    asked -= means_asked_by(table_.at(member));
  return asked;
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
  sign(m);
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

// --- records

// False: something in it is signed by nobody, so nothing is to be believed that follows.
bool Membership::hear(double now, const std::string& from, const MembershipPacket& packet,
                      MembershipEffects& out) {
  for (const Member& m : packet.news) {
    if (const char* why = impossible(m)) {
      ++refusals_[why];
      continue;
    }
    if (!holds(m)) return disbelieve(from, out), false;
    if (m.node == self().node)
      hear_of_self(now, from, m, out);
    else
      hear_of(now, from, m, out);
  }
  const auto known = table_.find(from);
  const NextGraph::Word word{from, packet.graph, known && in_graph(table_.at(*known))};
  if (!holds(packet.graph)) return disbelieve(from, out), false;
  if (!next_graph_.hear(now, word, spec(), !met_)) ++refusals_["a graph that jumps"];
  for (const RateFact& fact : packet.rates) {
    const auto owner = table_.find(fact.owner);
    if (!owner || *owner == 0) continue;
    const PublicKey& key = table_.at(*owner).key;
    const auto before = table_.rates().find({*owner, fact.part});
    if (before != table_.rates().end() && before->second == fact) continue;
    if (!holds(key, fact_bytes(options_.run, key, fact), fact.signature))
      return disbelieve(from, out), false;
    if (table_.merge(fact)) piggyback_.rates({*owner, fact.part});
  }
  return hear_of_work(packet) || (disbelieve(from, out), false);
}

bool Membership::hear_of_work(const MembershipPacket& packet) {
  for (const WorkFact& fact : packet.work) {
    const auto owner = table_.find(fact.owner);
    if (!owner) continue;
    const auto before = table_.work().find(fact.owner);
    if (before != table_.work().end() && before->second.number >= fact.number) continue;
    const PublicKey& key = table_.at(*owner).key;
    if (!holds(key, fact_bytes(options_.run, key, fact), fact.signature)) return false;
    if (*owner == 0) work_before_ = std::max(work_before_, fact.taken);
    if (table_.merge(fact)) piggyback_.work(fact.owner);
  }
  return true;
}

bool Membership::holds(const PublicKey& key, std::span<const std::byte> bytes,
                       const Signature& signature) {
  ++checked_;
  return options_.signing.holds(key, bytes, signature);
}

// A known record has been checked, and an older one changes nothing.
bool Membership::holds(const Member& m) {
  if (const auto place = table_.find(m.node)) {
    const Member& known = table_.at(*place);
    if (same_word(known, m)) return true;
    const auto number = [](const Member& each) {
      return std::pair(each.incarnation, each.refutations);
    };
    if (m.key == known.key && newer(known, m) && number(known) != number(m)) return true;
  }
  return holds(m.key, fact_bytes(options_.run, m), m.signature);
}

bool Membership::holds(const GraphSpec& graph) {
  const bool is_said = graph.version > 0 && !graph.topology.empty();
  if (!is_said || graph == spec() || graph == judged_ || !wins(graph, spec())) return true;
  if (!holds(graph.key, fact_bytes(options_.run, graph), graph.signature)) return false;
  judged_ = graph;
  return true;
}

void Membership::sign(Member& m) const {
  m.signature = options_.signing.sign(fact_bytes(options_.run, m));
}

void Membership::disbelieve(const std::string& from, MembershipEffects& out) {
  ++refusals_["facts that nobody has signed"];
  accuse_of_lies(from, "it forwards facts without a valid signature", out);
}

/// Once for each node.
void Membership::accuse_of_lies(const std::string& node, const std::string& how,
                                MembershipEffects& out) {
  if (accused_.size() < kAccusedAtMost && accused_.insert(node).second)
    out.alarms.emplace_back(node, how);
}

void Membership::hear_of(double now, const std::string& from, const Member& m,
                         MembershipEffects& out) {
  const auto known = table_.find(m.node);
  if (!believable(now, known.value_or(~uint32_t{0}), m.incarnation, is_over(m))) {
    ++refusals_["an incarnation that jumps"];
    return;
  }
  if (known && contradict(table_.at(*known), m))
    accuse_of_lies(m.node, "it has signed two different records with one number", out);
  if (known && table_.live(*known) && hear_of_end(now, from, *known, m, out)) return;
  if (take_in(now, m, out) || m.node != from) return;
  // It may be a process that does not know of its earlier incarnations.
  if (known && newer(table_.at(*known), m)) send_record(*known, *known, out);
}

// Of one that lives, for all that is known here: another says that it is dead, or that another
// process has its name by now, which is the same. True: that is a claim of one alone, for now.
bool Membership::hear_of_end(double now, const std::string& from, uint32_t known, const Member& m,
                             MembershipEffects& out) {
  const Member before = table_.at(known);
  if (before.key != m.key) {
    if (!newer(m, before)) return false;
    if (hearsay(now, from, before, MemberState::dead, out)) {
      ++refusals_["a name that another process has"];
      return true;
    }
    end_incarnation(now, known, MemberState::dead, "another process has its name", out);
    return false;
  }
  const bool dies = m.state == MemberState::dead && m.last_word == MemberState::alive &&
                    m.incarnation >= before.incarnation;
  return dies && hearsay(now, from, m, m.state, out);
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

// `m` has ended, says `from`, and lives for all that is known here. False: it is to be believed.
bool Membership::hearsay(double now, const std::string& from, const Member& m, MemberState end,
                         MembershipEffects& out) {
  const uint32_t member = *table_.find(m.node);
  const uint32_t by = short_hash(from);
  if (suspicions_.accuses(member, short_hash(self().node))) return false;
  if (const auto claim = suspicions_.claimed(member)) return claim->by == by;
  Member suspect = m;
  suspect.state = MemberState::suspect;
  suspect.accuser = by;
  MembershipPacket packet;  // it hears what is said of it
  packet.kind = Kind::sync_reply;
  packet.news.push_back(suspect);
  out.sends.push_back({m.node, std::move(packet)});
  take_in(now, suspect, out);
  if (!table_.live(member)) return true;
  suspicions_.claim({member, end, by});
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
  if (!before || !has_ranks_of(*before, m))
    resolve_at_ = std::min(resolve_at_, now + kResolveAfter_s);
  ranks_went_ |= before && in_graph(*before) && !has_ranks_of(*before, m);
  suspicions_.forget(merged.index);
  if (merged.index >= known_.size()) known_.resize(merged.index + 1);
  if (is_over(m)) known_[merged.index] = {};
  if (known_[merged.index].incarnation == 0 && in_graph(m))
    known_[merged.index] = {now, m.incarnation};
  if (m.state == MemberState::suspect) suspicions_.suspect(now, merged.index, m.accuser);
  const auto owner = [](const Member& r) { return is_over(r) ? 0 : id_of(r.key); };
  if (!before || owner(*before) != owner(m)) out.owners.emplace_back(m.node, owner(m));
  count_means(now, merged.index, before, out);
  if (new_incarnation && !is_over(m))
    out.lines.push_back(incarnation_of(m) + " is here, " + ranks_of(m));
  if (m.state == MemberState::left) out.lines.push_back(incarnation_of(m) + " has left");
  if (m.state == MemberState::dead) out.lines.push_back(incarnation_of(m) + " is dead");
  if (!met_) return;  // the first view that a newcomer hears is no news to others
  piggyback_.member(merged.index);
  fresh_ = true;
  sync_soon(now);
}

// How often does it ask?
void Membership::count_means(double now, uint32_t member, const std::optional<Member>& before,
                             MembershipEffects& out) {
  const Member& m = table_.at(member);
  const bool is_new = !before || before->key != m.key;
  const auto place = is_new
                         ? means_of_.insert_or_assign(member, MeanCount(now, m.means_asked)).first
                         : means_of_.try_emplace(member, now, before->means_asked).first;
  const auto ignored = std::ranges::find(too_often_, member);
  const bool was_ignored = ignored != too_often_.end();
  if (place->second.allows(now, m.means_asked)) {
    if (was_ignored) too_often_.erase(ignored);
  } else if (!was_ignored) {
    too_often_.push_back(member);
    accuse_of_lies(m.node, "it asks for means too often, and its requests are ignored", out);
  }
}

void Membership::hear_of_self(double now, const std::string& from, const Member& m,
                              MembershipEffects& out) {
  if (is_over(self())) return;
  if (m.key != self().key) return hear_of_rival(now, from, m, out);
  Member own = self();
  const bool ours = same_word(m, own);  // what we said, but for the state
  const bool is_claim = is_over(m) && m.last_word == MemberState::alive;
  if (ours && m.state == MemberState::suspect && own.refutations < kRefutationsAtMost / 2) {
    ++own.refutations;
    prober_.change_health(+1);
    renew_self(own);
  } else if (is_claim && m.incarnation >= own.incarnation) {
    own_incarnation_.contest(now, m.incarnation, "it was declared dead", short_hash(from));
  } else if (!ours && !newer(own, m)) {  // it was said in an earlier life
    own.means_asked = std::max(own.means_asked, m.means_asked);
    own.stops = own.stops || (m.stops && m.generation >= own.generation);
    ++own.refutations;
    renew_self(own);
    own_incarnation_.contest(m.incarnation, "it has lived before");
  }
  begin_contested(now, out);
}

// Another process has said something in the name of this node, or says it now.
void Membership::hear_of_rival(double now, const std::string& from, const Member& m,
                               MembershipEffects& out) {
  if (m.incarnation < self().incarnation) return;
  if (!believable(now, 0, m.incarnation, false)) {
    ++refusals_["an incarnation that jumps"];
    return;
  }
  const bool is_here = !known_.empty() && known_[0].incarnation > 0;
  auto says = OwnIncarnation::Says::contest;
  if (is_here)
    says = own_incarnation_.hear(
        now, {id_of(m.key), short_hash(from), is_over(m), table_.live_count() <= 2});
  if (says == OwnIncarnation::Says::lost) out.name_taken = true;
  if (says != OwnIncarnation::Says::contest) return;
  own_incarnation_.contest(m.incarnation, "another process has had its name");
  begin_contested(now, out);
}

void Membership::begin_contested(double now, MembershipEffects& out) {
  if (const auto next = own_incarnation_.take(now, self().incarnation))
    begin_incarnation(self(), next->incarnation, next->why, out);
}

void Membership::renew_self(Member m) {
  sign(m);
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
  out.lines.push_back(fmt::format("begins incarnation {}: {}", m.incarnation, why));
  renew_self(m);
}

void Membership::resolve_ranks(double now, MembershipEffects& out) {
  resolve_at_ = std::numeric_limits<double>::infinity();
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
  if (begins && now < own_incarnation_.ranks_due())
    return void(resolve_at_ = own_incarnation_.ranks_due());
  if (begins) own_incarnation_.count(now);
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
  const uint32_t own_name = short_hash(self().node);
  if (const auto claim = suspicions_.claimed(member))  // what another said is so
    return end_incarnation(now, member, claim->state, why, out);
  if (m.state == MemberState::suspect) return confirm(member, own_name);
  m.state = MemberState::suspect;
  m.accuser = own_name;
  out.lines.push_back(incarnation_of(m) + " is suspected: " + why);
  take_in(now, m, out);
}

// Somebody else finds the same: the suspect has less time, and others hear of it.
void Membership::confirm(uint32_t member, uint32_t accuser) {
  if (!suspicions_.confirm(member, accuser)) return;
  table_.name_accuser(member, accuser);
  piggyback_.member(member);
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
    accuse(now, f.member,
           fmt::format("no answer in {} ms, {} others had none either",
                       std::lround(1e3 * f.after_s), f.nacks),
           out);
  }
  for (auto& [to, packet] : results.sends)
    send(to, std::move(packet), out);
}

// The record that a member is sent about itself: that it is suspect or dead.
std::optional<Member> Membership::said_of(uint32_t member) const {
  const Member& m = table_.at(member);
  if (m.state == MemberState::alive) return std::nullopt;
  return m;
}

// A member that is suspect or dead here is told so in every packet.
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
  auto work = table_.work().begin();
  size_t done = 0;
  while (done < order.size()) {
    MembershipPacket packet;
    packet.kind = Kind::sync_reply;
    packet.graph = spec();
    for (; work != table_.work().end() && packet.work.size() < kMaxWorkFacts; ++work)
      packet.work.push_back(work->second);
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
    if (!met_) resolve_at_ = now;
    met_ = true;
  }
  if (whole && !same) send_view(now, from, out);
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
