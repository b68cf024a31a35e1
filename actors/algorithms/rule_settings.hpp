// RuleSettings: the settings of methods. RuleCounts: the counters of a rule, for reports. Values.
#pragma once
#include <cstdint>
#include <string>

namespace grapevine {

/// The local step (optimizer.hpp).
enum class OptimizerKind { sgd, adam, adamw };

struct OptimizerSettings {
  double momentum = 0;
  double weight_decay = 0;
  bool nesterov = false;
  OptimizerKind kind = OptimizerKind::sgd;
  double beta2 = 0.999;  // of adam and adamw: decay of the mean square of the gradients
};

/// The replacement for relay contributions that have not arrived (relaysgd.hpp).
enum class Normalisation { counts, own, x0, previous };

/// How a round handles a neighbour's message that a link has lost.
enum class Missing {
  resend,       // request it until it comes
  renormalise,  // continue without; the other weights are scaled up to a sum of 1
  own,          // continue; the rank's own value gets its weight
  reuse,        // continue with the last one that came
  shrink,       // continue; its weight is lost (an error of a published code, kept for comparison)
};

/// How the messages of pairs are sent: in the type of the model, or rounded to bf16.
enum class Wire { full, bf16 };

/// The settings of methods. Each rule reads those that it needs; the registry refuses the others.
struct RuleSettings {
  OptimizerSettings optimizer;
  Normalisation normalisation = Normalisation::counts;
  Missing missing = Missing::resend;
  std::string compress;  // a compressor with its arguments; empty: the method's own, or none
  Wire wire = Wire::full;
  double gamma = 1;                 // consensus step size
  bool relay_lr = true;             // scale the learning rate by 1 + the mean relay delay
  bool reference_schedule = false;  // SGP: the published code's order of the shifts
};

/// The inner steps of a rank: its rule gets the sum of `count` steps of an inner optimizer as one
/// gradient (actors/state/local_steps.hpp). The optimizer of the rule is then the outer one.
struct InnerSteps {
  uint64_t count = 1;
  double outer_lr = 0;  // of the rule's steps; 0: no inner steps, the rule takes the gradients
  OptimizerSettings optimizer;  // the inner one

  explicit operator bool() const { return outer_lr > 0; }
};

inline RuleSettings with_optimizer(const OptimizerSettings& optimizer) {
  RuleSettings settings;
  settings.optimizer = optimizer;
  return settings;
}

struct RuleCounts {
  double relay_count = 0;  // ranks whose contribution is in the average (relay methods)
  double push_weight = 0;  // of push-sum
  uint64_t reseeded = 0;   // edges whose factors differed and started again
};

}  // namespace grapevine
