#include "actors/membership/prober.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/base/check.hpp"

namespace grapevine {

namespace {

using Kind = MembershipPacket::Kind;

constexpr double kLeastTimeout_s = 0.02, kFirstTimeout_s = 0.2, kLongestTimeout_s = 0.6;
constexpr double kLeastWindow_s = 0.2, kLeastPeriod_s = 0.2;
constexpr double kDeaf_s = 0.8, kDeafWindows = 3;  // how much longer where no helper spoke
constexpr double kLongest_s = 2;                   // of anything, however ill this node is
constexpr int kWorstHealth = 8;
constexpr size_t kHelpers = 3;
constexpr size_t kProbesAtOnce = 16;
constexpr size_t kIndirectProbesAtMost = 256, kPastAtMost = 64;
constexpr double kDial_s = 1, kHelpersDial_s = 0.15;
constexpr double kProberNap_s = 0.1;  // a timer this late says more of us than of round trips

MembershipPacket packet_of(Kind kind, uint64_t sequence, const std::string& target = {}) {
  MembershipPacket packet;
  packet.kind = kind;
  packet.sequence = sequence;
  packet.target = target;
  return packet;
}

}  // namespace

void Prober::start(double now) { probe_at_ = now + kLeastPeriod_s * random_.uniform(); }

void Prober::change_health(int by) { health_ = std::clamp(health_ + by, 0, kWorstHealth); }

void Prober::overslept(double late_s) {
  for (Probe& p : probes_) {
    p.indirect_at += late_s;
    p.ends_at += late_s;
    p.teaches = p.teaches && late_s < kProberNap_s;
  }
  if (late_s < kProberNap_s) return;
  change_health(+1);
  indirect_probes_.clear();
  past_.clear();
}

// --- round trips

Prober::RoundTrip& Prober::round_trip(uint32_t member) {
  if (member >= round_trips_.size()) round_trips_.resize(member + 1);
  return round_trips_[member];
}

double Prober::round_trip_s(uint32_t member) const {
  const bool is_known = member < round_trips_.size() && round_trips_[member].usual.is_known();
  return is_known ? round_trips_[member].usual.mean_s() : 0;
}

void Prober::learn(double now, uint32_t member, double sent_at) {
  const double sample_s = std::min(now - sent_at, kLongest_s);
  RoundTrip& r = round_trip(member);
  r.answered_at = now;
  r.usual.add(sample_s);
  usual_timeout_s_ += (timeout_s(member) / (1 + health_) - usual_timeout_s_) / 8;
}

double Prober::timeout_s(uint32_t member) {
  const RoundTrip& r = round_trip(member);
  const double t = r.usual.is_known() ? r.usual.most_s() : kFirstTimeout_s;
  const double at_rest = std::clamp(t, kLeastTimeout_s, kLongestTimeout_s);
  return std::min(at_rest * (1 + health_), kLongest_s);
}

double Prober::period_s() {
  const double at_rest = std::max(kLeastPeriod_s, 2 * usual_timeout_s_);
  return std::min(at_rest * (1 + health_), kLongest_s) * random_.uniform(0.9, 1.1);
}

// --- whom

bool Prober::is_target(uint32_t member) const {
  return member != 0 && table_.live(member) &&
         std::none_of(probes_.begin(), probes_.end(),
                      [&](const Probe& p) { return p.member == member; });
}

std::optional<uint32_t> Prober::next_target() {
  by_name_ = !by_name_;
  if (by_name_) {
    const auto& order = table_.by_name();
    auto place = std::find(order.begin(), order.end(), 0u);
    for (size_t i = 1; i < order.size(); ++i) {
      if (++place == order.end()) place = order.begin();
      if (table_.at(*place).state != MemberState::alive) continue;
      if (is_target(*place)) return *place;
      break;
    }
  }
  // A link that was needed for a while is not dialled anew for a probe, which would need it again.
  const auto near = [&](uint32_t member) {
    return connector_.linked(member) || connector_.keeps(member);
  };
  for (size_t rounds = 0; rounds < 2; ++rounds) {
    for (; !round_.empty(); round_.pop_back()) {
      const uint32_t member = round_.back();
      if (!is_target(member) || !near(member)) continue;
      round_.pop_back();
      return member;
    }
    for (uint32_t member = 1; member < table_.size(); ++member) {
      if (table_.live(member) && near(member)) round_.push_back(member);
    }
    shuffle(round_.begin(), static_cast<uint32_t>(round_.size()), random_);
  }
  return std::nullopt;
}

std::vector<uint32_t> Prober::some_linked(size_t count, uint32_t but) {
  std::vector<uint32_t> found;
  const auto fits = [&](uint32_t member) {
    return member != but && connector_.linked(member) &&
           table_.at(member).state == MemberState::alive &&
           std::find(found.begin(), found.end(), member) == found.end();
  };
  const auto others = static_cast<uint32_t>(table_.size() - 1);
  for (size_t tries = 0; others > 16 && tries < 4 * count && found.size() < count; ++tries) {
    const uint32_t member = 1 + random_.below(others);
    if (fits(member)) found.push_back(member);
  }
  if (found.size() == count || others == 0) return found;
  const uint32_t offset = random_.below(others);
  for (uint32_t i = 0; i < others && found.size() < count; ++i) {
    const uint32_t member = 1 + (offset + i) % others;
    if (fits(member)) found.push_back(member);
  }
  return found;
}

// --- a probe

void Prober::suspect(double now, uint32_t member, ProbeResults& out) {
  if (probes_.size() >= kProbesAtOnce) return;
  if (now > round_trip(member).answered_at + kLeastWindow_s) probe(now, member, out);
}

void Prober::probe(double now, uint32_t member, ProbeResults& out) {
  if (!is_target(member)) return;
  Probe p;
  p.member = member;
  p.sequence = ++sequence_;
  set_clock(now, p);
  if (connector_.linked(member)) {
    out.sends.push_back({member, packet_of(Kind::ping, p.sequence)});
  } else {
    p.dials = !connector_.broke(member);
    p.indirect_at = p.dials ? now + kDial_s : now;
    p.ends_at = std::max(p.ends_at, p.indirect_at);
    connector_.need(now, member);
  }
  probes_.push_back(p);
  if (p.indirect_at <= now) ask_helpers(now, probes_.back(), out);
}

void Prober::set_clock(double now, Probe& p) {
  const double timeout = timeout_s(p.member);
  p.sent_at = now;
  p.indirect_at = now + timeout;
  p.ends_at = now + std::min(std::max(3 * timeout, kLeastWindow_s * (1 + health_)), kLongest_s);
}

void Prober::link_up(double now, uint32_t member, ProbeResults& out) {
  for (Probe& p : probes_) {
    if (p.member != member || !std::exchange(p.dials, false) || p.helpers >= 0) continue;
    set_clock(now, p);
    out.sends.push_back({member, packet_of(Kind::ping, p.sequence)});
  }
  for (IndirectProbe& e : indirect_probes_) {
    if (e.target != member || !std::exchange(e.dials, false)) continue;
    e.sent_at = now;
    out.sends.push_back({member, packet_of(Kind::ping, e.ours)});
  }
}

void Prober::goodbye(uint32_t member) {
  std::erase_if(probes_,
                [&](const Probe& p) { return p.member == member && !p.dials && p.helpers < 0; });
}

void Prober::ask_helpers(double now, Probe& p, ProbeResults& out) {
  const std::vector<uint32_t> helpers = some_linked(kHelpers, p.member);
  p.helpers = static_cast<int>(helpers.size());
  p.indirect_at = std::numeric_limits<double>::infinity();
  p.ends_at = std::max(p.ends_at, now + kLeastWindow_s / 2);
  for (const uint32_t helper : helpers) {
    out.sends.push_back(
        {helper, packet_of(Kind::ping_request, p.sequence, table_.at(p.member).node)});
  }
}

void Prober::conclude(double now, const Probe& p, ProbeResults& out) {
  if (p.teaches) past_.push_back({p.sequence, p.sent_at});
  if (past_.size() > kPastAtMost) past_.erase(past_.begin());
  if (p.nacks < p.helpers || p.helpers == 0) change_health(+1);
  out.failed.push_back({p.member, p.nacks, now - p.sent_at});
}

void Prober::run(double now, ProbeResults& out) {
  for (Probe& p : probes_) {
    if (p.indirect_at <= now) ask_helpers(now, p, out);
  }
  std::erase_if(probes_, [&](Probe& p) {
    if (p.ends_at > now) return false;
    if (p.helpers > 0 && p.nacks == 0 && !p.extended) {  // are we deaf?
      p.extended = true;
      p.ends_at = std::max(p.sent_at + kDeafWindows * (p.ends_at - p.sent_at), now + kDeaf_s);
      return false;
    }
    conclude(now, p, out);
    return true;
  });
  for (IndirectProbe& e : indirect_probes_) {
    if (e.nack_at > now) continue;
    e.nack_at = std::numeric_limits<double>::infinity();
    out.sends.push_back({e.requester, packet_of(Kind::nack, e.theirs, table_.at(e.target).node)});
  }
  std::erase_if(indirect_probes_, [&](const IndirectProbe& e) { return e.ends_at <= now; });
  if (probe_at_ <= now) {
    probe_at_ = now + period_s();
    if (const auto target = next_target()) probe(now, *target, out);
  }
}

double Prober::next() const {
  double at = probe_at_;
  for (const Probe& p : probes_)
    at = std::min({at, p.indirect_at, p.ends_at});
  for (const IndirectProbe& e : indirect_probes_)
    at = std::min({at, e.nack_at, e.ends_at});
  return at;
}

void Prober::forget(uint32_t member) {
  std::erase_if(probes_, [&](const Probe& p) { return p.member == member; });
  std::erase_if(indirect_probes_, [&](const IndirectProbe& e) {
    return e.target == member || e.requester == member;
  });
  round_trip(member) = {};
}

// --- packets

void Prober::packet(double now, uint32_t from, const MembershipPacket& packet, ProbeResults& out) {
  switch (packet.kind) {
    case Kind::ping: out.sends.push_back({from, packet_of(Kind::ack, packet.sequence)}); return;
    case Kind::ack: return on_ack(now, from, packet, out);
    case Kind::ping_request: return on_ping_request(now, from, packet, out);
    case Kind::nack:
      for (Probe& p : probes_) {
        if (p.sequence != packet.sequence || p.nacks >= p.helpers) continue;
        ++p.nacks;
        if (p.extended) p.ends_at = now;
      }
      return;
    case Kind::sync:
    case Kind::sync_reply: GV_CHECK(false); return;
  }
}

void Prober::on_ping_request(double now, uint32_t from, const MembershipPacket& packet,
                             ProbeResults& out) {
  const auto target = table_.find(packet.target);
  if (!target || *target == from || indirect_probes_.size() >= kIndirectProbesAtMost) return;
  if (*target == 0) {  // it may know us by this way only
    out.sends.push_back({from, packet_of(Kind::ack, packet.sequence, packet.target)});
    return;
  }
  IndirectProbe e;
  e.requester = from;
  e.target = *target;
  e.theirs = packet.sequence;
  e.ours = ++sequence_;
  e.sent_at = now;
  // A slow helper says so late, but its health is not the requester's.
  e.nack_at = now + timeout_s(*target) / (1 + health_) + kLeastTimeout_s;
  e.ends_at = now + kLongest_s;
  if (connector_.linked(*target)) {
    out.sends.push_back({*target, packet_of(Kind::ping, e.ours)});
  } else if (table_.live(*target)) {
    e.dials = true;
    e.nack_at += kHelpersDial_s;
    connector_.need(now, *target);
  }
  indirect_probes_.push_back(e);
}

void Prober::on_ack(double now, uint32_t from, const MembershipPacket& packet, ProbeResults& out) {
  const auto past = std::find_if(past_.begin(), past_.end(),
                                 [&](const auto& entry) { return entry.first == packet.sequence; });
  if (past != past_.end()) {
    if (packet.target.empty()) learn(now, from, past->second);
    past_.erase(past);
    return;
  }
  const auto indirect_probe = std::find_if(
      indirect_probes_.begin(), indirect_probes_.end(),
      [&](const IndirectProbe& e) { return e.ours == packet.sequence && e.target == from; });
  if (indirect_probe != indirect_probes_.end()) {
    learn(now, from, indirect_probe->sent_at);
    out.sends.push_back(
        {indirect_probe->requester,
         packet_of(Kind::ack, indirect_probe->theirs, table_.at(indirect_probe->target).node)});
    indirect_probes_.erase(indirect_probe);
    return;
  }
  const auto probe = std::find_if(probes_.begin(), probes_.end(), [&](const Probe& p) {
    return p.sequence == packet.sequence &&
           (packet.target.empty() ? p.member == from : table_.at(p.member).node == packet.target);
  });
  if (probe == probes_.end()) return;
  if (packet.target.empty() && probe->teaches) learn(now, from, probe->sent_at);
  if (probe->helpers <= 0) change_health(-1);
  probes_.erase(probe);
}

}  // namespace grapevine
