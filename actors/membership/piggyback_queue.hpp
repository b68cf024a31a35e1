// PiggybackQueue: which news ride on the next packet. For membership.hpp. No I/O.
//
// Each record, the spec, the run's facts and each edge rate travel some 3 log2(n) times after they
// were heard, those that have travelled least first, as many as fit a packet of kNewsBytes.
#pragma once
#include <cstdint>
#include <utility>
#include <vector>

#include "actors/membership/member_table.hpp"

namespace grapevine {

constexpr size_t kNewsBytes = 1200;  // of a packet, about: with the rest below one Ethernet frame

/// About what a record or a packet takes on the wire.
size_t wire_bytes(const Member&);
size_t wire_bytes(const MembershipPacket&);

class PiggybackQueue {
 public:
  void member(uint32_t index);
  void spec() { spec_sent_ = 0; }
  void facts() { facts_sent_ = 0; }
  void rate(uint32_t i, uint32_t j);

  /// Fills what is left of the packet.
  void load(const MemberTable&, MembershipPacket&);
  size_t pending() const { return members_.size(); }

 private:
  struct Record {
    uint32_t index = 0;
    int sent = 0;
  };
  struct Rate {
    std::pair<uint32_t, uint32_t> edge;
    int sent = 0;
  };
  std::vector<Record> members_;
  std::vector<Rate> rates_;
  int spec_sent_ = 0, facts_sent_ = 0;
};

}  // namespace grapevine
