#include "actors/membership/connector.hpp"

#include <algorithm>
#include <limits>

namespace grapevine {

namespace {

constexpr double kFirstWait_s = 0.05;
constexpr double kLongestWait_s = 5;
constexpr double kLongestJoinWait_s = 30;  // where others are linked: it may be one of these
constexpr double kOthersTurn_s = 0.5;      // the one with the higher name lets the other dial
constexpr double kRedialDead_s = 3;

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
  if (!l.wanted) wanted_.push_back(member);
  l.wanted = true;
  due_ = std::min(due_, at);
}

void Connector::born(double now, uint32_t member, const MemberTable& table) {
  Link& l = link(member);
  l.was_up = l.up;
  const bool first = table.self().node < table.at(member).node;
  if (!l.up && member != 0) want(first ? now : now + kOthersTurn_s, member);
}

void Connector::link_up(uint32_t member, const std::string& dialled) {
  for (Join& j : joins_) {
    if (!dialled.empty() && j.address == dialled) j.member = member;
  }
  if (member == 0) return;
  link(member).up = link(member).was_up = true;
}

void Connector::link_down(double now, uint32_t member, const MemberTable& table) {
  link(member).up = false;
  if (table.live(member)) want(now, member);
}

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
                    std::vector<std::string>& dials) {
  if (now < due_) return;
  std::erase_if(wanted_, [&](uint32_t member) {
    Link& l = links_[member];
    l.wanted = !l.up && table.live(member);
    return !l.wanted;
  });
  for (const uint32_t member : wanted_) {
    Link& l = links_[member];
    if (l.dial_at > now) continue;
    l.dial_at = now + backed_off(l.wait, kLongestWait_s, random);
    dials.push_back(table.at(member).address);
  }
  const bool any = std::any_of(links_.begin(), links_.end(), [](const Link& l) { return l.up; });
  for (Join& j : joins_) {
    if (j.address == table.self().address) j.member = 0;
    if (j.member || j.dial_at > now) continue;
    j.dial_at = now + backed_off(j.wait, any ? kLongestJoinWait_s : kLongestWait_s, random);
    dials.push_back(j.address);
  }
  if (redial_at_ <= now) {
    redial_at_ = now + kRedialDead_s * random.uniform(0.75, 1.25);
    redial_dead(table, random, dials);
  }
  due_ = redial_at_;
  for (const uint32_t member : wanted_)
    due_ = std::min(due_, links_[member].dial_at);
  for (const Join& j : joins_) {
    if (!j.member) due_ = std::min(due_, j.dial_at);
  }
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
