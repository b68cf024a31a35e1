// Gateway: the actor between a process and the others of its run. It owns the membership and the
// way in and out: it joins, tells the topology manager each new roster, tells its links whom to
// reach, answers consoles, and at the end trades means with everybody.
//
// Nobody is first among nodes: each decides by what it knows, and all that know the same decide the
// same. A node that is awaited in vain costs the others one deadline.
//
//   joining    until it has ranks and knows whether others train already
//   fetching   others train already: their state, for the ranks here to begin with
//   training   its ranks are in the graph
//   ending     all ranks of the run have done their share: the ones here drain
//   trading    the mean of the ranks here has gone to all, theirs are awaited
//   left       the membership knows that it goes; the links stay until all have theirs
//
// A node that is told to leave drains and goes while the others train on: it trades no means.
#pragma once
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "actors/cluster/gateway_dependencies.hpp"
#include "actors/cluster/gateway_mail.hpp"

namespace grapevine {

class Gateway final : public GatewayActor::base {
 public:
  Gateway(caf::actor_config& config, GatewayDependencies deps);

 protected:
  behavior_type make_behavior() override;
  void on_exit() override;

 private:
  enum class Phase { joining, fetching, training, ending, trading, left };
  struct Share {
    Payload mean;
    int ranks = 0;
  };

  using Mean = std::pair<std::shared_ptr<const Buffer>, int>;  // and of how many ranks

  template <class Mail>
  void again(Mail mail);
  /// Tells the membership, carries out what it wants, and considers what follows.
  void handle(const std::function<void(Membership&, MembershipEffects&)>& event);
  void carry_out(MembershipEffects&);
  void arm(double at);
  void new_roster();
  void tell_rates();
  void consider();
  bool all_finished() const;
  bool alone() const;  // no link stands
  void name_taken();
  void on_said(Said&);
  void on_parcel(ParcelCame&);
  void take_mean(ParcelCame&, const MeanPiece&);
  void on_tick();
  void muster(double now);
  void train(Donation);
  void trade();
  bool awaits_means(double now);
  void leave();
  void tell_what_leaving_changes();
  void hand_over();
  void inherit(ParcelCame&);
  void on_receipt(const std::string& node, const MassReceipt&);
  void settle_inheritances();
  void departed(const std::string& node);
  void record(Departure);
  void suspect(int rank);
  Result<std::string> reconfigure(const std::string& topology);
  int donor_of(int rank) const;
  void fetch();
  void fetching(const std::function<void(Fetcher&, FetcherEffects&)>& event);
  void donating(const std::function<void(Donor&, DonorEffects&)>& event);
  void take_for(const DonorEffects::Take&);
  void send_piece(const DonorEffects::Piece&);
  /// `others` by node, so that all add up in the same order.
  Mean together(const Buffer& own, int ranks, const std::map<std::string, Share>& others) const;
  void conclude();
  void fail(Error);
  void say(const std::string& line);
  void note(const std::string& line);  // for consoles alone
  void turned_away(const TurnedAway&);
  void bulk_ended(const BulkEnded&);
  void follow(uint64_t console);
  void answer(const Asked&);
  void answer_status(uint64_t console);
  void inject(uint64_t console, const std::string& plan);
  void take_snapshot(double patience_s, std::function<void()> then);
  void snapshot(uint64_t console);
  void snapshot_done();
  void give_mean(const std::string& to, uint64_t transfer);
  template <class Then>
  void mean_here(Then then);  // of the ranks here, now: then(mean, ranks)
  void ask_states(std::function<void(std::vector<StateReport>)> then);
  void send_mean(const Member& to, uint64_t transfer, const Buffer& mean, int ranks);
  void reply(uint64_t console, bool ok, std::string text);

  GatewayDependencies deps_;
  GatewayStart parts_;
  std::optional<Membership> membership_;
  Phase phase_ = Phase::joining;
  bool met_ = false;  // somebody
  bool share_done_ = false, leaving_ = false, stopping_ = false;
  std::string why_nobody_;      // of the last dial that failed
  double deadline_s_ = kNever;  // of the phase
  double ask_means_at_s_ = kNever;
  double muster_until_s_ = kNever;
  double armed_s_ = kNever, wanted_s_ = kNever;
  uint64_t roster_epoch_ = 0;
  EpochInfo epoch_;
  RunEnded own_;
  std::map<std::string, Share> shares_;  // of the others
  std::set<std::string> gone_;           // heard at the end
  struct Snapshot {
    std::function<void()> then;  // null: none is being taken
    uint64_t transfer = 0;
    double deadline_s = 0;
    size_t awaited = 0;
    Mean own;
    std::map<std::string, Share> shares;
  } snapshot_;
  Donor donor_;
  std::optional<Fetcher> fetcher_;
  double donor_due_s_ = kNever, fetcher_due_s_ = kNever;
  std::deque<std::string> events_;
  std::set<uint64_t> followers_;  // consoles that hear of each event
  int graph_ranks_ = 0;
  std::string heir_;                      // that has not confirmed what it was handed
  std::vector<ParcelCame> inheritances_;  // of nodes that have not left yet
  NodeStatus told_;  // what is counted here for consoles: departures, turned_away, suspects
};

}  // namespace grapevine
