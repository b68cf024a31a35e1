// Mail: the messages between the actors of a node and a worker, and the requests that a program may
// send to a run.
//
// Values; bulk data travels as leases. CAF never serialises a message: what crosses a link is a
// Frame, sent through a Transport.
#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "kernels/memory/lease.hpp"

namespace grapevine {

struct Tick {
  int id = 0;
};  // a timer of the receiver's own
enum class Order : uint8_t {
  pause,  // stop
  resume,
  drain,  // begin nothing new
  leave,  // nor continue what is open: it is broken
};
struct Report {};  // requests the receiver's report
struct Start {};

struct GuestSeat;  // guest_seat.hpp

// To a worker.
struct Parameters {
  Lease x;
  uint64_t gradients = 0;
  // If a script computes the steps: x is the front of this seat, and this number of exchanges has
  // changed it.
  std::shared_ptr<GuestSeat> seat;
  uint64_t exchanges = 0;
  // For the cost of the rank's time: the duration of the rule's pass over the last gradient, and
  // the time of the last record for a checkpoint.
  double own_s = 0, saved_from_s = 0, saved_until_s = 0;
};  // of the rank; gradients it has taken so far
struct Computed {
  uint64_t index = 0;
  double loss = 0, seconds = 0;
  Lease g;
  bool no_memory = false;  // too little memory; there is no g
};

// From a worker, to the state actor.
struct Fetch {
  int rank = 0;
};  // answered with Parameters to the rank's worker
struct Gradient {
  int rank = 0;
  double lr = 0;
  Lease g;  // empty: none; the rank takes part in a round that others wait for
  bool wants_copy = true;
  bool is_last = false;  // of the rank: its unfinished inner steps become a step of the rule
};
struct TakeStep {
  int rank = 0;
  std::shared_ptr<GuestSeat> seat;
};  // a step in a script's front; answered with Parameters when the round is over

// From a worker, to the node.
struct Finished {
  int rank = 0;
  bool rests = false;  // it takes part in the rounds of the others
};                     // a worker has taken its gradients
struct Diverged {
  int rank = 0;
  uint64_t gradient = 0;
  double loss = 0;
};

// To the node, from any holder of its handle.
struct KillRank {
  int rank = 0;
  std::string why = {};  // for the report; empty: a plan asks for it
};
struct RestartRank {
  int rank = 0;
};
struct Finish {};  // ends the run: drain, collect, report

// To the owner of the membership, which begins epochs.
struct Reconfigure {
  std::string topology;
};  // answered with a line about the change, or an error

}  // namespace grapevine
