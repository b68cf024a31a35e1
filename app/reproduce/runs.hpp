// The runs that reproductions are made of: the actors on the virtual clock, many runs at once.
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

/// One run, in the words of `grapevine simulate`.
struct Run {
  std::string words;    // "method=d2 ranks=16 ...", any option; what is not said is simulate's
  uint64_t rounds = 0;  // so many of each rank; 0: until the words say
  uint64_t seed = 1;
  bool sampled = false;  // a point of the curve after each round: curve[k - 1] after k
  bool tested = false;   // Summary::averaged
  double bulk_loss = 0;  // probability that a link loses a frame with a payload
  std::function<void(Settings&)> adjust;  // what no option says
  std::shared_ptr<Objective> objective;   // in place of the one that the words name
};

/// Errors: what the words ask for is refused; the run failed; it was interrupted. `by_round`, where
/// it is not null, becomes what the run was like round by round.
Result<Summary> perform(const Run&, std::shared_ptr<RoundMeans>* by_round = nullptr);

/// Calls work(k) for k < count, on as many threads as the effort says. The first error ends it.
Status for_all(size_t count, const Effort&, const std::function<Status(size_t)>& work);

Claims joined(const std::vector<Claims>&);

/// All of them, in their order.
Result<std::vector<Summary>> perform_all(const std::vector<Run>&, const Effort&);

/// A problem that a function makes: what a rank adds to its gradient, and a place to watch every
/// rank's parameters from, round by round.
class Probe final : public Objective {
 public:
  /// Writes gradient `index` of `rank` into g, which is 0; x is what the rank has after `index`
  /// rounds.
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

/// Another objective, and the mean over ranks after each round: what rank i has after k rounds is
/// where it takes its gradient k, whenever that is. A last round that nothing follows is not seen.
class RoundMeans final : public Objective {
 public:
  RoundMeans(std::shared_ptr<Objective> of, int ranks);

  /// f(mean) - minimum after so many rounds of every rank; NaN where a rank had fewer.
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
  std::vector<int> heard_;    // of each round, from so many ranks
};

/// The parameters of a rank at the end, in double.
std::vector<double> parameters_of(const Summary&, int rank);

/// Payload bytes that one rank had sent when `rounds` of the run's `all` rounds were over, by the
/// counters: all ranks send alike.
double payload_after(const Summary&, double bytes, double rounds, double all);

double geometric_mean(const std::vector<double>& values);

}  // namespace grapevine
