// WorkPool: how much of a run's work is done, as far as one process knows. The work is N gradients,
// taken by any rank: a fast rank takes more, and the other ranks take the work of a rank that is
// gone or stopped.
//
//   own        gradients that the ranks here have taken, including their earlier lives
//   told_m     gradients that the ranks of member m have taken, as m has reported
//   rate_m     the pace of m's ranks; r is its median over all ranks
//
//   told       = own + sum_m told_m
//   taken(now) = own + sum_m told_m + floor(sum_m rate_m (late_m + min(now - heard_m, news_m)))
//
// heard_m is the time of m's last report, news_m the time between two reports that few exceed (mean
// and four deviations, at most 4 s). late_m is how much longer this report was on its way than the
// fastest one of m: where many processes share a core, seconds. It follows from the time of m's own
// clock at which m counted. The last term has nothing of an m that is suspect or dead, or has been
// silent for four usual times. Until m has reported a pace, its ranks are assumed to be as fast as
// those here.
//
// Ranks begin gradients while taken(now) < N, and again when it falls below N because a member has
// died or become slower. If many wait and few gradients are missing, all would begin before they
// hear of each other: eight more than are missing begin at once, in the order of the members' ids,
// and eight more each second. The run is finished when told >= N. So N is always reached, and no
// rank waits for a step of another one. Too many gradients are taken by at most one per rank, plus
// those between two reports. In one process both counts are exact and equal.
//
// A member may lie about its pace and its clock. Its pace counts up to twice the pace at which its
// credited count grows, and up to `fastest` times r per rank; late_m counts up to 8 s. So a member
// that reports work and does none keeps no rank from its steps.
//
// A member may lie about its count. Its credited count grows by at most `fastest` times r per rank,
// plus one gradient per rank. Its first reported count is credited up to `fastest` times the
// largest count per rank of any other member, if there are two others to compare it with. While no
// other member has taken a gradient, the first count is believed: a run may be resumed with one
// checkpoint that holds all its work.
//
// N may be 0 at first: the first script sets it, or a script that has counted its data. Until then
// ranks take gradients without a limit, and nothing is complete.
//
// Any thread may call. Times in seconds of the run's clock.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "actors/settings/member_work.hpp"
#include "kernels/base/mutex.hpp"
#include "kernels/base/smoothed_time.hpp"

namespace grapevine {

class WorkPool {
 public:
  static constexpr double kFastest = 10;

  /// `before`: the part of N that an earlier life of the ranks here has taken. REQUIRES: ranks_here
  /// > 0.
  WorkPool(uint64_t gradients, uint64_t before, int ranks_here, double fastest = kFastest);

  void expect(uint64_t gradients);    // sets N, if it is 0
  void had_taken(uint64_t more);      // in an earlier life of the ranks here
  uint64_t wanted() const;            // N
  void took(uint64_t gradients = 1);  // by a rank here
  /// A rank here has taken gradients that are not in its parameters yet: a script's, between two of
  /// its steps. The run should end after they are, or at `until_s`.
  void await(const void* rank, double until_s);
  void await_no_longer(const void* rank);
  bool awaits(double now) const;
  bool is_enough(double now);         // begin no gradient, and ask again later
  bool is_complete() const;           // told >= N
  double progress(double now) const;  // taken(now) / N, 0 to 1; NaN: N is 0
  uint64_t taken(double now) const;

  /// `self`: this process's id. `before`: the gradients of the ranks here before this process
  /// began, as other nodes remember. A member that is no longer in the list is gone.
  void hear(double now, uint64_t self, uint64_t before, const std::vector<MemberWork>&);
  /// This process's report to the others: its work since it began, and when to report again.
  struct Own {
    uint64_t taken = 0;
    double per_second = 0, again_s = 1;
  };
  Own tell(double now);

  uint64_t told() const;
  /// Members whose reports were not credited in full, each once.
  std::vector<std::string> too_fast();

 private:
  struct Member {
    MemberWork told;
    double heard_s = 0, allowed_s = 0;
    SmoothedTime news{1};  // between its reports; it makes one a second at least
    double way_s = 0;   // of its fastest report, plus the difference of its clock and the one here
    double late_s = 0;  // of its last report
    double gained = 0, gained_s = 0;  // by its last few reports, in credit and time
    double allowed = 0;               // by which its credit may still grow
    uint64_t credit = 0;              // the credited part of its count
    uint64_t own_before = 0;          // taken here at its first report
    bool is_counted = false;          // it has made a report, and has ranks
    bool is_doubted = false;
  };
  uint64_t own() const GV_REQUIRES(mutex_) { return before_ + taken_; }
  bool enough(double taken) const GV_REQUIRES(mutex_) {
    return wanted_ > 0 && taken >= static_cast<double>(wanted_);
  }
  bool waits(double now) GV_REQUIRES(mutex_);
  uint64_t told_by_all() const GV_REQUIRES(mutex_);
  double taken_by_all(double now) const GV_REQUIRES(mutex_);
  double untold_by(double now, const Member&) const GV_REQUIRES(mutex_);
  double median_rate() const GV_REQUIRES(mutex_);
  double pace(const Member&) const GV_REQUIRES(mutex_);
  uint64_t first_credit(const MemberWork&, const std::vector<MemberWork>& all) const
      GV_REQUIRES(mutex_);
  static void time(Member&, double now, double counted_before_s);
  void credit(Member&) GV_REQUIRES(mutex_);

  mutable Mutex mutex_;
  uint64_t wanted_ GV_GUARDED_BY(mutex_);
  const double ranks_, fastest_;
  uint64_t before_ GV_GUARDED_BY(mutex_), taken_ GV_GUARDED_BY(mutex_) = 0;
  std::map<const void*, double> awaited_ GV_GUARDED_BY(mutex_);  // until when
  std::map<uint64_t, Member> others_ GV_GUARDED_BY(mutex_);
  uint64_t self_ GV_GUARDED_BY(mutex_) = 0;
  double enough_s_ GV_GUARDED_BY(mutex_) = -1;  // when taken(now) was last N; before: -1
  // The last known pace of a rank; 0: unknown, and credits have no bound.
  double median_ GV_GUARDED_BY(mutex_) = 0;
  std::vector<std::string> doubted_ GV_GUARDED_BY(mutex_);
  // Of the last tell():
  double told_s_ GV_GUARDED_BY(mutex_) = 0, rate_ GV_GUARDED_BY(mutex_) = 0;
  uint64_t last_told_ GV_GUARDED_BY(mutex_) = 0;
};

}  // namespace grapevine
