#include "actors/membership/piggyback_queue.hpp"

#include <algorithm>
#include <bit>
#include <vector>

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

int tellings_at_once(size_t members) {
  return std::max(2, static_cast<int>(std::bit_width(members)) / 2);
}

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

template <class Key>
template <class Tell>
void PiggybackQueue::Turns<Key>::each(int enough, const Tell& tell) {
  std::vector<typename std::set<Turn>::node_type> told;
  for (auto at = order_.begin(); at != order_.end();) {
    const Then then = tell(at->key);
    if (then == Then::full) break;
    const auto here = at++;
    if (then == Then::passed) continue;
    if (then == Then::told && here->sent + 1 < enough) {
      told.push_back(order_.extract(here));
    } else {
      of_.erase(here->key);
      order_.erase(here);
    }
  }
  for (auto& turn : told) {  // once all have had theirs
    ++turn.value().sent;
    turn.value().since = ++serial_;
    const Key key = turn.value().key;
    of_[key] = order_.insert(std::move(turn)).position;
  }
}

void PiggybackQueue::rate(uint32_t i, uint32_t j) {
  if (rates_.size() < kPendingRatesAtMost || rates_.has({i, j})) rates_.begin({i, j});
}

bool PiggybackQueue::fresh(const MemberTable& table) const {
  return members_.fewest() < tellings_at_once(table.live_count());
}

void PiggybackQueue::load(const MemberTable& table, MembershipPacket& packet) {
  const int enough = tellings(table.live_count());
  if (spec_sent_ < enough) {
    ++spec_sent_;
    packet.graph = table.spec();
  }
  if (facts_sent_ < enough) {
    ++facts_sent_;
    packet.facts = table.facts();
  }
  size_t bytes = wire_bytes(packet);
  const size_t there_before = packet.news.size();
  members_.each(enough, [&](uint32_t index) {
    using Then = Turns<uint32_t>::Then;
    const Member& m = table.at(index);
    for (size_t k = 0; k < there_before; ++k)
      if (packet.news[k].node == m.node) return Then::passed;
    const size_t more = wire_bytes(m);
    if (!packet.news.empty() && bytes + more > kNewsBytes) return Then::full;
    bytes += more;
    packet.news.push_back(m);
    return Then::told;
  });
  rates_.each(enough, [&](const std::pair<uint32_t, uint32_t>& edge) {
    using Then = Turns<std::pair<uint32_t, uint32_t>>::Then;
    if (bytes + kRateBytes > kNewsBytes) return Then::full;
    const auto known = table.rates().find(edge);
    if (known == table.rates().end()) return Then::over;
    bytes += kRateBytes;
    packet.rates.push_back(known->second);
    return Then::told;
  });
}

}  // namespace grapevine
