#include "actors/membership/piggyback_queue.hpp"

#include <algorithm>
#include <bit>
#include <vector>

namespace grapevine {

namespace {

constexpr size_t kPacketBytes = 144;  // headers and an empty packet
constexpr size_t kKeyBytes = sizeof(PublicKey), kSignatureBytes = sizeof(Signature);
constexpr size_t kPendingRatesAtMost = 1024;

size_t text_bytes(const std::string& text) { return 8 + (text.size() + 8) / 8 * 8; }

size_t wire_bytes(const GraphSpec& spec) {
  return 24 + text_bytes(spec.node) + text_bytes(spec.topology) +
         (spec.version > 0 ? kKeyBytes + kSignatureBytes : 0);
}

int tellings(size_t members) { return 3 * std::bit_width(members); }

int tellings_at_once(size_t members) {
  return std::max(2, static_cast<int>(std::bit_width(members)) / 2);
}

}  // namespace

size_t wire_bytes(const Member& m) {
  return 120 + kKeyBytes + kSignatureBytes + 8 * (m.gone.size() + m.unreachable.size()) +
         text_bytes(m.node) + text_bytes(m.address);
}

size_t wire_bytes(const RateFact& fact) { return 48 + kSignatureBytes + fact.rates.size() * 16; }

size_t wire_bytes(const WorkFact&) { return 64 + kSignatureBytes; }

size_t wire_bytes(const MembershipPacket& packet) {
  size_t bytes = kPacketBytes + wire_bytes(packet.graph);
  for (const RateFact& fact : packet.rates)
    bytes += wire_bytes(fact);
  for (const WorkFact& fact : packet.work)
    bytes += wire_bytes(fact);
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

void PiggybackQueue::rates(MemberTable::RatePart part) {
  if (rates_.size() < kPendingRatesAtMost || rates_.has(part)) rates_.begin(part);
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
  work_.each(enough, [&](uint64_t owner) {
    using Then = Turns<uint64_t>::Then;
    const auto known = table.work().find(owner);
    if (known == table.work().end()) return Then::over;
    const size_t more = wire_bytes(known->second);
    if (bytes + more > kNewsBytes || packet.work.size() >= kMaxWorkFacts) return Then::full;
    bytes += more;
    packet.work.push_back(known->second);
    return Then::told;
  });
  rates_.each(enough, [&](const MemberTable::RatePart& part) {
    using Then = Turns<MemberTable::RatePart>::Then;
    const auto known = table.rates().find(part);
    if (known == table.rates().end()) return Then::over;
    const size_t more = wire_bytes(known->second);
    if (bytes + more > kNewsBytes || packet.rates.size() >= kMaxRateFacts) return Then::full;
    bytes += more;
    packet.rates.push_back(known->second);
    return Then::told;
  });
}

}  // namespace grapevine
