// Conversation: the message pattern of a method, as a state machine without I/O. Events in, effects
// out.
//
// Each rank has one, owned by its communicator. It works with ranks, counters, times and handles,
// and never with an actor, a socket, a clock, a thread or the numbers of a model. `now` is an
// argument everywhere and never decreases. The owner carries out the effects after each call.
//
// taken(ticket, payload) answers Take, and step_ready(...) answers Write. Apply has no answer,
// unless this rank moved by less than the whole difference of a payload: then judged(...). The
// state actor serves the requests of one rank in the order in which they were sent, so a snapshot
// that is taken after an Apply includes it.
#pragma once
#include <cstdint>
#include <memory_resource>
#include <variant>
#include <vector>

#include "actors/algorithms/exchange_key.hpp"
#include "actors/conversations/counts.hpp"
#include "actors/guard/guard.hpp"
#include "kernels/memory/lease.hpp"
#include "messages/frame.hpp"

namespace grapevine {

/// One neighbour in one epoch, as this rank sees it.
struct EdgeView {
  int peer = 0;
  uint32_t peer_incarnation = 0;
  double wanted_rate = 0;  // exchanges per second
  int colour = 0;          // of a proper edge colouring; the first order of the neighbours
  double weight = 0;       // W_ij of the gossip matrix
  uint8_t trees = 1;       // bit k: the edge belongs to tree k
};

/// The part of an epoch that concerns one rank. `ring`: all live ranks in order, if a method needs
/// them.
struct View {
  uint64_t epoch = 0;
  uint32_t incarnation = 0;  // this rank's own
  double eta = 0;            // 1/s
  double alpha_tilde = 0.5;
  int ranks = 1;  // all live ones
  double self_weight = 1;
  double relay_delay = 0;  // of a tree: mean over pairs of max(hops - 1, 0)
  std::vector<EdgeView> edges;
  std::vector<EdgeView> ring;
};

/// One end of an edge, in one of its incarnations.
struct Endpoint {
  int rank = 0;
  uint32_t incarnation = 0;
};

/// The header of a frame, with the fields that all conversations fill alike. The fields of the
/// payload are set with it.
inline FrameHeader header_of(FrameKind kind, Endpoint from, Endpoint to, uint64_t epoch,
                             uint64_t number, const Payload& payload = {}) {
  FrameHeader h;
  h.kind = kind;
  h.dtype = payload.dtype;
  h.from = static_cast<uint32_t>(from.rank);
  h.to = static_cast<uint32_t>(to.rank);
  h.from_incarnation = from.incarnation;
  h.to_incarnation = to.incarnation;
  h.epoch = epoch;
  h.number = number;
  h.version = payload.version;
  h.count = payload.count;
  return h;
}

struct Send {
  FrameHeader header;
  Payload payload;  // empty for frames without one
};

/// Requests the message of the rule in an exchange, or a part of the vector of a collective round.
struct Take {
  uint64_t ticket = 0;
  ExchangeKey exchange;
  size_t offset = 0, count = 0;
};

struct Write {  // requests the messages of a phase again: the neighbours have changed
  int phase = 0;
};

struct Apply {
  enum class Operation : uint8_t {
    jump,     // a finished pairwise exchange: own snapshot, the peer's, the alpha~ of both
    add,      // a round: part of the vector += received
    assign,   // a round: part of the vector = received
    begin,    // a round: prepare the vector that will be combined
    finish,   // a round is complete: the rule uses it; after a gradient the worker may continue
    combine,  // a phase of a round: `incoming`, in the order of the view's edges
    missing,  // the other half of this edge's last jump may never have been applied
  };
  Operation operation = Operation::jump;
  ExchangeKey exchange;  // of jump and missing
  Payload sent, received;
  Limits own, theirs;  // of jump: they crossed with the two snapshots
  std::vector<Payload> incoming;
  std::vector<Limits> limits;  // of combine: they came with `incoming`
  int phase = 0;
  double alpha_tilde = 0.5;
  size_t offset = 0, count = 0;  // of add and assign
  int vector = 0;                // of begin and finish: 0 the gradient, k the rule's vector k - 1
  int contributions = 1;  // of begin and finish: ranks in the sum; 0: none, so no step is taken
};

struct Arm {  // replaces the earlier time of this timer; kNever disarms it
  int timer = 0;
  double at = kNever;
};

struct RoundTrip {  // from a question that was sent once to its answer
  int peer = -1;
  double seconds = 0;
};

/// Filled during one event, then carried out. The memory may be on the stack of the owner.
struct Effects {
  explicit Effects(std::pmr::memory_resource* memory = std::pmr::get_default_resource())
      : sends(memory), requests(memory), arms(memory), suspects(memory), round_trips(memory) {}

  std::pmr::vector<Send> sends;
  std::pmr::vector<std::variant<Take, Write, Apply>> requests;  // to the state actor, in this order
  std::pmr::vector<Arm> arms;
  std::pmr::vector<int> suspects;  // ranks that answered neither a question nor its repeat
  std::pmr::vector<RoundTrip> round_trips;
};

struct Outgoing {  // the message for a neighbour in a phase of a round
  int peer = -1;   // -1: whichever rank the schedule names
  Payload payload;
  Limits limits = {};  // this rank's limits for that neighbour
};

struct Messages {  // the messages of a phase, written for the neighbours of `epoch`
  uint64_t epoch = 0;
  int phase = 0;
  std::vector<Outgoing> outgoing;
};

class Conversation {
 public:
  virtual ~Conversation() = default;

  virtual void view(double now, const View&, Effects&) = 0;  // the first one starts it
  virtual void timer(double now, int id, Effects&) = 0;
  virtual void frame(double now, const FrameHeader&, const Payload&, Effects&) = 0;
  /// This frame was not sent: the rank is unknown, or there is no link to it.
  virtual void unsent(double now, const FrameHeader&, Effects&) = 0;
  /// `limits`: this rank's; they are sent with the payload.
  virtual void taken(double now, uint64_t ticket, Payload, const Limits& limits, Effects&) = 0;
  /// The state scaled the data of this rank (-1: of all together), or did not use it because it was
  /// not finite.
  virtual void judged(int peer, Guard::Verdict) = 0;
  virtual void step_ready(double now, Messages, Effects&) = 0;  // a round, or its next phase
  /// The peer is gone in this incarnation and all earlier ones.
  virtual void peer_down(double now, int peer, uint32_t incarnation, Effects&) = 0;
  virtual void drain(double now, Effects&) = 0;  // begin nothing new
  virtual void leave(double now, Effects&) = 0;  // this rank ends: open exchanges are broken
  virtual bool quiet() const = 0;                // nothing is half-done
  virtual const Counts& counts() const = 0;
  virtual std::vector<EdgeCount> edge_counts() const = 0;
};

}  // namespace grapevine
