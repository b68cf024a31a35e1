// GuestSeat: the memory that a guest (a script that computes a rank's steps) and its rank share,
// and which of the two may use it.
//
// The front has the parameters that the script sees. The script owns it between two answers, the
// rank between a request and its answer, so there is no lock: `turn` tells who owns the front, and
// the owner writes all other fields. The rank's true x is elsewhere and exchanges meanwhile. The
// rank may copy the front at any time; a copy from between two answers may have numbers of two
// optimizer steps. Any script can use a seat: one in another process
// (transport/guest_listener.hpp), or a simulated one.
#pragma once
#include <atomic>
#include <functional>
#include <memory>
#include <utility>

#include "kernels/memory/vec.hpp"

namespace grapevine {

struct GuestAnswer {
  uint64_t steps = 0;      // of the rank
  uint64_t exchanges = 0;  // that have changed its x
  bool end = false;        // the rank takes no more steps, and did not take the last one
};

struct GuestSeat {
  enum class Turn { script, rank };

  /// Neither pointer is null. An actor calls `answer`, when the turn is the script's again.
  GuestSeat(Vec front, std::shared_ptr<void> memory, std::function<void(const GuestAnswer&)> answer)
      : front(front),
        base(front.size, front.dtype),
        memory(std::move(memory)),
        answer(std::move(answer)) {}

  /// The script has taken so many optimizer steps since its last step: those that the pool does not
  /// have yet.
  uint64_t uncounted(uint64_t taken) {
    if (taken <= counted) return 0;
    return taken - std::exchange(counted, taken);
  }

  Vec front;
  Buffer base;                   // the front at the last answer
  std::shared_ptr<void> memory;  // of the front
  std::function<void(const GuestAnswer&)> answer;

  std::atomic<Turn> turn{Turn::script};
  bool steps = false;            // the rank has to take a step; false: the script only asks for x
  uint64_t optimizer_steps = 1;  // in the step
  uint64_t counted = 0;          // those of the next step that the pool has already
  double loss = 0;               // of the step
  double finite = 1;             // 1: all numbers of the front were finite when the step was taken
};

}  // namespace grapevine
