// Rule: a paper's arithmetic on the vectors of one rank. It knows kernels and times; no message
// type, thread or actor.
//
// One object per rank, owned by the state actor that owns the rank's buffers, and touched by that
// actor alone. `now` is in seconds, never decreases, and is an argument everywhere. Vectors have
// the layout's size and dtype. There are three forms, one per conversation: pairs, rounds with the
// neighbours, and rounds of everybody (collective).
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

  /// For a rule that has the momentum itself: its optimizer has none.
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
  double relay_delay = 0;             // mean over pairs, of a tree
};

class Rule {
 public:
  Rule() = default;  // passes run in the caller, at once
  explicit Rule(const Execution& execution) : execution_(execution) {}
  virtual ~Rule() = default;

  /// Writes the parameters at `now` into out: for gradients, snapshots, samples and reports.
  virtual void read(double now, Vec out) = 0;

  /// Starts anew from x: twin := x, optimizer and memories := 0.
  virtual void reset(double now, ConstVec x) = 0;

  /// All that it keeps, x first, as of `now`. Written to only after reset().
  virtual RuleState state(double now) = 0;

  /// Makes what it keeps for an edge, as the first exchange of these two ends would. Pairwise.
  virtual void meet(const ExchangeKey&) {}

  /// Pairwise: steps at once. Rounds: the local part of a round; copy is empty.
  virtual void on_gradient(double now, double lr, ConstVec g, Vec copy) = 0;

  /// A step that somebody else has made: what was done to `front` since it was `base` is taken as a
  /// step of length 1, with no optimizer of the rule's own. Both lie where execution_ does its
  /// passes, and become x; in rounds, x after the local part, so the caller reads it again when the
  /// round is over. `finite`, one fp64 number there, becomes 1 where all of front was finite, else
  /// 0: elsewhere nothing was done.
  virtual void take(double now, Vec front, Vec base, Vec finite) {
    take_as_gradient(now, 1, front, base, finite);
  }

  /// The same as a gradient, base - front, of which the rule's optimizer makes its step.
  void take_as_gradient(double now, double lr, Vec front, Vec base, Vec finite);

  /// The sum of what gossip conserves (x + x~, or x) over this rank, added to fp64 `sum`.
  virtual void add_conserved(double now, Vec sum) = 0;

  /// False where gossip moves the mean, or where a part of it is under way (relays, push-sum).
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
  /// Bytes of the largest snapshot.
  virtual size_t snapshot_bytes() const = 0;
  /// The parameters, or what is sent of them, and their phase (Lease::phase). `front`: the
  /// parameters and the steps that the rank has taken alone since (local_steps.hpp), which are sent
  /// in their place; empty: there are none.
  virtual void snapshot(double now, const ExchangeKey&, ConstVec front, Payload& out) = 0;
  /// `share` of what the difference of the two says, above 0 (actors/guard). Both ends apply the
  /// same exchanges of an edge in the same order, each exactly once and with the same share.
  virtual void jump(double now, const ExchangeKey&, const Payload& sent, const Payload& received,
                    double alpha_tilde, double share) = 0;
};

/// A neighbour's message in a phase of a round, empty if it was lost, and how much of the
/// difference that it makes is applied (actors/guard): 0 to 1.
struct Received {
  Payload payload;
  double share = 1;

  explicit operator bool() const { return static_cast<bool>(payload); }
};

/// Rules whose ranks trade messages with their neighbours, round by round. A round is
/// on_gradient, then per phase: write() the messages, combine() what came. Holds what they all
/// have: x, the optimizer and the neighbourhood. Methods that do not wait (method_registry.hpp)
/// combine() first, with what is new, and write() then.
class RoundRule : public Rule {
 public:
  explicit RoundRule(const RuleContext&);

  void read(double now, Vec out) override;
  void reset(double now, ConstVec x) override;
  /// x += u, the optimizer's step: x is the method's h (or y) from here to combine().
  void on_gradient(double now, double lr, ConstVec g, Vec copy) override;
  void add_conserved(double now, Vec sum) override;
  /// x; and the optimizer's, which follows the rank.
  RuleState state(double now) override;

  /// A new epoch, before the first round and between or in rounds: a phase may be written anew.
  virtual void enter(const Neighbourhood&);
  const Neighbourhood& neighbourhood() const { return near_; }  // of that epoch

  virtual int phases() const { return 1; }
  /// True: one message serves all receivers, and write() is called once, for edge 0.
  virtual bool broadcasts() const { return true; }
  virtual size_t message_bytes() const = 0;  // of the largest
  /// The message to neighbours[edge]. Has no effect on what a later write() gives.
  virtual void write(int phase, size_t edge, Payload& out) = 0;
  /// How far what neighbours[edge] sent is from what is here: the norm that its share scales. Not
  /// finite where the message is of no use. By default 0 where the message is finite.
  virtual double distance(size_t edge, const Payload&);
  /// Whether both ends of an edge find the same distance, so that both take the same share.
  virtual bool ends_agree() const { return false; }
  /// Ranks that such a message stands for: its distance is so many times that of their mean.
  virtual double ranks_in(size_t edge, const Payload&) {
    static_cast<void>(edge);
    return 1;
  }
  /// Whether the edges of a phase cannot be judged one by one: pull() is called then, and shares
  /// do not count.
  virtual bool pulls() const { return false; }
  /// Takes the messages in, each whole, and returns what combine() will add to x, which the caller
  /// may scale.
  virtual Vec pull(int phase, std::span<const Received> in) {
    static_cast<void>(phase), static_cast<void>(in);
    return {};
  }
  /// The step of this round, where on_gradient() does not move x by it; else empty.
  virtual ConstVec step() { return {}; }
  /// in[k] is what neighbours[k] sent (where the method's schedule says who sends: in the
  /// schedule's order); empty where it was lost. After the last phase x is the new one.
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

/// Rules whose ranks combine one vector per round, part by part: 0 is the gradient, k is
/// state().vectors[k - 1], which a change of the members brings together anew.
class CollectiveRule : public Rule {
 public:
  using Rule::Rule;

  virtual void begin(double now, int vector) = 0;
  virtual Vec part(size_t offset,
                   size_t count) = 0;  // of what is being combined
  virtual void finish(double now, int vector, int contributions, Vec copy) = 0;
};

}  // namespace grapevine
