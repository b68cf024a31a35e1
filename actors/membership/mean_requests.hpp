// MeanRequests: when this node may ask for a mean of all ranks, and which members ask too often. A
// value; `now` in seconds.
//
// Each request starts a new mean at all nodes, so a node that asks without end would let no mean
// finish. A node asks at most eight times in a row and then once every two seconds, unless it is
// alone. It allows other nodes twice as much, because their requests may arrive late. All nodes
// with the same counts ignore a node that asks for more.
#pragma once
#include <cstdint>
#include <map>
#include <vector>

namespace grapevine {

constexpr double kMeanEach_s = 2;
constexpr uint32_t kMeansInARow = 8;

class MeanRequests {
 public:
  void want() { wanted_ = true; }
  double due() const;  // when take() is true; infinity: none is wanted
  /// Whether this node asks now; then the request is counted, unless it is alone.
  bool take(double now, bool alone);

  /// `member` has asked `count` times in all, `before` this record. True: from now on it asks too
  /// often.
  bool hear(double now, uint32_t member, uint32_t before, uint32_t count);
  /// Its first record, or the first of another process of its name.
  bool begin(double now, uint32_t member, uint32_t count);
  const std::vector<uint32_t>& ignored() const { return ignored_; }  // members

 private:
  struct Asker {
    double since = 0;
    uint32_t last = 0;
    uint64_t asked = 0;  // since then; a count that falls is one more
    bool too_often = false;
  };

  bool judge(double now, uint32_t member, Asker&, uint32_t count);

  bool wanted_ = false;
  double until_ = 0;  // this node's own requests are accounted for until then
  std::map<uint32_t, Asker> askers_;
  std::vector<uint32_t> ignored_;
};

}  // namespace grapevine
