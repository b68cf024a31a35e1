// Reports: samples, parameters and counters of the ranks of a state actor.
//
// Invariant: nothing here changes a rank, and every reported vector is in the host's memory.
#pragma once
#include <functional>
#include <memory>

#include "actors/state/ranks.hpp"

namespace grapevine {

class Reports {
 public:
  explicit Reports(Ranks& ranks) : ranks_(ranks) {}

  void sample(const Sample&, std::function<void(SampleReply)> reply);
  void tell(StateRank&, std::function<void(RankParameters)> reply);
  /// `broken_after_norm`: the sum of the norms of jumps whose other half may be missing.
  void collect(double broken_after_norm, std::function<void(Collected)> reply);
  StateReport report(double broken_after_norm);

 private:
  using Seen = std::function<void(StateRank&, const std::shared_ptr<Buffer>& x)>;
  std::function<bool(const StateRank&)> in_sample() const;
  void read_all(size_t place, Seen see, std::function<void()> done);
  void sample_on_device(const Sample&, std::function<void(SampleReply)> reply);
  std::shared_ptr<Buffer> conserved();

  Ranks& ranks_;
};

}  // namespace grapevine
