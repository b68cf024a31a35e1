// The runs of reproductions: the actors on the virtual clock, many runs at the same time.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "actors/settings/settings.hpp"
#include "app/reproduce/reproduce.hpp"
#include "app/run/execute.hpp"

namespace grapevine {

class RoundMeans;

/// One run, described by options of `grapevine simulate`.
struct Run {
  std::string words;    // "method=d2 ranks=16 ...", any option; the others have simulate's defaults
  uint64_t rounds = 0;  // of each rank; 0: as the words say
  uint64_t seed = 1;
  bool sampled = false;  // a point of the curve after each round: curve[k - 1] after k
  bool tested = false;   // sets Summary::averaged
  double bulk_loss = 0;  // probability that a link loses a frame with a payload
  std::function<void(Settings&)> adjust;  // for settings without an option
  std::shared_ptr<Objective> objective;   // replaces the one of the words
};

/// Errors: an option is refused; the run failed; it was interrupted. `by_round`, if not null, gets
/// the mean after each round.
Result<Summary> perform(const Run&, std::shared_ptr<RoundMeans>* by_round = nullptr);

/// Calls work(k) for k < count, on `effort.threads` threads. The first error ends it.
Status for_all(size_t count, const Effort&, const std::function<Status(size_t)>& work);

Claims joined(const std::vector<Claims>&);

/// Performs all runs; the results are in their order.
Result<std::vector<Summary>> perform_all(const std::vector<Run>&, const Effort&);

/// An objective from a function, which sets the gradient of a rank and sees the rank's parameters
/// in each round.
class Probe final : public Objective {
 public:
  /// Writes gradient `index` of `rank` into g, which is 0; x are the rank's parameters after
  /// `index` rounds.
  using Gradient = std::function<void(int rank, uint64_t index, ConstVec x, Vec g)>;

  explicit Probe(ParameterLayout layout, Gradient gradient = {});

  const ParameterLayout& layout() const override { return layout_; }
  bool has_gradients() const override { return static_cast<bool>(gradient_); }
  void initial_point(int rank, Vec x) const override;
  double gradient(int thread, int rank, uint64_t index, ConstVec x, Vec g) override;
  Evaluation evaluate(int thread, int rank, ConstVec x) override;
  uint64_t gradients_per_pass(int) const override { return 0; }
  std::string description() const override { return "a probe"; }
  Status save_model(const std::string&, ConstVec) override { return Done{}; }

 private:
  ParameterLayout layout_;
  Gradient gradient_;
};

/// Wraps an objective and records the mean over ranks after each round: the parameters of a rank
/// after k rounds are those at its gradient k. The result of the last round is not recorded.
class RoundMeans final : public Objective {
 public:
  RoundMeans(std::shared_ptr<Objective> of, int ranks);

  /// f(mean) - minimum after this many rounds of every rank; NaN if a rank had fewer.
  double suboptimality(uint64_t rounds);

  const ParameterLayout& layout() const override { return of_->layout(); }
  bool has_gradients() const override { return of_->has_gradients(); }
  void initial_point(int rank, Vec x) const override { of_->initial_point(rank, x); }
  double gradient(int thread, int rank, uint64_t index, ConstVec x, Vec g) override;
  Evaluation evaluate(int thread, int rank, ConstVec x) override;
  uint64_t gradients_per_pass(int rank) const override { return of_->gradients_per_pass(rank); }
  std::string description() const override { return of_->description(); }
  Status save_model(const std::string& to, ConstVec x) override { return of_->save_model(to, x); }

 private:
  std::shared_ptr<Objective> of_;
  int ranks_;
  std::vector<double> sums_;  // rounds x dim
  std::vector<int> heard_;    // of each round: the number of recorded ranks
};

/// The parameters of a rank at the end, in double.
std::vector<double> parameters_of(const Summary&, int rank);

/// Payload bytes that one rank had sent after `rounds` of the run's `all` rounds, by the counters.
/// All ranks send the same number.
double payload_after(const Summary&, double bytes, double rounds, double all);

double geometric_mean(const std::vector<double>& values);

}  // namespace grapevine
