// AdverseWorld: what the devices of one test share: the time, the chance, and the judge.
//
// Time is virtual and passes in step() alone; chance comes from one seed, which therefore replays a
// run. A world also leaves calls out on purpose: a test that holds for a program must fail when the
// program's waits are taken away, one line after the other.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <queue>
#include <utility>

#include "kernels/base/random.hpp"
#include "tests/device/judge.hpp"

namespace grapevine::testing {

class AdverseWorld {
 public:
  explicit AdverseWorld(uint64_t seed) : random_(seed, 0, Purpose::test) {}

  double now() const { return now_; }  // s
  void at(double time_s, std::function<void()> what);
  void after(double delay_s, std::function<void()> what) { at(now_ + delay_s, std::move(what)); }
  /// The earliest thing that is to happen happens; false: there is none.
  bool step();
  /// All that happens until then, which is the time now.
  void run_until(double time_s);
  /// Until nothing is to happen; false: it went on for `most` steps.
  bool run(uint64_t most = 1000000);

  /// Log-uniform: what takes time in this world takes very different times.
  double chance(double least, double most);
  Random& random() { return random_; }
  Judge& judge() { return judge_; }
  const Judge& judge() const { return judge_; }

  /// A call of Device that a program makes at one place: its kind ("wait", "record", "query",
  /// "when") and file:line.
  using Site = std::pair<std::string, std::string>;
  std::optional<Site> left_out;    // none of these is carried out
  std::map<Site, uint64_t> sites;  // all that were made, and how often
  bool leaves_out(const char* kind, const Where& where);

  /// Memory that processes share, by device and inode of the descriptor that stands for it.
  std::map<std::pair<uint64_t, uint64_t>, std::weak_ptr<void>> shared;

 private:
  struct Timer {
    double at;
    uint64_t number;  // of those at one time, the first that was set is the first
    std::function<void()> what;
    bool operator<(const Timer& o) const { return at != o.at ? at > o.at : number > o.number; }
  };

  double now_ = 0;
  uint64_t number_ = 0;
  std::priority_queue<Timer> timers_;
  Random random_;
  Judge judge_;
};

}  // namespace grapevine::testing
