// TopologyManager: the actor that keeps a node's graph, rates and constants, with one epoch per
// change.
//
// An epoch is only (spec, members). It comes as a roster from the owner of the membership, at any
// time, also while exchanges are in flight. The graph is a pure function of it, so managers that
// know the same members have the same graph. There is no barrier: an exchange ends with the
// constants with which it was opened. The node tells the manager the actors of the ranks here.
// Without ranks here, the manager sends nothing and computes no constants.
//
// The constants follow the measured rates: per edge (count + 10) / (time + 10 / wanted), over a
// sliding window. The manager computes them again when a rate has changed by a tenth; in a run of
// several processes, by 4 %. There the nodes of both ends measure an edge, and membership combines
// the two values, so all nodes use the same rates. A rate is clamped to between a hundredth of the
// wanted rate and a hundred times it. With the paper's pairing the rates are the wanted ones.
//
// A spectrum is never computed in a handler: the compute pool computes it, one at a time. Until it
// is there, a new epoch uses the last constants, and plain averaging before the first. If a
// spectrum cannot be computed, nothing changes.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "actors/algorithms/a2cid2_constants.hpp"
#include "actors/clocks/run_clock.hpp"
#include "actors/compute/compute.hpp"
#include "actors/mail/mail_node.hpp"
#include "actors/settings/settings.hpp"
#include "topologies/spectrum_cache.hpp"
#include "topologies/topology.hpp"
#include "topologies/weights.hpp"

namespace grapevine {

struct ManagerDependencies {
  RunClock clock;
  std::shared_ptr<const Settings> settings;
  std::shared_ptr<Compute> compute;
  // Expected mean time between two steps of a rule, of inner_steps gradients each.
  double step_s = 1;
  bool step_is_known = true;  // false (scripts, devices): step_s is a guess without weight
  std::vector<ObserverActor> observers;
  MembershipActor membership;  // gets the constants and the rates measured here
  std::shared_ptr<SpectrumCache> spectra;
};

/// The graph of a spec. If the spec does not fit that many ranks (an exponential graph of 15), a
/// ring replaces it.
Topology graph_of(const std::string& spec, int ranks, double rate);

struct Solved {
  uint64_t serial = 0;        // of the request: the answer to an older one is dropped
  std::vector<double> rates;  // per edge, of the request
  bool found = false;
  double chi1 = 0, chi2 = 0;
  A2cid2Constants constants;
};

class TopologyManager final : public TopologyManagerActor::base {
 public:
  TopologyManager(caf::actor_config& config, ManagerDependencies deps);

 protected:
  behavior_type make_behavior() override;
  void on_exit() override;

 private:
  struct Member {
    CommunicatorActor communicator;
    WorkerActor worker;
    uint32_t incarnation = 0;
    bool in_graph = false;
  };
  using Members = std::vector<std::pair<int, Member>>;  // by rising rank
  static Member& member_of(Members&, int rank);         // a new one if there was none
  Member& member_of(int rank) { return member_of(members_, rank); }

  struct Asked {
    int rank;
    CommunicatorActor communicator;
    WorkerActor worker;
  };
  struct Measured {  // events over a sliding window
    double count = 0, time_s = 0;
    uint64_t seen = 0;
    void add(uint64_t total, double elapsed_s, double window_s);
    double rate(double expected,
                double prior) const;  // (count + prior) / (time + prior / expected)
  };

  void begin_epoch(uint64_t epoch);
  void on_roster(const Roster&);
  void on_ranks_here(const std::vector<RankActors>&);
  void on_heard_rates(const std::vector<EdgeRate>&);
  void tell_rates();
  void weigh();
  void solve(std::vector<double> rates);
  void solve_next();
  void on_solved(const Solved&);
  void tell_constants();
  void publish();
  ViewPtr view_of(int place);
  void renew();
  void ask_some();
  void wait_to_renew();
  void on_reports();
  std::optional<size_t> edge_of(const EdgeRate&) const;
  std::vector<double> measured_rates() const;  // per edge
  double step_rate(const Measured&) const;
  std::vector<double> step_rates() const;  // per place in the graph
  std::vector<double> renewed_step_rates();
  bool measures() const;

  ManagerDependencies deps_;
  std::string spec_;
  double step_s_;  // measured: mean time between two steps of a rule
  uint64_t epoch_ = 0, serial_ = 0;
  Members members_;         // ranks of other processes have no actors
  std::vector<int> ranks_;  // of this epoch: place in the graph -> rank
  Topology graph_;
  std::vector<int> colours_;
  std::vector<double> wanted_, solved_rates_, next_rates_;  // per edge
  GossipMatrix weights_;
  double relay_delay_ = 0;  // mean over pairs and trees
  Solved solved_;           // the last that was found; before that: plain averaging
  double solved_at_s_ = 0;
  bool solving_ = false;    // a spectrum is being computed
  bool told_ = false;       // the ranks here know this epoch
  uint64_t announced_ = 0;  // the last epoch that observers know
  bool renewing_ = false;
  double epoch_at_s_ = 0, renewed_at_s_ = 0;
  size_t awaited_reports_ = 0;
  std::vector<Asked> to_ask_;  // in the present renewal; the next one is last
  double elapsed_s_ = 0;       // of the present renewal
  std::map<std::pair<int, int>, Measured> edges_;
  std::vector<double> heard_;  // per edge, exchanges per second; 0 or empty: unknown
  std::map<int, Measured> steps_;
};

}  // namespace grapevine
