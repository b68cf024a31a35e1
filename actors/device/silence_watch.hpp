// SilenceWatch: detects that a device does not answer any more. Each device call has a deadline: 10
// s plus ten times the longest such call so far. A device that misses it is treated as failed.
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
  /// s; the first gradient of a network loads and tries out much that no later one does.
  struct Patience {
    double least_s = 10, times = 10, first_gradient_s = 30;
  };

  /// To be dropped when it has come, on whatever thread.
  using Expected = std::shared_ptr<const void>;
  Expected expect(Kind);

  void set_patience(const Patience& patience) { patience_ = patience; }
  bool expects() const;
  /// To be asked every second or so while something is expected.
  bool is_silent(double now_s);

 private:
  struct One {
    std::weak_ptr<const void> it;
    Kind kind;
    double since_s = -1;  // as first seen here
  };
  void forget_what_came();
  double limit_s(Kind) const;

  Patience patience_;
  double now_s_ = 0;  // when it was asked last
  std::vector<One> expected_;
  double longest_s_[2] = {0, -1};  // by kind, of those that have come; -1: none has
};

}  // namespace grapevine
