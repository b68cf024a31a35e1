// ask_actor: a thread that is no actor asks an actor, and may stop waiting for the answer.
#pragma once
#include <caf/event_based_actor.hpp>
#include <memory>
#include <utility>

#include "actors/mail/promised.hpp"

namespace grapevine {

/// The answer of `whom`; `otherwise` if it fails. A new actor asks for it, so that an answer that
/// comes too late finds no mailbox.
template <class Answer, class Actor, class Asked>
std::shared_ptr<Promised<Answer>> ask_actor(caf::actor_system& system, const Actor& whom, Asked ask,
                                            Answer otherwise) {
  auto promise = std::make_shared<Promised<Answer>>();
  system.spawn(
      [=](caf::event_based_actor* self, const Actor& to) {
        self->request(to, caf::infinite, ask)
            .then([promise](Answer& answer) { promise->keep(std::move(answer)); },
                  [promise, otherwise](const caf::error&) { promise->keep(otherwise); });
      },
      whom);
  return promise;
}

}  // namespace grapevine
