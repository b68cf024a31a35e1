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
// New facts are sent at once to a few nodes and then piggybacked (dissemination.hpp). Dead nodes
// are dialled at times, so the halves of a partition find each other again.
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

#include "actors/membership/believed_incarnations.hpp"
#include "actors/membership/connector.hpp"
#include "actors/membership/dissemination.hpp"
#include "actors/membership/mean_requests.hpp"
#include "actors/membership/member_table.hpp"
#include "actors/membership/membership_effects.hpp"
#include "actors/membership/next_graph.hpp"
#include "actors/membership/own_record.hpp"
#include "actors/membership/prober.hpp"
#include "actors/membership/signed_facts.hpp"
#include "actors/membership/suspicions.hpp"
#include "kernels/base/random.hpp"
#include "messages/keys.hpp"

namespace grapevine {

struct MembershipOptions {
  uint64_t seed = 1;
  std::vector<std::string> join;  // addresses of nodes to find; any live one will do
  std::string topology = "ring";  // until a node reconfigures
  uint64_t run = 1;               // hash of the run's name and job: facts of others are none
  uint32_t generation = 0;        // of the run: a resumed one has a later one
  uint64_t work_before = 0;       // gradients of the ranks here, as its checkpoint says
  Signing signing;                // all three are set
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
  void exchange_with(double now, const std::vector<uint32_t>& members, MembershipEffects&);
  /// A link with it is needed now, and for some seconds.
  void need_link(double now, const std::string& node, MembershipEffects&);
  /// An exchange with a rank of it timed out: it is probed at once.
  void suspect(double now, const std::string& node, MembershipEffects&);

  /// Of this node's own record. A change from ready to not ready is a new incarnation.
  void become(double now, bool ready, bool finished, MembershipEffects&);
  /// This node leaves, and does not return; all linked nodes are told.
  void leave(double now, MembershipEffects&);
  /// Begins at once, but after four changes in a row at all nodes one a second.
  void reconfigure(double now, const std::string& topology, MembershipEffects&);
  /// Own measurements, of edges with an end here, by edge. Told if one has moved by a twentieth.
  void rates(double now, std::span<const EdgeRate>, MembershipEffects&);

  /// Of the ranks here: the gradients that they have taken since this process began, their pace,
  /// and when they were counted. Sets the other fields, and adds work_before().
  void work(double now, WorkFact own, MembershipEffects&);
  /// The gradients that the ranks here had taken before this process began: as other nodes remember
  /// an earlier life of it, or as its checkpoint says, whichever is more.
  uint64_t work_before() const { return work_before_; }

  /// All nodes are told that the run is to stop. This cannot be taken back.
  void stop(double now, MembershipEffects&);
  /// Requests another mean: at once, or when this node may ask again.
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
  std::map<std::string_view, uint64_t> refusals() const;

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

 private:
  void begin(double now, MembershipEffects&);
  void change_graph(double now, MembershipEffects&);
  void finish(double now, MembershipEffects&);
  bool hear(double now, const std::string& from, const MembershipPacket&, MembershipEffects&);
  bool hear_of_work(const MembershipPacket&);
  void disbelieve(const std::string& from, MembershipEffects&);
  void accuse_of_lies(const std::string& node, const std::string& how, MembershipEffects&);
  void hear_of(double now, const std::string& from, const Member&, MembershipEffects&);
  bool hearsay(double now, const std::string& from, const Member&, MemberState end,
               MembershipEffects&);
  bool take_in(double now, const Member&, MembershipEffects&);
  void on_news(double now, const MemberTable::Merged&, MembershipEffects&);
  bool hear_of_end(double now, const std::string& from, uint32_t known, const Member&,
                   MembershipEffects&);
  void count_means(double now, uint32_t member, const std::optional<Member>& before,
                   MembershipEffects&);
  void meet(double now);
  void accuse(double now, uint32_t member, const std::string& why, MembershipEffects&);
  void confirm(uint32_t member, uint32_t accuser);
  void end_incarnation(double now, uint32_t member, MemberState, const std::string& why,
                       MembershipEffects&);
  void declare_dead(double now, uint32_t member, const std::string& why, MembershipEffects&);
  void carry_out(double now, ProbeResults, MembershipEffects&);
  void send(uint32_t to, MembershipPacket, MembershipEffects&);

  const std::vector<std::string> join_;
  SignedFacts facts_;
  MemberTable table_;
  Random random_;
  Connector connector_;
  Prober prober_;
  Dissemination dissemination_;
  BelievedIncarnations incarnations_;
  OwnRecord own_;
  Suspicions suspicions_;
  NextGraph next_graph_;
  MeanRequests mean_requests_;
  std::map<std::string_view, uint64_t> refusals_;
  std::set<std::string> accused_;  // of lies, in alarms
  bool met_ = false;               // another node's whole view was received, or there is no node
  uint64_t known_epoch_ = 0, measurements_ = 0;
  uint64_t work_before_ = 0;  // as told by earlier processes of this node
  double armed_at_ = 0, lonely_at_ = 0, forget_at_ = 0;
};

}  // namespace grapevine
