// Conversation: the message pattern of a method, as a state machine without I/O. Events in, effects
// out.
//
// Each rank has one, owned by its communicator. It works with ranks, counters, times and handles,
// and never with an actor, a socket, a clock, a thread or the numbers of a model. `now` is an
// argument everywhere and never decreases. The owner carries out the effects after each call.
//
// The answer to Take is taken(ticket, payload), the answer to Write is step_ready(...). Apply has
// no answer, unless the payload has moved this rank by less than its whole difference: then
// judged(...). The state actor serves the requests of one rank in the order in which they were
// sent, so a snapshot that is taken after an Apply includes it.
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
  int colour = 0;          // of a proper edge colouring: the first order of the neighbours
  double weight = 0;       // W_ij of the gossip matrix
  uint8_t trees = 1;       // bit k: the edge belongs to tree k
};

/// An epoch, cut to one rank. `ring`: all live ranks in order, where a method asks for them.
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
/// payload are set with the payload.
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

/// Asks for the data that the rule sends in an exchange, or for a part of the vector of a
/// collective round.
struct Take {
  uint64_t ticket = 0;
  ExchangeKey exchange;
  size_t offset = 0, count = 0;
};

struct Write {  // asks for the messages of a phase anew: the neighbours have changed since
  int phase = 0;
};

struct Apply {
  enum class Operation : uint8_t {
    jump,     // a finished pairwise exchange: own snapshot, the peer's, the alpha~ of both
    add,      // a round: part of the vector += received
    assign,   // a round: part of the vector = received
    begin,    // a round: what is to be combined, from its start
    finish,   // a round is complete: the rule takes it in; after a gradient the worker may go on
    combine,  // a phase of a round: `incoming`, in the order of the view's edges
    missing,  // the other half of this edge's last jump may never have been applied
  };
  Operation operation = Operation::jump;
  ExchangeKey exchange;  // of jump and missing
  Payload sent, received;
  Limits own, theirs;  // of jump: what crossed with the two
  std::vector<Payload> incoming;
  std::vector<Limits> limits;  // of combine: what came with `incoming`
  int phase = 0;
  double alpha_tilde = 0.5;
  size_t offset = 0, count = 0;  // of add and assign
  int vector = 0;         // of begin and finish: 0 the gradient, k the rule's vectors()[k - 1]
  int contributions = 1;  // of begin and finish: ranks in the sum; 0: none came, no step is taken
};

struct Arm {  // replaces the earlier time of this timer; kNever disarms it
  int timer = 0;
  double at = kNever;
};

struct RoundTrip {  // from a question, asked once, to its answer
  int peer = -1;
  double seconds = 0;
};

/// Filled during one event, then carried out, perhaps in memory of the carrier's stack.
struct Effects {
  explicit Effects(std::pmr::memory_resource* memory = std::pmr::get_default_resource())
      : sends(memory), requests(memory), arms(memory), suspects(memory), round_trips(memory) {}

  std::pmr::vector<Send> sends;
  std::pmr::vector<std::variant<Take, Write, Apply>> requests;  // to the state actor, in this order
  std::pmr::vector<Arm> arms;
  std::pmr::vector<int> suspects;  // ranks that let a question and its repeat go unanswered
  std::pmr::vector<RoundTrip> round_trips;
};

struct Outgoing {  // what a neighbour is to get in a phase of a round
  int peer = -1;   // -1: whoever gets something
  Payload payload;
  Limits limits = {};  // of this rank, towards that neighbour
};

struct Messages {  // of a phase, written under the neighbourhood of `epoch`
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
  /// This frame has not left: nobody is known by its number, or there is no link to it.
  virtual void unsent(double now, const FrameHeader&, Effects&) = 0;
  /// `limits`: this rank's, which go with the payload.
  virtual void taken(double now, uint64_t ticket, Payload, const Limits& limits, Effects&) = 0;
  /// The data from this rank (-1: from all together) was scaled, or was not finite and was not
  /// used.
  virtual void judged(int peer, Guard::Verdict) = 0;
  virtual void step_ready(double now, Messages, Effects&) = 0;  // a round, or its next phase
  /// The peer is gone in this incarnation, and in those before.
  virtual void peer_down(double now, int peer, uint32_t incarnation, Effects&) = 0;
  virtual void drain(double now, Effects&) = 0;  // begin nothing new
  virtual void leave(double now, Effects&) = 0;  // this rank ends: what is open is broken
  virtual bool quiet() const = 0;                // nothing is half-done
  virtual const Counts& counts() const = 0;
  virtual std::vector<EdgeCount> edge_counts() const = 0;
};

}  // namespace grapevine
