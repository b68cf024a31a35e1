// Membership: which nodes take part. SWIM failure detection with Lifeguard's local health, and the
// facts that are piggybacked on its packets, as a state machine without I/O: events in, effects
// out.
//
//   Das, Gupta, Motivala, "SWIM", DSN 2002. Dadgar, Phillips, Currey, "Lifeguard", DSN-W 2018.
//
// Once per period (0.2 s in normal operation) a node pings one other node: in turn the next one by
// name, so that every node is pinged every two periods, and one of a shuffled list. If it gets no
// answer in time, it asks three helpers to ping that node (`ping_request`); each helper forwards
// the ack or sends a nack. Without any ack the node becomes suspect, and all nodes are told. Each
// other node that suspects it too shortens the time that it has to refute, from 10 s to 5 s. Then
// it is dead. Time-outs follow measured round trips and are multiplied by the node's own health
// score. Late timers, missing nacks and suspicions of the node itself make the score worse, so a
// node that is slow itself suspects no other. A broken link makes a node suspect and is dialled
// again. If the port refuses the connection, the process is gone, and the node is dead at once.
//
// Facts have owners. A node signs with its process's key (messages/facts.hpp) its record (address,
// ranks, state of its work, requests), the rates that it has measured on its own edges, and the
// graph that it requests. Other nodes forward these facts, and say of the node only that it is
// suspect or dead. A signature is checked once, when it is new. A node that forwards facts without
// a valid signature is a liar: the rest of its packet is not read. A node that signs two different
// facts with one number is named in an alarm, and all nodes keep the larger bytes. A name belongs
// to the process that has it until that process is dead. A fact that another process has the name
// counts as a claim that the first is dead.
//
// Dead is final within an incarnation, because every node that knew of the death has dropped its
// exchanges with that incarnation. A node that learns of its own death continues with its next
// incarnation (`reborn`). So a process may start with incarnation 1: nodes that remember its
// earlier life tell it the right one.
//
// A death that others report is only a suspicion until this node's own probe or link, or a second
// node, confirms it. A suspect node learns of it and refutes it. A node that others hold for dead
// continues with its next incarnation (own_incarnation.hpp), of which it starts few; if its ranks
// are claimed by another node, it takes other ranks. A node accepts no incarnation that has grown
// faster than that, and counts what it refuses.
//
// Any member may change the graph, because any user may ask any node to. So a liar may change it
// too, and the cost of that is bounded: after four changes in a row a node makes one change a
// second, to the newest graph that it has received. A graph with a version far above the last one
// is refused and counted. Means are bounded in the same way: each member counts its own requests,
// at most eight in a row and then one every two seconds; those of a node that asks twice as often
// are ignored.
//
// A new fact is sent at once to two other nodes, and to two more every 5 ms until it was sent
// log2(n) / 2 times. Then it is piggybacked on pings and acks, some 3 log2(n) times in all. Whole
// views are compared by digest when a link opens, and with some node every 10 s. After new facts
// this happens sooner: when there were none for 0.3 s (1 ms for each node), and again after twice
// as long each time, so that a node that has missed some gets them. Dead nodes are dialled now and
// then, so the halves of a partition find each other again.
//
// `now` is in seconds, never decreases, and is the owner's clock. Random numbers come from (seed,
// name, Purpose::membership). After each call the owner carries out the effects. A packet for a
// node without a link is dropped. The membership knows the links only from link_up and link_down.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "actors/membership/connector.hpp"
#include "actors/membership/mean_pace.hpp"
#include "actors/membership/member_table.hpp"
#include "actors/membership/next_graph.hpp"
#include "actors/membership/own_incarnation.hpp"
#include "actors/membership/piggyback_queue.hpp"
#include "actors/membership/prober.hpp"
#include "actors/membership/suspicions.hpp"
#include "kernels/base/random.hpp"
#include "messages/keys.hpp"

namespace grapevine {

struct MembershipOptions {
  uint64_t seed = 1;
  std::vector<std::string> join;  // addresses of nodes to find; any live one will do
  std::string topology = "ring";  // until somebody reconfigures
  uint64_t run = 1;               // hash of the run's name and job: facts of others are none
  uint32_t generation = 0;        // of the run: a resumed one has a later one
  uint64_t work_before = 0;       // gradients of the ranks here, as its checkpoint says
  Signing signing;                // all three are set
};

struct MembershipEffects {
  struct Packet {
    std::string to;  // node
    MembershipPacket packet;
  };
  std::vector<Packet> sends;
  std::vector<std::string> dials;   // addresses; each answered by link_up, refused, or not at all
  std::vector<std::string> closes;  // nodes whose links are not needed; each answered by link_down
  double timer_at = 0;              // always set: call timer() then; replaces the earlier one
  bool changed = false;             // the epoch: spec, members, incarnations or ranks
  bool reborn = false;              // own incarnation has grown: self().incarnation
  bool ranks_moved = false;         // own ranks have: self().first_rank
  bool name_taken = false;          // by another process: this one is to end
  std::vector<std::string>
      died;  // nodes whose known incarnation has ended; drop what was open with it
  std::vector<std::pair<std::string, uint64_t>> owners;     // whose a name is now; 0: anybody's
  std::vector<std::string> lines;                           // for the log
  std::vector<std::pair<std::string, std::string>> alarms;  // a node that lies, and how; once
};

class Membership {
 public:
  /// `self`: node, address and ranks, the key of `signing`. first_rank may be kAnyRank: then the
  /// first contact gives it, or it is 0 if there is no node to join. Starts with incarnation max(1,
  /// self.incarnation). If earlier processes may have had its name, a process starts not ready, so
  /// that it can tell their records from its own.
  Membership(Member self, const MembershipOptions&);

  void start(double now, MembershipEffects&);
  void timer(double now, MembershipEffects&);
  void packet(double now, const std::string& from, const MembershipPacket&, MembershipEffects&);

  /// `dialled`: the address that was dialled, or at which the peer says that it listens. May be
  /// repeated: for a second dial that was merged into the link, and for a dial that reached this
  /// node itself.
  void link_up(double now, const std::string& node, const std::string& dialled, MembershipEffects&);
  /// `goodbye`: one end closed it, and nobody is suspected.
  void link_down(double now, const std::string& node, MembershipEffects&, bool goodbye = false);
  /// A dial was refused by the host: nobody listens there. Time-outs are not reported.
  void refused(double now, const std::string& address, MembershipEffects&);
  /// The members that the ranks here exchange with, by their places in the table: until the next
  /// call.
  void talks_with(double now, const std::vector<uint32_t>& members, MembershipEffects&);
  /// A link with it is needed now, and for some seconds.
  void need_link(double now, const std::string& node, MembershipEffects&);
  /// An exchange with a rank of it timed out: it is probed at once.
  void suspect(double now, const std::string& node, MembershipEffects&);

  /// Of this node's own record. A change from ready to not ready is a new incarnation.
  void become(double now, bool ready, bool finished, MembershipEffects&);
  /// For good; all linked nodes are told.
  void leave(double now, MembershipEffects&);
  /// Begins at once, but after four changes in a row at all nodes one a second.
  void reconfigure(double now, const std::string& topology, MembershipEffects&);
  /// Own measurements, of edges with an end here, by edge. Told if one has moved by a twentieth.
  void rates(double now, std::span<const EdgeRate>, MembershipEffects&);

  /// Of the ranks here: the gradients that they have taken since this process began, these and
  /// those under way, and the pace. work_before() is added.
  void work(double now, uint64_t taken, double per_second, MembershipEffects&);
  /// The gradients that the ranks here had taken before this process began: as other nodes remember
  /// an earlier life of it, or as its checkpoint says, whichever is more.
  uint64_t work_before() const { return work_before_; }

  /// Told to all, for good: the run is to stop.
  void stop(double now, MembershipEffects&);
  /// One mean more is wanted: asked for at once, or when this node may ask again.
  void want_mean(double now, MembershipEffects&);
  /// The number of the requested means, equal at all nodes that have received the same facts. It
  /// changes with each request; 0: none was requested.
  uint64_t means_asked() const;
  std::vector<std::string> unheard() const;  // members that ask too often, by name

  /// Of this node's own record: a mean that this node has, and the nodes that it cannot reach.
  /// False: more nodes than a record can name, or an unknown name.
  void tell_mean(double now, MeanTold, MembershipEffects&);
  bool unreachable(double now, const std::string& node, bool is, MembershipEffects&);
  /// A rank here has ended, or is back with a new incarnation (see table().self().gone). False: not
  /// a rank of this node, nothing has changed, or more changes than a record can tell: then the
  /// node has to leave.
  bool rank_gone(double now, uint32_t rank, MembershipEffects&);
  bool rank_returned(double now, uint32_t rank, MembershipEffects&);

  /// How many statements of other nodes were refused, by reason.
  const std::map<std::string_view, uint64_t>& refusals() const { return refusals_; }

  const Member& self() const { return table_.self(); }
  const MemberTable& table() const { return table_; }
  std::vector<Member> members() const;  // all records by name, the node's own among them
  std::vector<Member> graph() const;    // the epoch's members, by first rank
  std::vector<EdgeRate> edge_rates() const { return table_.edge_rates(); }
  const GraphSpec& spec() const { return table_.spec(); }
  /// The work of the ranks of each owner, by its id.
  const std::map<uint64_t, WorkFact>& work() const { return table_.work(); }
  bool stopping() const { return table_.stopping(); }
  uint64_t epoch() const { return table_.epoch(); }
  bool linked(const std::string& node) const;
  bool alone() const { return connector_.alone(); }  // no link with a member stands
  bool needs_link(double now, const std::string& node) const;
  double round_trip_s(const std::string& node) const;  // smoothed; 0: not measured yet
  size_t open_probes() const { return prober_.open(); }
  int health() const { return prober_.health(); }  // 0 is best, 8 worst: time-outs x (1 + it)
  uint64_t signatures_checked() const { return checked_; }

 private:
  struct Known {  // since when it is in the graph, and from which incarnation on; 0: it is not
    double since = 0;
    uint32_t incarnation = 0;
  };

  void sync_soon(double now);
  void begin(double now, MembershipEffects&);
  void change_graph(double now, MembershipEffects&);
  void finish(double now, MembershipEffects&);
  // what is made of what is heard
  bool hear(double now, const std::string& from, const MembershipPacket&, MembershipEffects&);
  bool holds(const Member&);
  bool holds(const GraphSpec&);
  bool holds(const PublicKey&, std::span<const std::byte>, const Signature&);
  void sign(Member&) const;
  bool hear_of_work(const MembershipPacket&);
  void disbelieve(const std::string& from, MembershipEffects&);
  void accuse_of_lies(const std::string& node, const std::string& how, MembershipEffects&);
  void hear_of(double now, const std::string& from, const Member&, MembershipEffects&);
  bool believable(double now, uint32_t member, uint32_t incarnation, bool over) const;
  bool hearsay(double now, const std::string& from, const Member&, MemberState end,
               MembershipEffects&);
  bool take_in(double now, const Member&, MembershipEffects&);
  void on_news(double now, const MemberTable::Merged&, MembershipEffects&);
  bool hear_of_end(double now, const std::string& from, uint32_t known, const Member&,
                   MembershipEffects&);
  void hear_of_self(double now, const std::string& from, const Member&, MembershipEffects&);
  void hear_of_rival(double now, const std::string& from, const Member&, MembershipEffects&);
  void count_means(double now, uint32_t member, const std::optional<Member>& before,
                   MembershipEffects&);
  void begin_contested(double now, MembershipEffects&);
  bool change_ranks(std::vector<RankGone>);
  void renew_self(Member);
  void ask_for_mean(double now);
  void begin_incarnation(Member, uint32_t incarnation, const std::string& why, MembershipEffects&);
  void resolve_ranks(double now, MembershipEffects&);
  void accuse(double now, uint32_t member, const std::string& why, MembershipEffects&);
  void confirm(uint32_t member, uint32_t accuser);
  void end_incarnation(double now, uint32_t member, MemberState, const std::string& why,
                       MembershipEffects&);
  void declare_dead(double now, uint32_t member, const std::string& why, MembershipEffects&);
  // what is told
  void carry_out(double now, ProbeResults, MembershipEffects&);
  void send(uint32_t to, MembershipPacket, MembershipEffects&);
  void send_record(uint32_t to, uint32_t member, MembershipEffects&);
  std::optional<Member> said_of(uint32_t member) const;
  void send_sync(const std::string& to, MembershipEffects&);
  void send_view(double now, uint32_t to, MembershipEffects&);
  void on_view(double now, uint32_t from, const MembershipPacket&, MembershipEffects&);
  MembershipOptions options_;
  MemberTable table_;
  Random random_;
  Connector connector_;
  PiggybackQueue piggyback_;
  Prober prober_;
  Suspicions suspicions_;
  std::vector<Known> known_;  // by member
  std::map<std::string_view, uint64_t> refusals_;
  MeanPace own_means_;
  std::map<uint32_t, MeanCount> means_of_;  // by member
  std::vector<uint32_t> too_often_;         // whose requests are not counted
  std::set<std::string> accused_;           // of lies, in alarms
  GraphSpec judged_;                        // the last one whose signature has held
  uint64_t checked_ = 0;
  NextGraph next_graph_;
  OwnIncarnation own_incarnation_;
  std::vector<double> told_at_;  // by member: our whole view, since its link came up
  std::vector<std::pair<std::string, std::string>> strangers_;  // linked, no record yet; dialled
  bool fresh_ = false;                                          // something is to be told at once
  bool mean_wanted_ = false;
  bool met_ = false;         // somebody's whole view was heard, or there is nobody
  bool ranks_went_ = false;  // of somebody, out of the graph or elsewhere
  uint64_t known_epoch_ = 0, measurements_ = 0;
  uint64_t work_before_ = 0;  // what earlier lives had told
  double armed_at_ = 0, sync_at_ = 0, synced_at_ = 0, sync_gap_s_ = 0, tell_at_ = 0, lonely_at_ = 0,
         resolve_at_ = 0, forget_at_ = 0;
};

}  // namespace grapevine
