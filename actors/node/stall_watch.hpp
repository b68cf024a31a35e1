// StallWatch: finds parts of a process that make no progress, from its reports: edges with no
// exchanges or with ever fewer, and ranks that wait more than they compute.
//
// An edge of the graph is silent if the time since its last exchange, or since its entry into the
// graph, exceeds both fifty expected intervals and the patience. A rank with d neighbours exchanges
// with each of them at every d-th exchange. The interval between its exchanges is the one of the
// settings, or the measured one if that is longer. An edge is stale if the time between two
// exchanges is four times its best one. Both are measured with the present neighbours, over at
// least thirty exchanges at the best pace and over at least twice the patience. A rank is idle if
// it waited for more than half of twice the patience.
//
// A state machine without I/O, for the wall clock: in virtual time a plan may ask for all of this.
#pragma once
#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "actors/settings/alarm.hpp"
#include "actors/settings/samples.hpp"

namespace grapevine {

class StallWatch {
 public:
  struct Run {
    double patience_s = 30;
    double exchange_s = 1;  // expected between two exchanges of a rank
    bool paced = false;     // ranks wait between gradients by order, so none counts as idle
    bool waits = false;     // for neighbours' messages: the likeliest reason of an idle rank; all
                            // ranks go at the pace of the slowest, so no single edge grows stale
  };
  explicit StallWatch(const Run& run) : run_(run) {}

  /// The time between two measurements. A much longer time means that this process itself was
  /// stopped: then the silence of every edge is measured from zero. An alarm that was raised before
  /// stays active until the edge exchanges.
  double period_s() const { return run_.patience_s / 6; }

  /// The alarms that have started or ended since the last measurement. `now` never falls.
  std::vector<Alarm> measure(double now, const std::vector<CommunicatorReport>&,
                             const std::vector<WorkerReport>&);

 private:
  using Ends = std::pair<int, int>;
  struct Pace {  // of exchanges, counted since the one at `from_s`
    double from_s = 0;
    uint64_t from = 0;
    int neighbours = 0;                 // of both ends together
    double interval_s = 0, best_s = 0;  // 0: not known yet
    bool told = false;
    bool is_slower(double times) const { return best_s > 0 && interval_s > times * best_s; }
  };
  struct Edge {
    double since = 0;     // its entry into the graph, or the end of a stop of this process
    double last_at = -1;  // its last exchange; negative: none
    double limit_s = 0;
    bool told = false;
    int neighbours = 0;      // of the ends that have reported; 0: it is not in the graph
    uint64_t exchanges = 0;  // as an end has counted them
    Pace pace;
    bool seen() const { return neighbours > 0; }
    double silence_s(double now) const { return now - std::max(last_at, since); }
  };
  struct Life {
    double idle_s = 0, alive_s = 0;  // when this measurement began
    bool told = false;
  };

  double measured_exchange_s(const std::vector<CommunicatorReport>&) const;
  void note(double now, const CommunicatorReport&, double exchange_s);
  void judge(double now, const Ends&, Edge&, std::vector<Alarm>&) const;
  void measure(Edge&) const;
  void judge_pace(double now, const Ends&, Edge&, std::vector<Alarm>&) const;
  bool is_slow_with_all(int rank) const;
  void judge(double now, const WorkerReport&, std::vector<Alarm>&);
  bool hears_nobody(int rank, double now) const;

  const Run run_;
  double begun_at_ = -1, measured_at_ = 0;
  std::map<Ends, Edge> edges_;
  std::map<int, Life> lives_;
};

}  // namespace grapevine
