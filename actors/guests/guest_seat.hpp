// GuestSeat: the memory that a guest (a script that computes a rank's steps) and its rank share,
// and which of the two may use it.
//
// The front has the parameters that the script sees. It belongs to the script between two answers,
// and to the rank between a request and its answer, so there is no lock: `turn` tells who owns it,
// and the owner writes all other fields. The rank's true x is elsewhere and is exchanged meanwhile.
// Any script can use a seat: one in another process (transport/guest_listener.hpp), or a simulated
// one.
#pragma once
#include <atomic>
#include <functional>
#include <memory>

#include "kernels/memory/vec.hpp"

namespace grapevine {

struct GuestAnswer {
  uint64_t steps = 0;      // of the rank
  uint64_t exchanges = 0;  // that have moved it
  bool end = false;        // no more steps are taken; the last one was not
};

struct GuestSeat {
  enum class Turn { script, rank };

  /// Neither is null. `answer` is called in an actor, with the turn the script's again.
  GuestSeat(Vec front, std::shared_ptr<void> memory, std::function<void(const GuestAnswer&)> answer)
      : front(front),
        base(front.size, front.dtype),
        memory(std::move(memory)),
        answer(std::move(answer)) {}

  Vec front;
  Buffer base;                   // the front as it was handed over
  std::shared_ptr<void> memory;  // of the front
  std::function<void(const GuestAnswer&)> answer;

  std::atomic<Turn> turn{Turn::script};
  bool steps = false;            // to be taken; else, and once it has been, x alone is wanted
  uint64_t optimizer_steps = 1;  // that the step holds
  double loss = 0;               // of the step
  double finite = 1;             // 1: all of the front was, when the step was taken
};

}  // namespace grapevine
