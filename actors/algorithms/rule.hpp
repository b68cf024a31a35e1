// Rule: a paper's arithmetic on the vectors of one rank. It knows kernels and times, but no message
// type, thread or actor.
//
// One object per rank. The state actor that owns the rank's buffers owns it, and only this actor
// uses it. `now` is in seconds, never falls, and is an argument everywhere. Vectors have the
// layout's size and dtype. There are three forms, one per conversation: pairs, rounds with the
// neighbours, and collective rounds of all ranks.
#pragma once
#include <span>
#include <vector>

#include "actors/algorithms/exchange_key.hpp"
#include "actors/algorithms/optimizer.hpp"
#include "actors/algorithms/rule_settings.hpp"
#include "actors/algorithms/rule_state.hpp"
#include "kernels/memory/lease.hpp"

namespace grapevine {

struct RuleContext {
  int rank = 0;
  uint64_t seed = 1;
  const ParameterLayout& layout;
  Execution execution;
  RuleSettings settings;
  ConstVec x;  // the initial point

  /// For a rule that applies the momentum itself: its optimizer has none.
  RuleContext without_momentum() const {
    RuleContext context = *this;
    context.settings.optimizer.momentum = 0;
    return context;
  }
};

/// One epoch, as the rule of one rank sees it.
struct Neighbourhood {
  struct Neighbour {
    int rank = 0;
    double weight = 0;  // W_ij of the gossip matrix
    uint8_t trees = 1;  // bit k: the edge belongs to tree k
  };
  std::vector<Neighbour> neighbours;  // by rising rank
  double self_weight = 1;             // W_ii
  int ranks = 1;                      // all live ones
  double relay_delay = 0;             // mean over pairs in a tree
};

class Rule {
 public:
  Rule() = default;  // passes run in the calling thread, at once
  explicit Rule(const Execution& execution) : execution_(execution) {}
  virtual ~Rule() = default;

  /// Writes the parameters at `now` into out: for gradients, snapshots, samples and reports.
  virtual void read(double now, Vec out) = 0;

  /// Starts again from x: twin := x, optimizer and memories := 0.
  virtual void reset(double now, ConstVec x) = 0;

  /// Its whole state at `now`, with x first. Written to only after reset().
  virtual RuleState state(double now) = 0;

  /// Pairwise: makes the state of an edge, as the first exchange of these two ends would.
  virtual void meet(const ExchangeKey&) {}

  /// Pairwise: takes the step at once. Rounds: the local part of a round; copy is empty.
  virtual void on_gradient(double now, double lr, ConstVec g, Vec copy) = 0;

  /// Takes a step that was made outside: front - base becomes a step of length 1, without the
  /// rule's own optimizer. Both vectors are in the memory of execution_, and become x; in rounds, x
  /// after the local part, so the caller reads x again when the round is over. `finite`, one fp64
  /// number in that memory, becomes 1 if all of front was finite; else it becomes 0 and no step is
  /// taken.
  virtual void take(double now, Vec front, Vec base, Vec finite) {
    take_as_gradient(now, 1, front, base, finite);
  }

  /// Takes base - front as a gradient, from which the rule's optimizer makes a step.
  void take_as_gradient(double now, double lr, Vec front, Vec base, Vec finite);

  /// Adds what gossip conserves in this rank (x + x~, or x) to fp64 `sum`.
  virtual void add_conserved(double now, Vec sum) = 0;

  /// False if gossip changes the mean, or if a part of it is under way (relays, push-sum).
  virtual bool conserves() const { return true; }

  virtual RuleCounts counts() const { return {}; }

 protected:
  Execution execution_;
};

/// Rules whose ranks average in pairs.
class PairwiseRule : public Rule {
 public:
  using Rule::Rule;

  virtual void set_eta(double now, double eta) = 0;  // 1/s
  /// If measures_steps(): as on_gradient, and returns the length of the step, |x after - x before|
  /// at `now`. A rule can measure it while the vectors are in the cache.
  virtual bool measures_steps() const { return false; }
  virtual double measured_step(double now, double lr, ConstVec g, Vec copy) {
    on_gradient(now, lr, g, copy);
    return 0;
  }
  /// If measures_steps(): as take(), and returns the length of the step. A script may write `front`
  /// at the same time, so the rule reads each number of it once.
  virtual double measured_take(double now, Vec front, Vec base, Vec finite) {
    take(now, front, base, finite);
    return 0;
  }
  /// Bytes of the largest snapshot.
  virtual size_t snapshot_bytes() const = 0;
  /// The parameters, or the part of them that is sent, with their phase (Lease::phase). `front`:
  /// the parameters with the steps that the rank has since taken alone (local_steps.hpp), which are
  /// sent instead; empty: there are none.
  virtual void snapshot(double now, const ExchangeKey&, ConstVec front, Payload& out) = 0;
  /// Applies `share` (above 0, actors/guard) of the difference of the two messages. Both ends apply
  /// the same exchanges of an edge in the same order, each exactly once and with the same share.
  virtual void jump(double now, const ExchangeKey&, const Payload& sent, const Payload& received,
                    double alpha_tilde, double share) = 0;
};

/// A neighbour's message in a phase of a round, empty if it was lost, and the share of its
/// difference that is applied (actors/guard): 0 to 1.
struct Received {
  Payload payload;
  double share = 1;

  explicit operator bool() const { return static_cast<bool>(payload); }
};

/// Rules whose ranks exchange messages with their neighbours, round by round. A round is
/// on_gradient(), then in each phase write() and combine(). Methods that do not wait
/// (method_registry.hpp) call combine() first, with the new messages, and then write(). Holds the
/// common state: x, the optimizer and the neighbourhood.
class RoundRule : public Rule {
 public:
  explicit RoundRule(const RuleContext&);

  void read(double now, Vec out) override;
  void reset(double now, ConstVec x) override;
  /// x += u, the optimizer's step: x is the method's h (or y) until combine().
  void on_gradient(double now, double lr, ConstVec g, Vec copy) override;
  void add_conserved(double now, Vec sum) override;
  /// x, and the optimizer's buffers, which follow the rank.
  RuleState state(double now) override;

  /// Starts a new epoch: before the first round, between rounds or in one. A phase may then be
  /// written again.
  virtual void enter(const Neighbourhood&);
  const Neighbourhood& neighbourhood() const { return near_; }  // of that epoch

  virtual int phases() const { return 1; }
  /// True: one message serves all receivers, and write() is called once, for edge 0.
  virtual bool broadcasts() const { return true; }
  virtual size_t message_bytes() const = 0;  // of the largest message
  /// The message to neighbours[edge]. It does not change the results of later calls.
  virtual void write(int phase, size_t edge, Payload& out) = 0;
  /// The norm of the difference that the message of neighbours[edge] makes here; its share scales
  /// this norm. Not finite if the message is unusable. By default 0 if the message is finite.
  virtual double distance(size_t edge, const Payload&);
  /// Whether both ends of an edge compute the same distance, so that both take the same share.
  virtual bool ends_agree() const { return false; }
  /// The number of ranks in such a message: its distance is that many times the distance of their
  /// mean.
  virtual double ranks_in(size_t edge, const Payload&) {
    static_cast<void>(edge);
    return 1;
  }
  /// Whether a phase cannot be judged edge by edge: then pull() is called, and shares are not used.
  virtual bool pulls() const { return false; }
  /// Takes in the messages, each in full, and returns what combine() will add to x. The caller may
  /// scale it.
  virtual Vec pull(int phase, std::span<const Received> in) {
    static_cast<void>(phase), static_cast<void>(in);
    return {};
  }
  /// This round's step, if on_gradient() does not add it to x; else empty.
  virtual ConstVec step() { return {}; }
  /// in[k] is the message of neighbours[k] (or, if a schedule names the senders, in the schedule's
  /// order); empty if it was lost. After the last phase x is the new one.
  virtual void combine(double now, int phase, std::span<const Received> in) = 0;

 protected:
  size_t size() const { return x_.size(); }
  DType dtype() const { return x_.dtype(); }

  int rank_;
  uint64_t seed_;
  ParameterLayout layout_;
  RuleSettings settings_;
  Optimizer optimizer_;
  Buffer x_;
  Neighbourhood near_;
};

/// Rules whose ranks combine one vector per round, part by part. Vector 0 is the gradient. Vector k
/// is state().vectors[k - 1], which the ranks average again after a change of the members.
class CollectiveRule : public Rule {
 public:
  using Rule::Rule;

  /// The number of vectors that the ranks average after a change of the members.
  virtual int vectors(double now) { return static_cast<int>(state(now).vectors.size()); }
  virtual void begin(double now, int vector) = 0;
  virtual Vec part(size_t offset,
                   size_t count) = 0;  // of the vector that is being combined
  /// Asks a device for the numbers that finish() needs.
  virtual void ask_sums(double /*now*/, int /*vector*/) {}
  virtual void finish(double now, int vector, int contributions, Vec copy) = 0;
};

}  // namespace grapevine
