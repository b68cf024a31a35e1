// Scenario: one seed's run of whole nodes on the virtual clock: who there is, what they train and
// how, what goes wrong for fifteen seconds, and what must be so afterwards. The first broken
// promise is kept in complaint().
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tests/cluster/simulated_cluster.hpp"

namespace grapevine::test {

class Scenario {
 public:
  /// On devices: each process has one, they reach each other's memory, and payloads go by `link`.
  explicit Scenario(uint64_t seed, std::optional<DeviceLink> on_devices = {});

  /// To the end of the run at all nodes, or to the first complaint.
  void run();

  std::string name() const;  // what was drawn
  const std::string& complaint() const { return complaint_; }
  uint64_t log_hash();
  double virtual_s() const { return cluster_.now(); }
  uint64_t fired() const { return cluster_.fired(); }
  std::string lines();                                       // what all nodes said
  bool edges_checked() const { return edges_checked_ > 0; }  // of at least one edge, between nodes
  bool sums_checked() const { return sums_checked_; }
  bool mass_checked() const { return mass_checked_; }
  uint64_t broken() const { return broken_; }
  SimulatedCluster& cluster() { return cluster_; }

 private:
  void draw_settings();
  void found();
  void fault();
  void act(uint32_t what);
  void heal();
  void wake_all();
  void agree();
  void train_on();
  void finish();
  uint64_t gradients_taken();
  void check_ends();
  void check_means();
  void check_edges();
  void check_sums();
  void check_mass();
  std::map<int, uint32_t> incarnations();
  void ask_all();
  std::string difference();
  std::string difference_at(int process);
  bool pairwise() const { return settings_.method == "a2cid2" || settings_.method == "ad_psgd"; }
  int someone();  // who runs; -1: nobody
  int running();
  int newest(int host);
  std::string topology();
  std::vector<int> other_hosts(int host);
  void complain(const std::string&);
  void note(const std::string& what) { faults_ += " " + what; }

  uint64_t seed_;
  Random random_;
  Settings settings_;
  std::vector<int> ranks_of_;   // by host
  std::vector<int> first_of_;   // of founders; -1: whichever are free
  int total_ranks_ = 0;         // that the nodes wait for
  bool by_share_ = false;       // the run ends when all ranks have done their share, else by `stop`
  bool gentle_ = false;         // nobody comes, goes or is taken for dead: nothing may break
  bool somebody_came_ = false;  // after the run had begun
  bool somebody_died_ = false;  // killed
  bool sums_checked_ = false, mass_checked_ = false;
  uint64_t edges_checked_ = 0;
  uint64_t broken_ = 0;
  std::string faults_, complaint_;
  SimulatedCluster cluster_;
};

}  // namespace grapevine::test
