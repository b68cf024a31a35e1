// The content of `grapevine reproduce`: published figures, each with the present result of the
// actors.
//
// A reproduction is a family of claims that one command measures. A claim is an expected number, a
// measured number and a tolerance. All are measured in runs of the real actors on the virtual clock
// (runs.hpp).
#pragma once
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "kernels/base/result.hpp"

namespace grapevine {

/// How `measured` is compared with `expected`.
enum class Accept {
  absolute,  // |measured - expected| <= tolerance
  relative,  // |measured - expected| <= tolerance |expected|
  factor,    // their ratio, the larger over the smaller, <= tolerance
  at_most,   // measured <= expected; the tolerance is 0
  at_least,  // measured >= expected; the tolerance is 0
};

struct Claim {
  std::string what;
  double expected = 0, measured = 0;
  double tolerance = 0;
  Accept accept = Accept::relative;

  bool ok() const;  // false if a number is NaN
};

using Claims = std::vector<Claim>;

/// The amount of work; 0: as much as the reproduction's own figures need.
struct Effort {
  uint64_t seed = 1;   // the first one
  uint64_t seeds = 0;  // of each figure that is a mean
  uint64_t steps = 0;  // rounds of a run at most; with too few of them claims fail
  int threads = 0;     // runs at the same time; 0: one per core
  std::string data_dir;
  std::function<void(size_t done, size_t of)> progress;  // called after each run; may be empty

  uint64_t seeds_or(uint64_t own) const { return seeds > 0 ? seeds : own; }
  uint64_t rounds(uint64_t own) const { return steps > 0 && steps < own ? steps : own; }
};

struct Reproduction {
  const char* name;
  const char* sentence;
  bool in_all;  // part of `reproduce all`
  Result<Claims> (*run)(const Effort&);
};

std::span<const Reproduction> reproductions();

Result<Claims> reproduce_communications(const Effort&);
Result<Claims> reproduce_quadratics(const Effort&);
Result<Claims> reproduce_consensus(const Effort&);
Result<Claims> reproduce_losses(const Effort&);
Result<Claims> reproduce_scalar(const Effort&);
Result<Claims> reproduce_matrix(const Effort&);
Result<Claims> reproduce_delivery(const Effort&);
Result<Claims> reproduce_mean_estimation(const Effort&);
Result<Claims> reproduce_learning_rate(const Effort&);
Result<Claims> reproduce_relay_counts(const Effort&);
Result<Claims> reproduce_bytes(const Effort&);
Result<Claims> reproduce_local_steps(const Effort&);
Result<Claims> reproduce_straggler(const Effort&);
Result<Claims> reproduce_heterogeneity(const Effort&);

}  // namespace grapevine
