#include "actors/membership/dissemination.hpp"

#include <algorithm>
#include <limits>

namespace grapevine {

namespace {

using Kind = MembershipPacket::Kind;

constexpr double kTellAgain_s = 0.005;
constexpr size_t kTellAtOnce = 2;                        // nodes, of what is new
constexpr double kSync_s = 10, kSyncStranger_s = 0.5;    // between two comparisons, at most
constexpr double kQuiet_s = 0.3, kQuietOfNode_s = 1e-3;  // after news
constexpr double kViewAgain_s = 1;                       // to the same node at the earliest
constexpr size_t kViewBytes = kControlBytes / 2;
constexpr double kNever = -std::numeric_limits<double>::infinity();

}  // namespace

void Dissemination::start(double now) {
  synced_at_ = now;
  sync_gap_s_ = kSync_s;
  sync_at_ = now + kSync_s * random_.uniform(0.5, 1.5);
}

void Dissemination::timer(double now, OutgoingPackets& out) {
  if (sync_at_ > now) return;
  synced_at_ = now;
  sync_gap_s_ = std::min(2 * sync_gap_s_, kSync_s);
  const double gap_s = strangers_.empty() ? sync_gap_s_ : kSyncStranger_s;
  sync_at_ = now + gap_s * random_.uniform(0.75, 1.25);
  for (const auto& [node, dialled] : strangers_)
    send_sync(node, out);
  for (const uint32_t to : prober_.some_linked(1, 0))
    send_sync(table_.at(to).node, out);
}

void Dissemination::run(double now, OutgoingPackets& out) {
  if (!fresh_ || tell_at_ > now) return;
  tell_at_ = now + kTellAgain_s;
  const std::vector<uint32_t> some = prober_.some_linked(kTellAtOnce, 0);
  for (const uint32_t to : some) {
    MembershipPacket packet;
    packet.kind = Kind::sync_reply;
    send(to, std::move(packet), out);
  }
  fresh_ = !some.empty() && piggyback_.fresh(table_);
}

double Dissemination::next() const { return fresh_ ? std::min(sync_at_, tell_at_) : sync_at_; }

void Dissemination::member(uint32_t index, bool at_once) {
  piggyback_.member(index);
  fresh_ |= at_once;
}

void Dissemination::graph() {
  piggyback_.spec();
  fresh_ = true;
}

void Dissemination::work(uint64_t owner, bool at_once) {
  piggyback_.work(owner);
  fresh_ |= at_once;
}

void Dissemination::sync_after_news(double now) {
  sync_gap_s_ = std::max(kQuiet_s, kQuietOfNode_s * static_cast<double>(table_.live_count()));
  const double at = std::min(now + sync_gap_s_, synced_at_ + kSync_s);
  sync_at_ = strangers_.empty() ? at : std::min(at, sync_at_);
}

void Dissemination::link_up(uint32_t member) {
  if (member < told_at_.size()) told_at_[member] = kNever;
}

void Dissemination::stranger_up(double now, const std::string& node, const std::string& dialled) {
  strangers_.emplace_back(node, dialled);
  sync_at_ = std::min(sync_at_, now + kSyncStranger_s);
}

void Dissemination::stranger_down(const std::string& node) {
  std::erase_if(strangers_, [&](const auto& stranger) { return stranger.first == node; });
}

std::vector<std::string> Dissemination::introduced(const std::string& node) {
  std::vector<std::string> dialled;
  for (const auto& [stranger, address] : strangers_)
    if (stranger == node) dialled.push_back(address);
  stranger_down(node);
  return dialled;
}

// The record that a member is sent about itself; null: it is alive here.
const Member* Dissemination::told_of_itself(uint32_t member) const {
  const Member& m = table_.at(member);
  return m.state == MemberState::alive ? nullptr : &m;
}

void Dissemination::send(uint32_t to, MembershipPacket packet, OutgoingPackets& out) {
  if (packet.news.empty())
    if (const Member* told = told_of_itself(to)) packet.news.push_back(*told);
  piggyback_.load(table_, packet);
  out.push_back({table_.at(to).node, std::move(packet)});
}

void Dissemination::send_record(const std::string& to, const Member& record, OutgoingPackets& out) {
  MembershipPacket packet;
  packet.kind = Kind::sync_reply;
  packet.news.push_back(record);
  out.push_back({to, std::move(packet)});
}

void Dissemination::send_sync(const std::string& to, OutgoingPackets& out) const {
  MembershipPacket packet;
  packet.kind = Kind::sync;
  packet.sequence = table_.digest();
  packet.news.push_back(table_.self());
  if (const auto member = table_.find(to))
    if (const Member* told = told_of_itself(*member)) packet.news.push_back(*told);
  out.push_back({to, std::move(packet)});
}

void Dissemination::send_view(double now, uint32_t to, OutgoingPackets& out) {
  if (to >= told_at_.size()) told_at_.resize(to + 1, kNever);
  if (now < told_at_[to] + kViewAgain_s) return;
  told_at_[to] = now;
  const auto& order = table_.by_name();
  auto work = table_.work().begin();
  size_t done = 0;
  while (done < order.size()) {
    MembershipPacket packet;
    packet.kind = Kind::sync_reply;
    packet.graph = table_.spec();
    for (; work != table_.work().end() && packet.work.size() < kMaxWorkFacts; ++work)
      packet.work.push_back(work->second);
    size_t bytes = wire_bytes(packet);
    for (; done < order.size() && bytes < kViewBytes && packet.news.size() < kMaxNews; ++done) {
      packet.news.push_back(table_.at(order[done]));
      bytes += wire_bytes(packet.news.back());
    }
    packet.sequence = done == order.size() ? table_.digest() : 0;
    out.push_back({table_.at(to).node, std::move(packet)});
  }
}

// Both digests include the packet's facts: if they differ, one node knows what the other does not.
// The last packet of a view, and each sync, has a digest.
bool Dissemination::compare(double now, uint32_t from, const MembershipPacket& packet,
                            OutgoingPackets& out) {
  const bool whole = packet.sequence != 0;
  const bool same = packet.sequence == table_.digest();
  if (whole && !same) send_view(now, from, out);
  return whole && (same || packet.kind == Kind::sync_reply);
}

}  // namespace grapevine
