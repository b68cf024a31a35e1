#include "actors/membership/membership.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

namespace grapevine {

namespace {

constexpr double kLate_s = 0.02, kNap_s = 0.1, kSleep_s = 2;  // of timers
constexpr double kAway_s = 0.9;  // somewhat less than others wait for it when its name is asked for
constexpr double kForgetAgain_s = 1;      // rates of members that are over
constexpr double kRateMoves = 0.05;       // by less it is not told again
constexpr double kLonely_s = 2;           // then a node that meets nobody begins alone
constexpr double kResolveAfter_s = 0.05;  // after news of ranks: more may be on the way
constexpr size_t kAccusedAtMost = 1000;

MemberTable first_table(Member self, const MembershipOptions& options, const SignedFacts& facts) {
  self.state = self.last_word = MemberState::alive;
  self.incarnation = std::max(self.incarnation, 1u);
  self.refutations = 0;
  self.generation = options.generation;
  self.key = facts.key();
  facts.sign(self);
  return {std::move(self), {0, "", options.topology, {}, {}}};
}

std::string incarnation_of(const Member& m) {
  return fmt::format("{} (incarnation {})", m.node, m.incarnation);
}

bool has_ranks_of(const Member& a, const Member& b) {
  return a.incarnation == b.incarnation && a.first_rank == b.first_rank && a.ranks == b.ranks &&
         in_graph(a) == in_graph(b);
}

}  // namespace

Membership::Membership(Member self, const MembershipOptions& options)
    : join_(options.join),
      facts_(options.run, options.signing),
      table_(first_table(std::move(self), options, facts_)),
      random_(options.seed, name_mark(table_.self().node), Purpose::membership),
      connector_(options.join),
      prober_(table_, connector_, random_),
      dissemination_(table_, prober_, random_),
      own_(table_, facts_, dissemination_, incarnations_),
      work_before_(options.work_before) {}

// --- events

void Membership::begin(double now, MembershipEffects& out) {
  const double late_s = now - armed_at_;
  if (late_s < kLate_s) return;
  prober_.overslept(late_s);
  if (late_s < kNap_s) return;
  suspicions_.stood_still(late_s);
  if (late_s >= kAway_s) own_.stood_still(now);
  if (late_s < kSleep_s) return;
  dissemination_.sync_now(now);  // others may hold it for dead by now
  out.lines.push_back(fmt::format("this process was stopped for {:.3f} s", late_s));
}

void Membership::finish(double now, MembershipEffects& out) {
  if (is_over(self())) {
    armed_at_ = out.timer_at = std::numeric_limits<double>::infinity();
    return;
  }
  own_.run(now, met_, out);
  change_graph(now, out);
  if (mean_requests_.take(now, table_.size() == 1)) own_.ask_for_mean();
  connector_.run(now, table_, random_, out.dials, out.closes);
  if (const auto member = connector_.revisit())
    dissemination_.send_sync(table_.at(*member).node, out.sends);
  dissemination_.run(now, out.sends);
  if (in_graph(self())) incarnations_.enters(now, 0, self().incarnation);
  if (known_epoch_ != epoch()) {
    known_epoch_ = epoch();
    out.changed = true;
  }
  if (table_.has_old_rates() && forget_at_ <= now) {
    table_.forget_old_rates();
    forget_at_ = now + kForgetAgain_s;
  }
  double at =
      std::min({prober_.next(), connector_.next(), dissemination_.next(), lonely_at_, own_.next(),
                next_graph_.due(), mean_requests_.due(), suspicions_.next(table_.live_count())});
  if (table_.has_old_rates()) at = std::min(at, forget_at_);
  armed_at_ = out.timer_at = std::max(at, now);
}

void Membership::start(double now, MembershipEffects& out) {
  armed_at_ = now;
  prober_.start(now);
  connector_.start(now);
  dissemination_.start(now);
  met_ = join_.empty();
  next_graph_.start(now);
  own_.resolve_ranks_by(now);
  lonely_at_ = met_ ? std::numeric_limits<double>::infinity() : now + kLonely_s;
  finish(now, out);
}

void Membership::timer(double now, MembershipEffects& out) {
  begin(now, out);
  if (lonely_at_ <= now) {
    lonely_at_ = std::numeric_limits<double>::infinity();
    met_ = true;
    own_.resolve_ranks_by(now);
  }
  ProbeResults results;
  prober_.run(now, results);
  carry_out(now, results, out);
  for (const uint32_t member : suspicions_.lapsed(now, table_.live_count()))
    declare_dead(now, member, "it did not refute its suspicion", out);
  dissemination_.timer(now, out.sends);
  finish(now, out);
}

void Membership::packet(double now, const std::string& from, const MembershipPacket& packet,
                        MembershipEffects& out) {
  if (is_over(self())) return finish(now, out);
  begin(now, out);
  const bool is_heard = hear(now, from, packet, out);
  const auto known = table_.find(from);
  if (!is_heard || !known || *known == 0) return finish(now, out);
  if (packet.kind == MembershipPacket::Kind::sync ||
      packet.kind == MembershipPacket::Kind::sync_reply) {
    if (dissemination_.compare(now, *known, packet, out.sends)) meet(now);
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
    dissemination_.link_up(*member);
  } else {
    dissemination_.stranger_up(now, node, dialled);
  }
  if (member != 0u) dissemination_.send_sync(node, out.sends);
  finish(now, out);
}

void Membership::link_down(double now, const std::string& node, MembershipEffects& out,
                           bool goodbye) {
  begin(now, out);
  dissemination_.stranger_down(node);
  if (const auto member = table_.find(node); member && connector_.linked(*member)) {
    connector_.link_down(now, *member, table_, goodbye);
    if (goodbye) prober_.goodbye(*member);
    if (!goodbye) connector_.need(now, *member);  // is its port still there?
    if (!goodbye) accuse(now, *member, "its link broke", out);
  }
  finish(now, out);
}

void Membership::exchange_with(double now, const std::vector<uint32_t>& members,
                               MembershipEffects& out) {
  begin(now, out);
  connector_.exchange_with(members);
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
  own_.become(ready, finished, out);
  finish(now, out);
}

void Membership::leave(double now, MembershipEffects& out) {
  if (is_over(self())) return finish(now, out);
  begin(now, out);
  own_.leave();
  for (uint32_t to = 1; to < table_.size(); ++to) {
    if (connector_.linked(to)) dissemination_.send_record(table_.at(to).node, self(), out.sends);
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
  if (next && next->key == PublicKey{}) facts_.sign(*next);  // this node's own wish
  if (!next || !table_.merge(*next)) return;
  dissemination_.graph();
  out.lines.push_back(spec().node + " requests the graph " + spec().topology);
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
    facts_.sign(fact);
    if (table_.merge(fact)) dissemination_.rates({0, part});
  }
  finish(now, out);
}

void Membership::work(double now, WorkFact own, MembershipEffects& out) {
  begin(now, out);
  own.owner = id_of(self().key);
  const auto told = table_.work().find(own.owner);
  own.number = told == table_.work().end() ? 1 : told->second.number + 1;
  own.taken += work_before_;
  facts_.sign(own);
  if (table_.merge(own)) dissemination_.work(own.owner, true);
  finish(now, out);
}

void Membership::stop(double now, MembershipEffects& out) {
  begin(now, out);
  own_.stop();
  finish(now, out);
}

void Membership::want_mean(double now, MembershipEffects& out) {
  begin(now, out);
  mean_requests_.want();
  finish(now, out);
}

std::vector<std::string> Membership::unheard() const {
  std::vector<std::string> nodes;
  for (const uint32_t member : mean_requests_.ignored())
    nodes.push_back(table_.at(member).node);
  return nodes;
}

uint64_t Membership::means_asked() const {
  uint64_t asked = table_.means_asked();
  for (const uint32_t member : mean_requests_.ignored())
    asked -= means_asked_by(table_.at(member));
  return asked;
}

void Membership::tell_mean(double now, MeanTold mean, MembershipEffects& out) {
  begin(now, out);
  own_.tell_mean(mean);
  finish(now, out);
}

bool Membership::unreachable(double now, const std::string& node, bool is, MembershipEffects& out) {
  begin(now, out);
  const bool told = own_.unreachable(node, is);
  finish(now, out);
  return told;
}

bool Membership::rank_gone(double now, uint32_t rank, MembershipEffects& out) {
  begin(now, out);
  const bool told = own_.rank_gone(rank);
  finish(now, out);
  return told;
}

bool Membership::rank_returned(double now, uint32_t rank, MembershipEffects& out) {
  begin(now, out);
  const bool told = own_.rank_returned(rank);
  finish(now, out);
  return told;
}

// --- records

// False: a fact in it has no valid signature. The facts after it are not read.
bool Membership::hear(double now, const std::string& from, const MembershipPacket& packet,
                      MembershipEffects& out) {
  for (const Member& m : packet.news) {
    if (const char* why = impossible(m)) {
      ++refusals_[why];
      continue;
    }
    if (!facts_.holds(m, table_)) return disbelieve(from, out), false;
    if (m.node != self().node)
      hear_of(now, from, m, out);
    else if (own_.hear(now, from, m, out))
      prober_.change_health(+1);
  }
  const auto known = table_.find(from);
  const NextGraph::Word word{from, packet.graph, known && in_graph(table_.at(*known))};
  if (!facts_.holds(packet.graph, table_)) return disbelieve(from, out), false;
  if (!next_graph_.hear(now, word, spec(), !met_)) ++refusals_["a graph version too far ahead"];
  for (const RateFact& fact : packet.rates) {
    const auto owner = table_.find(fact.owner);
    if (!owner || *owner == 0) continue;
    const PublicKey& key = table_.at(*owner).key;
    const auto before = table_.rates().find({*owner, fact.part});
    if (before != table_.rates().end() && before->second == fact) continue;
    if (!facts_.holds(fact, key)) return disbelieve(from, out), false;
    if (table_.merge(fact)) dissemination_.rates({*owner, fact.part});
  }
  return hear_of_work(packet) || (disbelieve(from, out), false);
}

bool Membership::hear_of_work(const MembershipPacket& packet) {
  for (const WorkFact& fact : packet.work) {
    const auto owner = table_.find(fact.owner);
    if (!owner) continue;
    const auto before = table_.work().find(fact.owner);
    if (before != table_.work().end() && before->second.number >= fact.number) continue;
    if (!facts_.holds(fact, table_.at(*owner).key)) return false;
    if (*owner == 0) work_before_ = std::max(work_before_, fact.taken);
    if (table_.merge(fact)) dissemination_.work(fact.owner, false);
  }
  return true;
}

void Membership::disbelieve(const std::string& from, MembershipEffects& out) {
  ++refusals_["facts that nobody has signed"];
  accuse_of_lies(from, "it forwards facts without a valid signature", out);
}

// Once for each node.
void Membership::accuse_of_lies(const std::string& node, const std::string& how,
                                MembershipEffects& out) {
  if (accused_.size() < kAccusedAtMost && accused_.insert(node).second)
    out.alarms.emplace_back(node, how);
}

void Membership::hear_of(double now, const std::string& from, const Member& m,
                         MembershipEffects& out) {
  const auto known = table_.find(m.node);
  if (!incarnations_.accepts(now, known.value_or(~uint32_t{0}), m.incarnation, is_over(m))) return;
  if (known && contradict(table_.at(*known), m))
    accuse_of_lies(m.node, "it has signed two different records with one number", out);
  if (known && table_.live(*known) && hear_of_end(now, from, *known, m, out)) return;
  if (take_in(now, m, out) || m.node != from) return;
  // It may be a process that does not know of its earlier incarnations.
  if (known && newer(table_.at(*known), m))
    dissemination_.send_record(m.node, table_.at(*known), out.sends);
}

// `known` is alive in the table. The record `m` may say that it is dead, or that another process
// has its name, which means the same. True: so far this is the claim of one node alone.
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

// `from` says that the incarnation of `m` has ended; it is alive in the table. False: the claim is
// confirmed.
bool Membership::hearsay(double now, const std::string& from, const Member& m, MemberState end,
                         MembershipEffects& out) {
  const uint32_t member = *table_.find(m.node);
  const uint32_t by = name_mark(from);
  if (suspicions_.accuses(member, name_mark(self().node))) return false;
  if (const auto claim = suspicions_.claimed(member)) return claim->by == by;
  Member suspect = m;
  suspect.state = MemberState::suspect;
  suspect.accuser = by;
  dissemination_.send_record(suspect.node, suspect, out.sends);
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
  for (const std::string& dialled : dissemination_.introduced(m.node))
    connector_.link_up(now, merged.index, dialled, table_);
  if (new_incarnation || is_over(m)) prober_.forget(merged.index);
  if (new_incarnation && !is_over(m)) connector_.born(now, merged.index, table_);
  if (new_incarnation || before->state != m.state) connector_.changed();
  if (!before || !has_ranks_of(*before, m)) own_.resolve_ranks_by(now + kResolveAfter_s);
  suspicions_.forget(merged.index);
  if (is_over(m)) incarnations_.is_over(merged.index);
  if (in_graph(m)) incarnations_.enters(now, merged.index, m.incarnation);
  if (m.state == MemberState::suspect) suspicions_.suspect(now, merged.index, m.accuser);
  const auto owner = [](const Member& r) { return is_over(r) ? 0 : id_of(r.key); };
  if (!before || owner(*before) != owner(m)) out.owners.emplace_back(m.node, owner(m));
  count_means(now, merged.index, before, out);
  if (new_incarnation && !is_over(m))
    out.lines.push_back(incarnation_of(m) + " is here, " + ranks_of(m));
  if (m.state == MemberState::left) out.lines.push_back(incarnation_of(m) + " has left");
  if (m.state == MemberState::dead) out.lines.push_back(incarnation_of(m) + " is dead");
  if (!met_) return;  // the first view that a newcomer hears is no news to others
  dissemination_.member(merged.index);
  dissemination_.sync_after_news(now);
}

void Membership::count_means(double now, uint32_t member, const std::optional<Member>& before,
                             MembershipEffects& out) {
  const Member& m = table_.at(member);
  const bool is_new = !before || before->key != m.key;
  const bool too_often = is_new
                             ? mean_requests_.begin(now, member, m.means_asked)
                             : mean_requests_.hear(now, member, before->means_asked, m.means_asked);
  if (too_often)
    accuse_of_lies(m.node, "it asks for means too often, and its requests are ignored", out);
}

// The sender has told all that it knows, or there is nobody to wait for.
void Membership::meet(double now) {
  if (!met_) own_.resolve_ranks_by(now);
  met_ = true;
}

// --- suspicions

void Membership::accuse(double now, uint32_t member, const std::string& why,
                        MembershipEffects& out) {
  Member m = table_.at(member);
  if (is_over(m)) return;
  const uint32_t own_name = name_mark(self().node);
  if (const auto claim = suspicions_.claimed(member))  // this confirms it
    return end_incarnation(now, member, claim->state, why, out);
  if (m.state == MemberState::suspect) return confirm(member, own_name);
  m.state = MemberState::suspect;
  m.accuser = own_name;
  out.lines.push_back(incarnation_of(m) + " is suspected: " + why);
  take_in(now, m, out);
}

// A second accuser: the suspect has less time to refute, and all nodes are told.
void Membership::confirm(uint32_t member, uint32_t accuser) {
  if (!suspicions_.confirm(member, accuser)) return;
  table_.name_accuser(member, accuser);
  dissemination_.member(member, false);
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

void Membership::send(uint32_t to, MembershipPacket packet, MembershipEffects& out) {
  dissemination_.send(to, std::move(packet), out.sends);
}

// --- what is known

std::map<std::string_view, uint64_t> Membership::refusals() const {
  std::map<std::string_view, uint64_t> all = refusals_;
  if (incarnations_.refused() > 0) all["an incarnation too far ahead"] = incarnations_.refused();
  return all;
}

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
