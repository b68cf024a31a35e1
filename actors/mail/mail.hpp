// Mail: the messages between the actors of a node and a worker, and the requests that a program may
// send to a run.
//
// Values; bulk data travels as leases. CAF never serialises a message between actors: what crosses
// a link is a Frame, through a Transport.
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
  pause,  // stand still
  resume,
  drain,  // begin nothing new
  leave,  // nor go on with what is open: it is broken
};
struct Report {};  // asks for the receiver's report
struct Start {};

struct GuestSeat;  // guest_seat.hpp

// To a worker.
struct Parameters {
  Lease x;
  uint64_t gradients = 0;
  // For the rank of a guest: x is the front of this seat, and this number of exchanges has moved
  // it.
  std::shared_ptr<GuestSeat> seat;
  uint64_t exchanges = 0;
  // For the account of the rank's time: how long the rule's own pass over the last gradient took,
  // and when the state was last at work for a checkpoint.
  double own_s = 0, saved_from_s = 0, saved_until_s = 0;
};  // of the rank; gradients it has taken so far
struct Computed {
  uint64_t index = 0;
  double loss = 0, seconds = 0;
  Lease g;
  bool no_memory = false;  // there was too little for it, and there is no g
};

// From a worker, to the state actor.
struct Fetch {
  int rank = 0;
};  // answered by Parameters to the rank's worker
struct Gradient {
  int rank = 0;
  double lr = 0;
  Lease g;  // empty: none, the rank takes part in a round that others wait for
  bool wants_copy = true;
  bool is_last = false;  // of the rank: what its local steps have done is handed over as it is
};
struct TakeStep {
  int rank = 0;
  std::shared_ptr<GuestSeat> seat;
};  // what a guest did to its front; answered by Parameters, when the round is over

// From a worker, to the node.
struct Finished {
  int rank = 0;
  bool rests = false;  // it takes part in the rounds of the others
};                     // a worker has done its share
struct Diverged {
  int rank = 0;
  uint64_t gradient = 0;
  double loss = 0;
};

// To the node, of whoever has the handle.
struct KillRank {
  int rank = 0;
  std::string why = {};  // to be told; empty: a plan says so
};
struct RestartRank {
  int rank = 0;
};
struct Finish {};  // end the run: drain, collect, report

// To whoever owns membership, and so begins epochs.
struct Reconfigure {
  std::string topology;
};  // answered by a line that says what comes of it, or an error

}  // namespace grapevine
