// Membership: who takes part. SWIM failure detection with Lifeguard's local health, and the news
// that ride on it, as a state machine without I/O: events in, effects out.
//
//   Das, Gupta, Motivala, "SWIM", DSN 2002. Dadgar, Phillips, Currey, "Lifeguard", DSN-W 2018.
//
// Once per period (0.2 s when all is well) a node pings one other: in turn the next one by name,
// so that everybody is pinged every two periods, and one of a shuffled round. No answer in time:
// three helpers are asked to ping it (`ping_request`); each forwards the ack or sends a nack. No
// ack at all: the node is suspected, everybody is told, and each other who finds the same shortens
// the 10 s that it has to refute, down to 5 s. Then it is dead. Time-outs follow measured round
// trips and are stretched by the node's own health: late timers, missing nacks and suspicions of
// itself lower it, so a node that is slow itself accuses nobody. A broken link is a suspicion and a
// dial; if the port refuses, the process is gone and dead at once.
//
// Facts have owners. What a node says of itself (its record: address, ranks, state of its work,
// what it asks for), what it has measured of its own edges and the graph that it wants are signed
// with its process's key (messages/facts.hpp); others carry them, and say of it only that it is
// suspect or dead. A signature is checked once, when it is new. Who passes on what nobody has
// signed is a liar: the rest of its packet is not read. Who signs two things under one number is
// named in an alarm, and the larger bytes stand everywhere. A name is the process's that has it
// until that one is over: that another has it by now is a claim of its death.
//
// Dead is final in an incarnation: whoever heard it has dropped its exchanges with that
// incarnation. A node that learns of its own death goes on in its next incarnation (`reborn`), so a
// process may begin with incarnation 1: those who remember it tell it better.
//
// What others say of a death is a suspicion until this node's own probe or link, or a second of the
// others, finds the same; who is suspected hears of it and refutes it, and who is taken for dead
// goes on in its next incarnation (own_incarnation.hpp), of which it begins few; one whose ranks
// are claimed takes others. A node believes no incarnation that has grown faster than that, and
// what it refuses is counted.
//
// Any member may change the graph, for any user may by a message to any node. So a liar may too,
// and what that costs is bounded: after four changes in a row a node makes one a second, to the
// newest graph that it has heard of; one whose version is far above the last is refused and
// counted. So with means: each member counts its own requests, eight in a row and then one each
// two seconds; those of a node that asks twice as often are ignored.
//
// News go to two others as soon as they are heard, and to two more every 5 ms until each was told
// log2(n) / 2 times; then they ride on pings and acks, some 3 log2(n) times in all. Whole views are
// compared by digest when a link comes up, and with some node every 10 s. After news that is
// sooner: once they have been quiet for 0.3 s (1 ms for each node), and again after twice as long
// each time, so that who has missed some hears of it. Dead nodes are dialled now and then, so a
// healed partition finds itself.
//
// `now` is in seconds, never decreases, and is the owner's clock. Draws come from (seed, name,
// Purpose::membership). After each call the owner carries the effects out; a packet for a node
// without a link is dropped. It knows who is linked by link_up and link_down alone.
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
  /// `self`: node, address and ranks, the key of `signing`; first_rank may be kAnyRank: given by a
  /// first contact, or 0 if there is nobody to join. Begins in incarnation max(1,
  /// self.incarnation). A process that may have had predecessors of its name begins not ready: so
  /// it can tell what they said from what it says.
  Membership(Member self, const MembershipOptions&);

  void start(double now, MembershipEffects&);
  void timer(double now, MembershipEffects&);
  void packet(double now, const std::string& from, const MembershipPacket&, MembershipEffects&);

  /// `dialled`: the address that was dialled, or that the peer says it listens on. May be repeated:
  /// for a second dial that was folded into the link, and for a dial that found this node itself.
  void link_up(double now, const std::string& node, const std::string& dialled, MembershipEffects&);
  /// `goodbye`: one end closed it, and nobody is suspected.
  void link_down(double now, const std::string& node, MembershipEffects&, bool goodbye = false);
  /// A dial was refused by the host: nobody listens there. Time-outs are not reported.
  void refused(double now, const std::string& address, MembershipEffects&);
  /// Whom the ranks here talk to, by their places in the table: until the next call.
  void talks_with(double now, const std::vector<uint32_t>& members, MembershipEffects&);
  /// A link with it is needed now, and for some seconds.
  void need_link(double now, const std::string& node, MembershipEffects&);
  /// An exchange with a rank of it timed out: it is probed at once.
  void suspect(double now, const std::string& node, MembershipEffects&);

  /// Of the own record. From ready to not ready is a new incarnation.
  void become(double now, bool ready, bool finished, MembershipEffects&);
  /// For good; tells every linked node.
  void leave(double now, MembershipEffects&);
  /// Begins at once, but after four changes in a row at all nodes one a second.
  void reconfigure(double now, const std::string& topology, MembershipEffects&);
  /// Own measurements, of edges with an end here, by edge. Told if one has moved by a twentieth.
  void rates(double now, std::span<const EdgeRate>, MembershipEffects&);

  /// Of the ranks here: gradients that they have taken since this process began, those and the ones
  /// under way, and the pace. work_before() is added.
  void work(double now, uint64_t taken, double per_second, MembershipEffects&);
  /// What the ranks here had taken before this process began: what others heard of an earlier life
  /// of it, or what its checkpoint says, whichever is more.
  uint64_t work_before() const { return work_before_; }

  /// Told to all, for good: the run is to stop.
  void stop(double now, MembershipEffects&);
  /// One mean more is wanted: asked for at once, or when this node may ask again.
  void want_mean(double now, MembershipEffects&);
  /// Of the means that are asked for, as all know it who know the same: another number with each
  /// request; 0: none was.
  uint64_t means_asked() const;
  std::vector<std::string> unheard() const;  // members that ask too often, by name

  /// Of the own record: a mean that this node has, and whom it cannot reach itself. False: more
  /// nodes than a record can name, or nobody of that name.
  void tell_mean(double now, MeanTold, MembershipEffects&);
  bool unreachable(double now, const std::string& node, bool is, MembershipEffects&);
  /// A rank here has ended, or is there again in a new incarnation (see table().self().gone).
  /// False: not a rank of this node, it is so already, or more changes than a record can tell: then
  /// the node has to leave.
  bool rank_gone(double now, uint32_t rank, MembershipEffects&);
  bool rank_returned(double now, uint32_t rank, MembershipEffects&);

  /// How much of what others said was refused, by reason.
  const std::map<std::string_view, uint64_t>& refusals() const { return refusals_; }

  const Member& self() const { return table_.self(); }
  const MemberTable& table() const { return table_; }
  std::vector<Member> members() const;  // all records by name, the node's own among them
  std::vector<Member> graph() const;    // the epoch's members, by first rank
  std::vector<EdgeRate> edge_rates() const { return table_.edge_rates(); }
  const GraphSpec& spec() const { return table_.spec(); }
  /// What the ranks of each owner have done, by its id.
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
  void settle_ranks(double now, MembershipEffects&);
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
         settle_at_ = 0, forget_at_ = 0;
};

}  // namespace grapevine
