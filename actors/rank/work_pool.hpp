// WorkPool: how much of the work of a run is done, as one process knows it. The work is N
// gradients, whichever rank takes them: a fast rank takes more, and what a rank that is gone or
// stands still has not done the others do.
//
//   own        gradients that the ranks here have taken, with those of their earlier lives
//   told_m     those that the ranks of member m have taken, as it has told
//   rate_m     the pace at which it takes them, r its median over all ranks
//
//   told       = own + sum_m told_m
//   taken(now) = own + sum_m (told_m + floor(rate_m min(now - heard_m, news_m)))
//
// news_m is the usual time between two news of m. The second term is 0 where m is suspect or over,
// and where it has been silent for four such times. Until m has told a pace, its ranks are taken
// to be as fast as those here.
//
// Ranks begin gradients while taken(now) < N, and again when it falls below N: a member has died,
// or its pace has. The run is finished when told >= N. So N is never missed, and nobody waits for
// a step that another rank has under way: at most one a rank is taken beyond, and what was taken
// between two news. In one process both counts are exact and the same.
//
// A member may lie about its count. What it is credited with grows by at most `fastest` times r a
// rank, and one gradient a rank more in all; what it had told when it was first heard counts up to
// `fastest` times the largest count a rank of any other member, where there are two others to
// compare it with.
//
// N may be 0 at first: scripts bring it with the first of them, or when one has counted its data.
// Until then ranks take what they like, and nothing is complete.
//
// Any thread may call. Times in seconds of the run's clock.
#pragma once
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "actors/settings/member_work.hpp"

namespace grapevine {

struct Settings;

/// Whether the ranks take their gradients from one pool, or will as soon as a script says how many
/// there are.
bool may_pool(const Settings&);

class WorkPool {
 public:
  static constexpr double kFastest = 10;

  /// `before`: of the N gradients, taken in an earlier life of the ranks here. REQUIRES: ranks_here
  /// > 0.
  WorkPool(uint64_t gradients, uint64_t before, int ranks_here, double fastest = kFastest);

  void expect(uint64_t gradients);    // N, where there was none; else it stays what it is
  void had_taken(uint64_t more);      // in an earlier life of the ranks here
  uint64_t wanted() const;            // N
  void took(uint64_t gradients = 1);  // by a rank here
  bool is_enough(double now) const;   // taken(now) >= N: begin none, and ask again after a while
  bool is_complete() const;           // told >= N
  double progress(double now) const;  // taken(now) / N, 0 to 1; NaN: N is 0
  uint64_t taken(double now) const;

  /// All others, and what the ranks here had taken before this process began, as they have heard.
  /// A member that was among them before and is not any more has gone.
  void hear(double now, uint64_t before, const std::vector<MemberWork>&);
  /// To be told to the others: since this process began, and when to tell again.
  struct Own {
    uint64_t taken = 0;
    double per_second = 0, again_s = 1;
  };
  Own tell(double now);

  uint64_t told() const;
  /// Members whose words were not believed in full, each once.
  std::vector<std::string> too_fast();

 private:
  struct Member {
    MemberWork told;
    double heard_s = 0, news_s = 0, allowed_s = 0;
    double allowed = 0;       // more than it is credited with
    uint64_t credit = 0;      // of what it has told
    uint64_t own_before = 0;  // taken here when it was first heard of
    bool is_doubted = false;
  };
  uint64_t own() const { return before_ + taken_; }
  bool enough(double taken) const { return wanted_ > 0 && taken >= static_cast<double>(wanted_); }
  uint64_t told_by_all() const;
  double taken_by_all(double now) const;
  double untold(double now, const Member&) const;
  double median_rate() const;
  uint64_t first_credit(const MemberWork&) const;
  void credit(Member&);

  mutable std::mutex mutex_;
  uint64_t wanted_;
  const double ranks_, fastest_;
  uint64_t before_, taken_ = 0;
  std::map<uint64_t, Member> others_;
  double median_ = 0;  // the last pace of a rank that was known; 0: none yet, and no bound
  std::vector<std::string> doubted_;
  // of tell()
  double told_s_ = 0, rate_ = 0;
  uint64_t last_told_ = 0;
};

}  // namespace grapevine
