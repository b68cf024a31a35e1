// PiggybackQueue: which facts are attached to the next packet. For membership.hpp. No I/O.
//
// Each record, the spec and each fact of rates and of work is sent some 3 log2(n) times after it
// was received, as many as fit a packet of kNewsBytes: first those that were sent least often, and
// of these the one that waits longest. The first log2(n) / 2 times, at least two, do not wait for a
// packet that is sent anyway (`fresh`).
#pragma once
#include <climits>
#include <cstdint>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "actors/membership/member_table.hpp"

namespace grapevine {

constexpr size_t kNewsBytes = 1200;  // of a packet, about: with the rest below one Ethernet frame

/// The approximate size of a record or a packet on the wire.
size_t wire_bytes(const Member&);
size_t wire_bytes(const RateFact&);
size_t wire_bytes(const WorkFact&);
size_t wire_bytes(const MembershipPacket&);

class PiggybackQueue {
 public:
  void member(uint32_t index) { members_.begin(index); }
  void spec() { spec_sent_ = 0; }
  void rates(MemberTable::RatePart);
  void work(uint64_t owner) { work_.begin(owner); }

  /// Fills the rest of the packet.
  void load(const MemberTable&, MembershipPacket&);
  size_t pending() const { return members_.size(); }
  /// Whether some record has not yet been sent as often as each is sent at once.
  bool fresh(const MemberTable&) const;

 private:
  /// The facts to send, in order.
  template <class Key>
  class Turns {
   public:
    struct Turn {
      int sent = 0;
      uint64_t since = 0;  // that it waits with so many: a serial number
      Key key;
      bool operator<(const Turn& other) const {
        return std::tie(sent, since) < std::tie(other.sent, other.since);
      }
    };

    void begin(const Key& key) {  // or begin anew
      const auto [at, first] = of_.try_emplace(key);
      if (!first) order_.erase(at->second);
      at->second = order_.insert({0, ++serial_, key}).first;
    }
    /// Goes through all in turn. tell() decides about each; a fact that was sent goes to the end.
    enum class Then { told, passed, over, full };
    template <class Tell>
    void each(int enough, const Tell& tell);

    size_t size() const { return order_.size(); }
    int fewest() const { return order_.empty() ? INT_MAX : order_.begin()->sent; }
    bool has(const Key& key) const { return of_.count(key) > 0; }

   private:
    std::set<Turn> order_;
    std::map<Key, typename std::set<Turn>::iterator> of_;
    uint64_t serial_ = 0;
  };

  Turns<uint32_t> members_;
  Turns<MemberTable::RatePart> rates_;
  Turns<uint64_t> work_;
  int spec_sent_ = 0;
};

}  // namespace grapevine
