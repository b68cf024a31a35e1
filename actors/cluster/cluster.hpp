// Cluster: the actor that connects a process with the others of its run. It owns the membership,
// answers probes, and does nothing else that takes time.
//
// It passes events to its state machines (membership.hpp, run_lifecycle.hpp, mean_orders.hpp,
// departures.hpp) and carries out their effects: rosters go to the topology manager, links are
// dialled, the ranks here start and end. The transfers actor handles data as large as the model;
// the console server handles consoles.
#pragma once
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "actors/clocks/next_timer.hpp"
#include "actors/clocks/run_clock.hpp"
#include "actors/cluster/cluster_mail.hpp"
#include "actors/cluster/departures.hpp"
#include "actors/cluster/mean_orders.hpp"
#include "actors/cluster/missed_nodes.hpp"
#include "actors/cluster/pace.hpp"
#include "actors/cluster/run_lifecycle.hpp"
#include "actors/settings/alarm.hpp"
#include "actors/settings/settings.hpp"
#include "actors/transport/link_transport.hpp"

namespace grapevine {

/// The result of a node at its end.
struct ClusterEnding {
  std::optional<Error> failure;
  MeanPtr mean;  // over all ranks; null: no ranks were left, or it could not be computed
  int nodes = 0;
  std::vector<std::string> missing;  // nodes that may not have the same mean
  std::vector<std::string> lost;     // nodes that do not answer: dead, stopped or cut off
  std::vector<std::string> left;     // nodes that left while others trained and did not come back
  std::vector<Departure> departures;
  bool drained = false;  // somebody asked this node alone to leave
  bool stopped = false;  // drained, and no other node continues the run
  double mass_lost = 0;  // the weight (push-sum) of the ranks here, which have left the others
};

struct ClusterDependencies {
  RunClock clock;
  std::shared_ptr<const Settings> settings;
  std::shared_ptr<LinkTransport> transport;
  Member self;
  MembershipOptions membership;
  LifecycleOptions lifecycle;
  std::function<void(const std::string&)> say;
  std::function<void(const Alarm&)> alarm;
  std::function<void(ClusterEnding)> done;  // called once
};

class Cluster final : public ClusterActor::base {
 public:
  Cluster(caf::actor_config& config, ClusterDependencies deps);

 protected:
  behavior_type make_behavior() override;
  void on_exit() override;

 private:
  static constexpr double kView_s = 0.02;  // the transfers get the members at most this often

  template <class Mail>
  void again(Mail mail);
  /// Tells the membership, carries out its effects, and considers what follows.
  void handle(const std::function<void(Membership&, double now, MembershipEffects&)>& event);
  /// The same, for one event of Membership with its arguments.
  template <class... Given>
  void tell(auto event, const Given&... given);
  void carry_out(MembershipEffects&);
  void consider();
  void carry_out(const LifecycleEffects&);
  void arm(double at);
  void on_tick();
  void publish_what_is_due();
  void new_roster();
  void talk_with(const std::vector<MemberTable::Place>&, const std::string& topology);
  void tell_members();
  void begin();
  void count_lost_weight();
  void fetch();
  void fetch_from_somebody();
  void need_links(const std::vector<std::string>& nodes);
  void conclude();
  void on_start(ClusterStart&);
  void on_link(LinkUp&);
  void on_link(LinkDown&);
  void on_link(DialFailed&);
  void on_heard(Heard&);
  void on_ranks(ShareDone);
  void tell_work();
  void on_ranks(RunEnded&);
  void on_ranks(RankLost);
  int neighbour_of(int rank) const;
  bool somebody_else() const;  // is alive; REQUIRES: it has begun
  void name_taken();
  void on_transfers(StateCame&);
  void on_transfers(const CannotReach&);
  void on_transfers(const LeftOut&);
  void on_transfers(const LeavingMeasured&);
  caf::result<MeanResult> on_wanted(WantMean);
  Result<std::string> reconfigure(const std::string& topology);
  void tell_rates();
  void rates_have_come();
  void suspect(int rank);
  bool takes_part() const;
  void want_mean();
  void begin_wanted_mean();
  void begin_mean(BeginMean);
  void on_mean(MeanResult&);
  NodeStatus status() const;
  void ended(const std::string& node);
  void departed(const std::string& node);
  void record(Departure);
  void raise(const std::string& liar, const std::string& how);
  void raise(const Alarm&);
  void say(const std::string& line);

  ClusterDependencies deps_;
  ClusterStart parts_;
  std::optional<Membership> membership_;
  RunLifecycle lifecycle_;
  RankStatePtr fetched_;
  RunEnded ended_;
  std::vector<std::string> expected_;  // nodes in the graph when the end began
  MissedNodes missed_;
  ClusterEnding ending_;
  MeanOrders orders_;
  std::deque<caf::typed_response_promise<MeanResult>> wanted_;  // consoles that wait for a mean
  std::set<std::string> cut_;    // nodes that this one reported as unreachable
  std::set<std::string> liars_;  // nodes of an alarm about a mean
  bool stops_ = false;           // the whole run
  NextTimer timer_;
  Pace rosters_, rates_;           // of what is published here
  Pace views_{kView_s};            // of the members, for the transfers
  double fetch_until_s_ = kNever;  // a link for fetching is dialled until then
  uint64_t roster_epoch_ = 0, told_digest_ = 0;
  int graph_ranks_ = 0;
  Departures departures_;
  uint64_t suspects_ = 0;
};

}  // namespace grapevine
