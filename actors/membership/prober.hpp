// Prober: SWIM's probes and Lifeguard's local health: which member does not answer? membership.hpp
// decides what follows. No I/O; `now` in seconds.
//
//   t            ping
//   t + T        no ack: three helpers are asked to ping it (ping_request)
//   t + T + N    a helper that got no answer says so (nack), which tells whether it or this node
//                receives nothing
//   t + W        no ack by any path: failed
//
// T follows the smoothed round trip to that node (+ 4 deviations, 20 ms to 0.6 s), N = T + 20 ms or
// more, W = 3 T, 0.2 s or more; the period is twice the usual T, 0.2 to 2 s. All are multiplied by
// 1 + h, where h is the health score (0 best, 8 worst), up to 2 s. If no helper answers, this node
// itself may receive nothing: the probe then waits three times as long. Missing nacks raise h. Late
// timers raise h and cancel the time-outs that passed meanwhile. A member without a link is
// dialled, and its probe starts when the link is open. If that takes a second, or if the link
// broke, helpers are asked.
#pragma once
#include <optional>
#include <utility>
#include <vector>

#include "actors/membership/connector.hpp"
#include "actors/membership/member_table.hpp"
#include "kernels/base/random.hpp"
#include "kernels/base/smoothed_time.hpp"

namespace grapevine {

struct ProbeResults {
  std::vector<std::pair<uint32_t, MembershipPacket>> sends;
  struct Failed {
    uint32_t member = 0;
    int nacks = 0;
    double after_s = 0;
  };
  std::vector<Failed> failed;
};

class Prober {
 public:
  Prober(const MemberTable& table, Connector& connector, Random& random)
      : table_(table), connector_(connector), random_(random) {}
  Prober(const Prober&) = delete;
  Prober& operator=(const Prober&) = delete;

  void start(double now);
  void run(double now, ProbeResults&);
  /// Probes it at once, unless it has just answered or is being probed, or sixteen are: of many
  /// suspects at once, each of whom may have to be dialled, others find out about the rest.
  void suspect(double now, uint32_t member, ProbeResults&);
  size_t open() const { return probes_.size(); }
  /// Of kind ping, ack, ping_request, nack.
  void packet(double now, uint32_t from, const MembershipPacket&, ProbeResults&);
  void link_up(double now, uint32_t member, ProbeResults&);
  void goodbye(uint32_t member);  // its link was closed: a ping on it proves nothing
  void forget(uint32_t member);   // its incarnation is over
  double next() const;

  /// The timer was late by this time: time-outs that passed meanwhile suspect no member.
  void overslept(double late_s);
  void change_health(int by);  // a higher score is worse
  int health() const { return health_; }
  double round_trip_s(uint32_t member) const;  // 0: not measured

  /// Up to `count` linked live members, at random, without `but`.
  std::vector<uint32_t> some_linked(size_t count, uint32_t but);

 private:
  struct RoundTrip {
    SmoothedTime usual;
    double answered_at = -1;
  };
  struct Probe {
    uint32_t member = 0;
    uint64_t sequence = 0;
    double sent_at = 0, indirect_at = 0, ends_at = 0;
    int helpers = -1, nacks = 0;  // -1: not asked yet
    bool extended = false;        // no helper has answered: this node may receive nothing
    bool teaches = true;          // its answer is a sample of the round trip
    bool dials = false;           // it has not been sent: there is no link yet
  };
  struct IndirectProbe {  // a probe for somebody else
    uint32_t requester = 0, target = 0;
    uint64_t theirs = 0, ours = 0;
    double sent_at = 0, nack_at = 0, ends_at = 0;
    bool dials = false;
  };

  RoundTrip& round_trip(uint32_t member);
  void learn(double now, uint32_t member, double sent_at);
  double timeout_s(uint32_t member);
  double period_s();
  std::optional<uint32_t> next_target();
  void probe(double now, uint32_t member, ProbeResults&);
  void set_clock(double now, Probe&);
  bool is_target(uint32_t member) const;
  void ask_helpers(double now, Probe&, ProbeResults&);
  void conclude(double now, const Probe&, ProbeResults&);
  void on_ack(double now, uint32_t from, const MembershipPacket&, ProbeResults&);
  void on_ping_request(double now, uint32_t from, const MembershipPacket&, ProbeResults&);

  const MemberTable& table_;
  Connector& connector_;
  Random& random_;
  std::vector<RoundTrip> round_trips_;  // by member
  std::vector<Probe> probes_;
  std::vector<std::pair<uint64_t, double>>
      past_;  // probes that are over: a late ack is a sample too
  std::vector<IndirectProbe> indirect_probes_;
  std::vector<uint32_t> round_;  // shuffled; what is left of it
  uint32_t neighbour_ = 0;       // the last one pinged by name
  bool by_name_ = true;
  uint64_t sequence_ = 0;
  int health_ = 0;
  double usual_timeout_s_ = 0, probe_at_ = 0;
};

}  // namespace grapevine
