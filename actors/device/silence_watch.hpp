// SilenceWatch: detects that a device no longer answers. Each device call has a deadline: 10 s plus
// ten times the longest such call so far. A device that misses it counts as failed.
//
// Only the owner of the device calls it.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

namespace grapevine {

class SilenceWatch {
 public:
  enum class Kind : uint8_t { pass, gradient };
  /// In seconds. The first gradient of a network takes longer: it loads code and tries algorithms.
  struct Patience {
    double least_s = 10, times = 10, first_gradient_s = 30;
  };

  /// Drop it when the call has ended, on any thread.
  using Expected = std::shared_ptr<const void>;
  Expected expect(Kind);

  void set_patience(const Patience& patience) { patience_ = patience; }
  bool expects() const;
  /// Call it about once a second while a call is expected.
  bool is_silent(double now_s);

 private:
  struct One {
    std::weak_ptr<const void> it;
    Kind kind;
    double since_s = -1;  // when it was first seen here
  };
  void forget_what_came();
  double limit_s(Kind) const;

  Patience patience_;
  double now_s_ = 0;  // the time of the last check
  std::vector<One> expected_;
  double longest_s_[2] = {0, -1};  // by kind; -1: none has ended
};

}  // namespace grapevine
