#include "actors/compute/compute.hpp"

#include <utility>

namespace grapevine {

void answer_at(caf::actor_system& system, RunClock::Instant at, const WorkerActor& worker,
               Computed answer) {
  auto to = caf::actor_cast<caf::strong_actor_ptr>(worker);
  system.clock().schedule_message(
      at, to, caf::make_mailbox_element(nullptr, caf::make_message_id(), {}, std::move(answer)));
}

}  // namespace grapevine
