// PiggybackQueue: which news ride on the next packet. For membership.hpp. No I/O.
//
// Each record, the spec and each fact of rates and of work travel some 3 log2(n) times after they
// were heard, as many as fit a packet of kNewsBytes: those that have travelled least first, of
// these the one that waits longest. The first tellings, log2(n) / 2 and two at least, do not wait
// for a packet that goes anyway (`fresh`).
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

/// About what a record or a packet takes on the wire.
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

  /// Fills what is left of the packet.
  void load(const MemberTable&, MembershipPacket&);
  size_t pending() const { return members_.size(); }
  /// Whether some record has not been told as often as each is at once.
  bool fresh(const MemberTable&) const;

 private:
  /// What is to be told, in the order in which it is.
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
    /// Goes through all by turns. tell() says what becomes of each; who was told waits anew.
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
