// SimulatedCluster: whole nodes, as `grapevine node` has them, in one seeded virtual time:
// cluster agents, topology managers, states, communicators, workers, and links that break
// (simulated_links.hpp).
//
// Every process is an actor system of its own on the clock of all, so a stopped one stands still
// with all its actors and its timers are late when it goes on.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "actors/clocks/virtual_clock.hpp"
#include "actors/run/spawn_node.hpp"
#include "tests/cluster/simulated_links.hpp"
#include "tests/device/nccl_world.hpp"
#include "tests/device/run_device.hpp"
#include "topologies/spectrum_cache.hpp"

namespace grapevine::test {

/// Each rank pulls in a direction of its own, everywhere the same: whatever the ranks exchange, the
/// sum of all models is known from how many steps each has taken.
class Slopes final : public Objective {
 public:
  explicit Slopes(size_t size) : layout_(ParameterLayout::flat(size, DType::f64)) {}

  const ParameterLayout& layout() const override { return layout_; }
  void initial_point(int rank, Vec x) const override;
  double gradient(int thread, int rank, uint64_t index, ConstVec x, Vec g) override;
  Evaluation evaluate(int, int, ConstVec) override { return {}; }
  uint64_t gradients_per_pass(int) const override { return 0; }
  std::string description() const override { return "slopes"; }
  Status save_model(const std::string&, ConstVec) override { return Done{}; }
  const ParameterLayout& statistics() const override { return statistics_; }
  void read_statistics(int rank, Vec out) const override;  // {1, rank, rank^2}

 private:
  ParameterLayout layout_;
  ParameterLayout statistics_ = ParameterLayout::flat(3, DType::f32);
};

struct RankEnd {  // of a rank whose node has drained, or was killed
  int rank = 0;
  uint64_t gradients = 0;
  std::vector<double> sum;  // x + x~; 2 x where there is no twin
};

/// The ranks' x + x~ at their end, and its expected value from their start and their steps.
struct Account {
  int ranks = 0;
  std::vector<double> sum, expected, magnitude;  // by number; what rounding is measured by
  std::string unseen;                            // a rank that nobody saw begin

  /// The largest difference, by its magnitude.
  double is_off() const;
};

class SimulatedCluster {
 public:
  struct Process {
    std::unique_ptr<testing::RunDevice> device;  // null: its ranks live in the host's memory
    int host = 0;
    std::string name;
    std::unique_ptr<VirtualConfig> config;
    std::unique_ptr<caf::actor_system> system;
    VirtualScheduler* scheduler = nullptr;
    std::shared_ptr<Links> links;
    SpawnedNode node;
    bool alive = true, stopped = false, leaving = false;
    double begun_s = 0;
    std::optional<Outcome> outcome;  // of its ranks
    NodeReport last_words;           // of a process that was killed before that
    std::optional<ClusterEnding> ending;
    std::vector<RankEnd> ranks;  // at the end, or at the moment of its death
    // By place: what a rank had when it began, and whenever it went on under another number.
    std::map<int, std::vector<RankEnd>> begun;
    NodeStatus status;  // the last that it told
    double status_at_s = -1;
    std::vector<std::string> lines;
  };

  SimulatedCluster(NetworkModel, uint64_t seed);
  ~SimulatedCluster();
  /// The ranks of processes from now on live on devices, one of each process, that are late, and
  /// reach each other's memory.
  void use_devices(uint64_t seed);
  testing::AdverseWorld& devices() { return *devices_; }
  testing::NcclWorld& nccl() { return *nccl_; }  // theirs, of those whose link it is

  /// A new process, with its name and address from `host`, which joins those on other hosts.
  int start(int host, Settings, int first_rank, int total_ranks, std::vector<int> join_hosts);
  void kill(int process);
  void stop(int process);
  void go_on(int process);
  void leave(int process);                                        // as Ctrl+C
  void ask(int process, ConsoleVerb, std::string argument = {});  // see status, answers()

  void run(double until_s);
  double now() const { return network_->now(); }
  SimulatedNetwork& network() { return *network_; }
  int count() const { return static_cast<int>(processes_.size()); }
  Process& at(int process) { return *processes_[static_cast<size_t>(process)]; }
  bool running(int p) { return at(p).alive && !at(p).stopped && !at(p).ending; }
  uint64_t fired() const { return clock_->fired(); }
  uint64_t log_hash() const;
  const std::vector<std::string>& answers() const { return answers_; }

  /// Adds the ranks of a process that has drained, or was killed, to an account of all.
  void add_up(int process, const Settings&, Account&) const;

  static std::string name_of(int host) { return "n" + std::to_string(100 + host); }
  static std::string address_of(int host) { return "h:" + std::to_string(10000 + host); }

 private:
  void run_ready();
  void hurry(Process&);
  void bury(Process&);
  void collect(int process);
  void collect_rank(int process, int rank, std::vector<RankEnd>& into);

  std::shared_ptr<DeviceShare> place_on_device(Process&, const Settings&);
  void let_devices_work();

  std::unique_ptr<testing::AdverseWorld> devices_;
  std::unique_ptr<testing::NcclWorld> nccl_;
  std::shared_ptr<VirtualClock> clock_;
  VirtualConfig world_config_;
  caf::actor_system world_;
  std::unique_ptr<SimulatedNetwork> network_;
  std::set<int> ready_;  // processes of which an actor is
  std::vector<std::unique_ptr<Process>> processes_;
  std::vector<std::string> answers_;  // of consoles, but status
  std::shared_ptr<Objective> objective_;
  std::shared_ptr<SpectrumCache> spectra_ = std::make_shared<SpectrumCache>();
};

/// Of a run that trains until it is stopped, a gradient in a tenth of a second.
Settings endless(const std::string& method, const std::string& topology, int ranks, int here);
/// That many hosts, the first of which the others join, each with as many ranks; and 3 s.
void found(SimulatedCluster&, int hosts, const Settings&);

}  // namespace grapevine::test
