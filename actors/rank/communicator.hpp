// Communicator: the actor that holds a rank's conversation and carries out its effects.
//
// It hands frames to the conversation, keeps the rank's timers as mailbox timers, sends frames
// through the transport, and forwards Take and Apply to the state actor. All decisions are the
// conversation's.
#pragma once
#include <memory>
#include <vector>

#include "actors/clocks/run_clock.hpp"
#include "actors/mail/mail_state.hpp"
#include "actors/settings/counters.hpp"

namespace grapevine {

/// Shared by all ranks of a node.
struct CommunicatorDependencies {
  RunClock clock;
  std::shared_ptr<Transport> transport;
  std::shared_ptr<Counters> counters;
  MembershipActor membership;  // is told which ranks do not answer
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
  // A CAF timer cannot be cancelled. So at most one message per timer is under way, for the
  // earliest time asked for; if it arrives too early, the timer is set again.
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
  double now_ = 0;  // the time of the present event; never falls
  double eta_ = -1;
  uint64_t epoch_ = 0;
  uint64_t frames_ = 0, overflowed_ = 0;
  std::vector<PeerTraffic> traffic_;                 // by rising peer
  std::unique_ptr<std::vector<caf::message>> held_;  // while paused, bounded
};

}  // namespace grapevine
