// Dissemination: what this node tells which other node, and when. For membership.hpp. No I/O: it
// appends packets to a list.
//
// A new fact is sent at once to two linked nodes, and to two more every 5 ms until it was sent
// log2(n) / 2 times. Then it is piggybacked on other packets (piggyback_queue.hpp). A member that
// is suspect or dead here is told so in every packet to it.
//
// Nodes compare what they know by digest (`sync`): when a link opens, and with some node every
// 10 s. After new facts this happens sooner: when there were none for 0.3 s (1 ms for each node),
// and again after twice as long each time, so that a node that has missed some gets them. Where
// the digests differ, the whole view is sent, to the same node at most once a second. A linked node
// without a record is a stranger: it is sent a sync twice a second until its record comes.
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "actors/membership/member_table.hpp"
#include "actors/membership/piggyback_queue.hpp"
#include "actors/membership/prober.hpp"
#include "kernels/base/random.hpp"

namespace grapevine {

struct OutgoingPacket {
  std::string to;  // node
  MembershipPacket packet;
};
using OutgoingPackets = std::vector<OutgoingPacket>;

class Dissemination {
 public:
  /// All three outlive it.
  Dissemination(const MemberTable& table, Prober& prober, Random& random)
      : table_(table), prober_(prober), random_(random) {}
  Dissemination(const Dissemination&) = delete;
  Dissemination& operator=(const Dissemination&) = delete;

  void start(double now);
  /// Compares with some node and all strangers if that is due.
  void timer(double now, OutgoingPackets&);
  /// Sends new facts at once if that is due.
  void run(double now, OutgoingPackets&);
  double next() const;

  // New facts. Those `at_once` do not wait for a packet that is sent anyway.
  void member(uint32_t index, bool at_once = true);
  void graph();
  void rates(MemberTable::RatePart part) { piggyback_.rates(part); }
  void work(uint64_t owner, bool at_once);
  /// Another node has told a new record: a comparison follows once there are no more.
  void sync_after_news(double now);
  void sync_now(double now) { sync_at_ = now; }

  void link_up(uint32_t member);
  void stranger_up(double now, const std::string& node, const std::string& dialled);
  void stranger_down(const std::string& node);
  /// The stranger has a record now. Returns the addresses at which it was dialled.
  std::vector<std::string> introduced(const std::string& node);

  void send(uint32_t to, MembershipPacket, OutgoingPackets&);
  /// The record alone: to a suspect its own, so that it can refute the suspicion.
  static void send_record(const std::string& to, const Member& record, OutgoingPackets&);
  void send_sync(const std::string& to, OutgoingPackets&) const;
  /// A sync or a view has come, and its facts are merged: a different view is answered by one's
  /// own. True: the sender has told all that it knows.
  bool compare(double now, uint32_t from, const MembershipPacket&, OutgoingPackets&);

 private:
  const Member* told_of_itself(uint32_t member) const;
  void send_view(double now, uint32_t to, OutgoingPackets&);

  const MemberTable& table_;
  Prober& prober_;
  Random& random_;
  PiggybackQueue piggyback_;
  bool fresh_ = false;  // a fact is to be sent at once
  double tell_at_ = 0;
  double sync_at_ = 0, synced_at_ = 0, sync_gap_s_ = 0;
  std::vector<double> told_at_;  // by member: the whole view, since its link came up
  std::vector<std::pair<std::string, std::string>> strangers_;  // node and address dialled
};

}  // namespace grapevine
