// Communicator: the actor that holds a rank's conversation and carries out its effects.
//
// It hands frames to it, keeps the rank's timers as mailbox timers, sends frames through the
// transport, and forwards takes and applies to the state actor. It decides nothing: that is the
// conversation's.
#pragma once
#include <memory>
#include <vector>

#include "actors/clocks/run_clock.hpp"
#include "actors/mail/mail_state.hpp"
#include "actors/settings/counters.hpp"

namespace grapevine {

/// The same for all ranks of a node, and shared by them.
struct CommunicatorDependencies {
  RunClock clock;
  std::shared_ptr<Transport> transport;
  std::shared_ptr<Counters> counters;
  MembershipActor membership;  // hears of ranks that do not answer
};

class Communicator final : public CommunicatorActor::base {
 public:
  Communicator(caf::actor_config& config, int rank, StateActor state,
               std::shared_ptr<const CommunicatorDependencies> deps,
               std::unique_ptr<Conversation> conversation);

 protected:
  behavior_type make_behavior() override;
  void on_exit() override;

 private:
  // A CAF timer cannot be taken back, so at most one message per timer is under way for the time it
  // is needed first; when it rings too early it is set again.
  struct Alarm {
    double wanted = kNever, under_way = kNever;
  };

  double now();
  template <class Event>
  void handle(Event&& event);  // event(effects)
  using Unsent = std::vector<FrameHeader>;
  Unsent carry_out(Effects&);
  PeerTraffic& traffic_with(int peer);
  void arm(const Arm&);
  void tick(int id);
  void obey(Order);
  void hold(caf::message message);
  CommunicatorReport report() const;

  const int rank_;
  StateActor state_;
  std::shared_ptr<const CommunicatorDependencies> deps_;
  std::unique_ptr<Conversation> conversation_;
  std::vector<Alarm> alarms_;
  double now_ = 0;  // of the event in progress; never decreases
  double eta_ = -1;
  uint64_t epoch_ = 0;
  uint64_t frames_ = 0, overflowed_ = 0;
  std::vector<PeerTraffic> traffic_;                 // by rising peer
  std::unique_ptr<std::vector<caf::message>> held_;  // while paused, bounded
};

}  // namespace grapevine
