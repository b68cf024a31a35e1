// DeviceSample: sums the distances between the ranks of a device, on the device. Only two vectors
// are copied to the host, however many ranks there are: the first rank's x and the sum over all
// ranks. The distances are taken to that first x, so they are exact if the ranks are close to each
// other. about() converts them to distances from a reference in the host's memory.
#pragma once
#include <vector>

#include "kernels/memory/layout.hpp"
#include "kernels/memory/vec.hpp"

namespace grapevine {

class DeviceSample {
 public:
  /// Takes its vectors from the workspace: bytes_for() in all.
  DeviceSample(const Execution&, const ParameterLayout&);
  static size_t bytes_for(const ParameterLayout&);

  /// The memory for the x of another rank; call add() when the write is queued.
  Vec place() { return ranks_ == 0 ? first_ : next_; }
  void add();
  bool is_empty() const { return ranks_ == 0; }

  /// The vectors to copy to the host before about(), unless is_empty().
  std::vector<Buffer*> found() { return {&first_, &sum_, &squares_}; }
  struct About {
    int ranks = 0;
    double squares = 0;       // sum over the ranks of |x - reference|^2
    std::vector<double> sum;  // of x - reference
  };
  About about(const std::vector<double>& reference) const;

 private:
  const Execution& on_;
  Buffer first_, next_, sum_, blocks_, square_, squares_;
  int ranks_ = 0;
};

}  // namespace grapevine
