#include "actors/membership/piggyback_queue.hpp"

#include <algorithm>
#include <bit>

namespace grapevine {

namespace {

constexpr size_t kPacketBytes = 136;  // headers and an empty packet
constexpr size_t kRateBytes = 24;
constexpr size_t kPendingRatesAtMost = 4096;

size_t text_bytes(const std::string& text) { return 8 + (text.size() + 8) / 8 * 8; }

size_t wire_bytes(const GraphSpec& spec) {
  return 8 + text_bytes(spec.node) + text_bytes(spec.topology);
}

int tellings(size_t members) { return 3 * std::bit_width(members); }

}  // namespace

size_t wire_bytes(const Member& m) {
  return 80 + 8 * (m.gone.size() + m.unreachable.size()) + text_bytes(m.node) +
         text_bytes(m.address);
}

size_t wire_bytes(const MembershipPacket& packet) {
  size_t bytes = kPacketBytes + wire_bytes(packet.graph) + packet.rates.size() * kRateBytes;
  for (const Member& m : packet.news)
    bytes += wire_bytes(m);
  return bytes;
}

void PiggybackQueue::member(uint32_t index) {
  for (Record& r : members_) {
    if (r.index == index) return void(r.sent = 0);
  }
  members_.push_back({index, 0});
}

void PiggybackQueue::rate(uint32_t i, uint32_t j) {
  for (Rate& r : rates_) {
    if (r.edge == std::pair(i, j)) return void(r.sent = 0);
  }
  if (rates_.size() < kPendingRatesAtMost) rates_.push_back({{i, j}, 0});
}

void PiggybackQueue::load(const MemberTable& table, MembershipPacket& packet) {
  const int enough = tellings(table.live_count());
  const auto fewest_first = [](const auto& a, const auto& b) { return a.sent < b.sent; };
  if (spec_sent_ < enough) {
    ++spec_sent_;
    packet.graph = table.spec();
  }
  if (facts_sent_ < enough) {
    ++facts_sent_;
    packet.facts = table.facts();
  }
  size_t bytes = wire_bytes(packet);
  std::stable_sort(members_.begin(), members_.end(), fewest_first);
  for (Record& r : members_) {
    const Member& m = table.at(r.index);
    const bool there = std::any_of(packet.news.begin(), packet.news.end(),
                                   [&](const Member& n) { return n.node == m.node; });
    if (there) continue;
    if (!packet.news.empty() && bytes + wire_bytes(m) > kNewsBytes) break;
    bytes += wire_bytes(m);
    packet.news.push_back(m);
    ++r.sent;
  }
  std::erase_if(members_, [&](const Record& r) { return r.sent >= enough; });
  std::stable_sort(rates_.begin(), rates_.end(), fewest_first);
  for (Rate& r : rates_) {
    if (bytes + kRateBytes > kNewsBytes) break;
    const auto known = table.rates().find(r.edge);
    r.sent = known == table.rates().end() ? enough : r.sent + 1;
    if (known == table.rates().end()) continue;
    bytes += kRateBytes;
    packet.rates.push_back(known->second);
  }
  std::erase_if(rates_, [&](const Rate& r) { return r.sent >= enough; });
}

}  // namespace grapevine
