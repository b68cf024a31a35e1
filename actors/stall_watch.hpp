// StallWatch: what goes on in a process without getting anywhere, told from its reports: edges
// whose exchanges do not come, or come no more, and ranks that wait more than they compute.
//
// An edge of the graph is silent when its last exchange, or its entry into the graph, is longer ago
// than fifty of its expected intervals, and than the patience. Of d neighbours each gets every d-th
// exchange of a rank, and the interval of a rank's exchanges is the settings' or, where that is
// longer, the measured one. A rank is idle that waited for more than half of twice the patience.
//
// A state machine without I/O. It is for the wall clock: in virtual time a plan may ask for all of
// this.
#pragma once
#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "actors/alarm.hpp"
#include "actors/run/samples.hpp"

namespace grapevine {

class StallWatch {
 public:
  struct Run {
    double patience_s = 30;
    double exchange_s = 1;  // expected between two exchanges of a rank
    bool paced = false;     // ranks wait between gradients as they were told: none counts as idle
    bool waits = false;     // for neighbours' messages: the likeliest reason of an idle rank
  };
  explicit StallWatch(const Run& run) : run_(run) {}

  /// Between two looks. After a much longer time it was this process that stood still, and every
  /// edge is given time again.
  double period_s() const { return run_.patience_s / 6; }

  /// What has begun and what is over since the last look. `now` rises.
  std::vector<Alarm> look(double now, const std::vector<CommunicatorReport>&,
                          const std::vector<WorkerReport>&);

 private:
  using Ends = std::pair<int, int>;
  struct Edge {
    double since = 0;     // it is in the graph, or this process goes on
    double last_at = -1;  // its last exchange; negative: none yet
    double limit_s = 0;
    bool seen = false, told = false;
    double silence_s(double now) const { return now - std::max(last_at, since); }
  };
  struct Life {
    double idle_s = 0, alive_s = 0;  // when this minute began
    bool told = false;
  };

  double measured_exchange_s(const std::vector<CommunicatorReport>&) const;
  void note(double now, const CommunicatorReport&, double exchange_s);
  void judge(double now, const Ends&, Edge&, std::vector<Alarm>&) const;
  void judge(double now, const WorkerReport&, std::vector<Alarm>&);
  bool hears_nobody(int rank, double now) const;

  const Run run_;
  double begun_at_ = -1, looked_at_ = 0;
  std::map<Ends, Edge> edges_;
  std::map<int, Life> lives_;
};

}  // namespace grapevine
