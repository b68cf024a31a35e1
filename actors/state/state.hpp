// State: the actor that owns every buffer of its ranks. No other actor touches them.
//
// It handles one message at a time, so there is no lock and no reader sees half-mixed weights. Its
// parts: ranks.hpp (the ranks that are here), copies.hpp (the parameters for the next steps),
// exchanges.hpp, steps.hpp, guest_steps.hpp, records.hpp (ranks that are added, recorded and
// removed) and reports.hpp.
//
// The vectors are in the host's memory, or all of them on a device (device_share.hpp), with the
// same code. A handler that needs a number from a device (is this snapshot too far?) asks for it
// first and continues when the answer has arrived (device_turns.hpp). On the CPU every answer is
// there at once, and nothing waits.
#pragma once
#include "actors/mail/mail_state.hpp"
#include "actors/state/copies.hpp"
#include "actors/state/exchanges.hpp"
#include "actors/state/guest_steps.hpp"
#include "actors/state/ranks.hpp"
#include "actors/state/records.hpp"
#include "actors/state/reports.hpp"
#include "actors/state/steps.hpp"

namespace grapevine {

class State final : public StateActor::base {
 public:
  State(caf::actor_config& config, StateDependencies deps);

 protected:
  behavior_type make_behavior() override;
  void on_exit() override;

 private:
  // Requests that wait for a rank's turn or for a device.
  DeviceTurns::Owner turns_owner();
  template <class Message, class Serve>
  void in_turn(Message& message, Serve serve);
  void lose_device();
  void lose_ranks(const char* why);
  template <class Work>
  void within_memory(Work&& work);
  void take_in_turn(const TakeRequest&);
  caf::typed_response_promise<HandedIn> hand_all_in();

  // Answers that may take some time.
  template <class Answer>
  struct Reply {
    State* state;
    uint64_t number;
    caf::typed_response_promise<Answer> promise;

    void operator()(Answer answer) const {
      DeviceTurns& turns = state->ranks_.turns;
      if (turns.remove_answer(number))  // else add_answer's answer was given
        caf::typed_response_promise<Answer>(promise).deliver(std::move(answer));
      turns.leave_room();
    }
  };
  template <class Answer>
  Reply<Answer> reply_of(Answer nothing);
  /// Calls answer(rank, reply) in the rank's turn; replies `nothing` if there is no such rank.
  template <class Answer, class Give>
  caf::typed_response_promise<Answer> answered(int rank, Answer nothing, Give answer);

  Ranks ranks_;
  Copies copies_;
  Exchanges exchanges_;
  Steps steps_;
  GuestSteps guest_steps_;
  Records records_;
  Reports reports_;
};

}  // namespace grapevine
