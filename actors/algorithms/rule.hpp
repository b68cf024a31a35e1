// Rule: a paper's arithmetic on the vectors of one rank. It knows kernels and times; no message,
// thread or actor.
//
// One object per rank, owned by the state actor that owns the rank's buffers, and touched by that
// actor alone. `now` is in seconds, never decreases, and is an argument everywhere. Vectors have
// the layout's size and dtype.
#pragma once
#include <vector>

#include "kernels/layout.hpp"
#include "kernels/lease.hpp"
#include "kernels/ops.hpp"

namespace grapevine {

/// A run of neighbouring layout entries that decay alike: optimizer passes go run by run.
struct DecayRun {
  size_t offset = 0, count = 0;
  bool decays = true;
};
std::vector<DecayRun> decay_runs(const ParameterLayout&);

struct OptimizerSettings {
  double momentum = 0;
  bool nesterov = false;
  double weight_decay = 0;
};

/// Mix by `attraction`, then the optimizer's step with g, on every run; empty views are left out
/// (kernels/ops.hpp).
void step_by_runs(const Execution&, const std::vector<DecayRun>&, double attraction,
                  const OptimizerSettings&, double lr, ConstVec g, Vec v, Vec x, Vec x_tilde,
                  Vec copy);

class Rule {
 public:
  virtual ~Rule() = default;

  /// Writes the parameters at `now` into out: for gradients, snapshots, samples and reports.
  virtual void look(double now, Vec out) = 0;

  /// Starts anew from x: twin := x, momentum := 0.
  virtual void reset(double now, ConstVec x) = 0;

  /// Pairwise: steps at once. Rounds: keeps g until finish(). copy (may be empty) receives the
  /// parameters after it.
  virtual void on_gradient(double now, double lr, ConstVec g, Vec copy) = 0;

  /// The sum of what gossip conserves (x + x~, or x) over this rank, added to fp64 `sum`.
  virtual void add_conserved(double now, Vec sum) = 0;
};

/// Rules whose ranks average in pairs.
class PairwiseRule : public Rule {
 public:
  virtual void set_eta(double now, double eta) = 0;   // 1/s
  virtual void snapshot(double now, Lease& out) = 0;  // parameters and their phase
  virtual void jump(double now, const Lease& sent, const Lease& received, double alpha_tilde) = 0;
};

/// Rules whose ranks combine one vector per round, part by part.
class RoundRule : public Rule {
 public:
  virtual Vec part(size_t offset, size_t count) = 0;  // of the vector that is combined
  virtual void finish(double now, int contributions, Vec copy) = 0;
};

}  // namespace grapevine
