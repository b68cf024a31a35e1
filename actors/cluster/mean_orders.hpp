// MeanOrders: when a node starts the mean of a snapshot, and whom it answers, as a state machine
// without I/O.
//
// A node that needs a mean tells the membership that one more is requested: each request changes
// the serial number. Means are computed one after the other. A request that comes during one shares
// the next, which is requested as soon as this one is finished. A mean answers the requests that
// came before it started here.
#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

namespace grapevine {

class MeanOrders {
 public:
  enum class Asked {
    refused,  // too many wait
    shares,   // the mean that comes next
    first     // the membership is to spread that one more is wanted
  };
  /// One more asks, behind those who wait.
  Asked ask();

  /// Of the membership, while the ranks here take part: the serial that begins now, if it is not
  /// the one of before. 0: none is wanted.
  std::optional<uint64_t> wanted(uint64_t serial);

  struct Finished {
    size_t answered = 0;  // so many of the first that wait
    bool more = false;    // others wait: the membership is to spread that one more is wanted
  };
  /// The mean of that serial is here, or it is known that it will not come. Of one before the last
  /// that began: nothing follows.
  Finished finished(uint64_t serial);

 private:
  static constexpr size_t kWaitAtMost = 64;

  std::deque<uint64_t> waiting_;     // how many had begun here when each asked
  uint64_t begun_ = 0, serial_ = 0;  // how many have, and the last one's serial
  bool under_way_ = false;
};

}  // namespace grapevine
