#include "actors/membership/connector.hpp"

#include <algorithm>
#include <limits>

#include "kernels/memory/hash.hpp"

namespace grapevine {

namespace {

constexpr double kFirstWait_s = 0.05;
constexpr double kLongestWait_s = 5;
constexpr double kLongestJoinWait_s = 30;  // where others are linked: it may be one of these
constexpr double kOthersTurn_s = 0.5;      // the one with the higher name lets the other dial
constexpr double kRedialDead_s = 3;
constexpr double kForAWhile_s = 5, kIdle_s = 10;
constexpr double kGoodbye_s = 2;  // until it is dialled again
constexpr double kDialing_s = 1;  // that a link may take
constexpr size_t kNextAtMost = 64;

double dial_time(double now, uint32_t member, const MemberTable& table) {
  return table.self().node < table.at(member).node ? now : now + kOthersTurn_s;
}

double backed_off(double& wait_s, double longest_s, Random& random) {
  const double wait = wait_s * random.uniform(0.75, 1.25);
  wait_s = std::min(2 * wait_s, longest_s);
  return wait;
}

}  // namespace

Connector::Connector(const std::vector<std::string>& join) {
  for (const std::string& address : join)
    joins_.push_back({address, std::nullopt, 0, kFirstWait_s});
}

void Connector::start(double now) {
  for (Join& j : joins_)
    j.dial_at = now;
  redial_at_ = now + kRedialDead_s;
  due_ = now;
}

Connector::Link& Connector::link(uint32_t member) {
  if (member >= links_.size()) links_.resize(member + 1);
  return links_[member];
}

void Connector::want(double at, uint32_t member) {
  Link& l = link(member);
  l.dial_at = at;
  l.wait = kFirstWait_s;
  if (!l.wanted) l.wanted_since = at;
  if (!l.wanted) wanted_.push_back(member);
  l.wanted = true;
  due_ = std::min(due_, at);
}

void Connector::born(double now, uint32_t member, const MemberTable& table) {
  Link& l = link(member);
  l.was_up = l.up;
  chosen_ = false;
  if (!l.up && member != 0 && needs(now, member)) want(dial_time(now, member, table), member);
}

// A node that was dialled to find the members is no longer needed for that.
void Connector::link_up(double now, uint32_t member, const std::string& dialled,
                        const MemberTable& table) {
  bool found = !table.live(member);
  for (Join& j : joins_) {
    if (dialled.empty() || j.address != dialled) continue;
    found |= !j.member;
    j.member = member;
    j.wait = kFirstWait_s;
  }
  if (member == 0) return;
  Link& l = link(member);
  l.up = l.was_up = true;
  l.broke = false;
  l.up_since = now;
  // It is this node's to close, even where it had been closed meanwhile and was dialled again.
  if (found || l.wanted || now < l.needed_until)
    l.close_at = std::max(now, l.needed_until) + kIdle_s;
  chosen_ = false;
}

// A peer that closed a link that is needed here did not need it itself. If it does so again, it may
// have more links than it can keep.
void Connector::link_down(double now, uint32_t member, const MemberTable& table, bool goodbye) {
  Link& l = link(member);
  l.up = false;
  l.broke = !goodbye;
  l.close_at = kNotOurs;
  chosen_ = false;
  const bool again = goodbye && now < l.goodbye_at + kIdle_s;
  if (goodbye) l.goodbye_at = now;
  if (table.live(member) && needs(now, member)) want(again ? now + kGoodbye_s : now, member);
}

// --- whom it needs

void Connector::exchange_with(const std::vector<uint32_t>& members) {
  for (const uint32_t member : exchange_with_)
    link(member).exchanges = false;
  exchange_with_ = members;
  for (const uint32_t member : exchange_with_)
    link(member).exchanges = true;
  chosen_ = false;
}

bool Connector::alone() const {
  return std::none_of(links_.begin(), links_.end(), [](const Link& l) { return l.up; });
}

bool Connector::needs(double now, uint32_t member) const {
  if (member >= links_.size()) return false;
  const Link& l = links_[member];
  return l.chosen || now < l.needed_until;
}

void Connector::need(double now, uint32_t member) {
  if (member == 0) return;
  Link& l = link(member);
  const bool new_need = !needs(now, member);
  l.needed_until = now + kForAWhile_s;
  l.close_at = l.needed_until + kIdle_s;
  if (!l.up && new_need) want(now, member);
}

/// It answers, for all that is known, or its link may still come.
bool Connector::is_well(double now, uint32_t member, const MemberTable& table) {
  const Link& l = links_[member];
  if (table.at(member).state != MemberState::alive) return false;
  if (l.up) return true;
  const double until = (l.wanted ? l.wanted_since : now + kOthersTurn_s) + kDialing_s;
  if (now < until) look_again_at_ = std::min(look_again_at_, until);
  return now < until;
}

/// The nodes that are always needed, as long as the same nodes are alive.
void Connector::choose(double now, const MemberTable& table) {
  chosen_ = true;
  look_again_at_ = kNotOurs;
  link(static_cast<uint32_t>(table.size() - 1));
  for (auto k = static_cast<uint32_t>(name_hashes_.size()); k < table.size(); ++k)
    name_hashes_.push_back(name_hash(table.at(k).node));
  std::vector<bool> before(links_.size());
  for (size_t k = 0; k < links_.size(); ++k)
    before[k] = std::exchange(links_[k].chosen, false);
  needed_ = 0;
  const bool all = table.live_count() <= kAllLinked + 1;
  const auto take = [&](uint32_t member) {
    if (member == 0 || !table.live(member) || needed_ >= kLinksAtMost) return;
    needed_ += !std::exchange(links_[member].chosen, true);
  };
  const auto& order = table.by_name();
  const auto self = static_cast<size_t>(std::find(order.begin(), order.end(), 0u) - order.begin());
  uint32_t drawn = 0;
  uint64_t best = 0;
  size_t well = 0, ill = 0;  // of the next ones
  for (size_t k = 1; k < order.size(); ++k) {
    const uint32_t member = order[(self + k) % order.size()];
    if (!table.live(member)) continue;
    if (all || (well <= ill && well + ill < kNextAtMost)) {
      ++(is_well(now, member, table) ? well : ill);
      take(member);
    }
    const uint64_t lot = mixed(name_hashes_[0] ^ mixed(name_hashes_[member]));
    if (lot < best && drawn != 0) continue;
    best = lot;
    drawn = member;
  }
  take(drawn);
  for (const uint32_t member : exchange_with_)
    take(member);
  for (uint32_t member = 1; member < before.size(); ++member) {
    Link& l = links_[member];
    if (l.chosen) l.close_at = kNotOurs;
    if (before[member] && !l.chosen) l.close_at = std::max(now, l.needed_until) + kIdle_s;
    if (l.chosen && !l.up && !l.wanted) want(dial_time(now, member, table), member);
  }
}

/// Links that are not needed any more, and the oldest of the others' where there are too many.
void Connector::close(double now, const MemberTable& table, std::vector<std::string>& closes) {
  std::vector<uint32_t> others;
  size_t up = 0;
  close_at_ = kNotOurs;
  for (uint32_t member = 1; member < links_.size(); ++member) {
    Link& l = links_[member];
    if (!l.up) continue;
    ++up;
    if (!table.live(member)) continue;  // it may be back before the link is gone
    if (needs(now, member)) {
      if (!l.chosen) close_at_ = std::min(close_at_, l.needed_until);
      continue;
    }
    if (l.close_at <= now) {
      l.close_at = kNotOurs;
      closes.push_back(table.at(member).node);
    } else {
      close_at_ = std::min(close_at_, l.close_at);
      others.push_back(member);
    }
  }
  if (up <= closes.size() + kLinksAtMost) return;
  const size_t spare = std::min(up - closes.size() - kLinksAtMost, others.size());
  std::sort(others.begin(), others.end(),
            [&](uint32_t a, uint32_t b) { return links_[a].up_since < links_[b].up_since; });
  for (size_t k = 0; k < spare; ++k)
    closes.push_back(table.at(others[k]).node);
}

// --- what it dials

std::optional<uint32_t> Connector::owner_of(const std::string& address,
                                            const MemberTable& table) const {
  for (const uint32_t member : wanted_) {
    if (table.at(member).address == address && table.live(member) && !links_[member].up &&
        links_[member].was_up)
      return member;
  }
  return std::nullopt;
}

void Connector::run(double now, const MemberTable& table, Random& random,
                    std::vector<std::string>& dials, std::vector<std::string>& closes) {
  if (!chosen_ || look_again_at_ <= now) {
    choose(now, table);
    due_ = now;
  }
  if (now < due_) return;
  std::erase_if(wanted_, [&](uint32_t member) {
    Link& l = links_[member];
    l.wanted = !l.up && table.live(member) && needs(now, member);
    return !l.wanted;
  });
  close(now, table, closes);
  for (const uint32_t member : wanted_) {
    Link& l = links_[member];
    if (l.dial_at > now) continue;
    l.dial_at = now + backed_off(l.wait, kLongestWait_s, random);
    dials.push_back(table.at(member).address);
  }
  const bool any = !alone();
  for (Join& j : joins_) {
    if (j.address == table.self().address) j.member = 0;
    if (has_led(j, any) || j.dial_at > now) continue;
    j.dial_at = now + backed_off(j.wait, any ? kLongestJoinWait_s : kLongestWait_s, random);
    dials.push_back(j.address);
  }
  if (redial_at_ <= now) {
    redial_at_ = now + kRedialDead_s * random.uniform(0.75, 1.25);
    redial_dead(table, random, dials);
  }
  due_ = std::min({redial_at_, close_at_, look_again_at_});
  for (const uint32_t member : wanted_)
    due_ = std::min(due_, links_[member].dial_at);
  for (const Join& j : joins_) {
    if (!has_led(j, any)) due_ = std::min(due_, j.dial_at);
  }
}

/// To this node itself, or to another that is linked: alone it tries once more, and whoever is at
/// the address now may be another.
bool Connector::has_led(const Join& join, bool any_linked) {
  return join.member && (*join.member == 0 || any_linked);
}

void Connector::redial_dead(const MemberTable& table, Random& random,
                            std::vector<std::string>& dials) {
  std::vector<uint32_t> dead;
  for (const uint32_t member : table.by_name()) {
    if (table.at(member).state == MemberState::dead) dead.push_back(member);
  }
  if (dead.empty()) return;
  const uint32_t member = dead[random.below(static_cast<uint32_t>(dead.size()))];
  if (linked(member)) {
    revisit_ = member;
  } else {
    dials.push_back(table.at(member).address);
  }
}

std::optional<uint32_t> Connector::revisit() { return std::exchange(revisit_, std::nullopt); }

}  // namespace grapevine
